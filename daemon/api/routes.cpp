#include "daemon/api/routes.hpp"

#include <array>

#include "daemon/http/message.hpp"

namespace flyball::api {
namespace {

constexpr std::array kRoutes{
    Route{RouteId::healthz, "GET", "/healthz", Access::open},
    Route{RouteId::readyz, "GET", "/readyz", Access::open},
    Route{RouteId::metrics, "GET", "/metrics", Access::local_or_key},
    Route{RouteId::models, "GET", "/v1/models", Access::app},
    Route{RouteId::model, "GET", "/v1/models/", Access::app},
    Route{RouteId::chat_completions, "POST", "/v1/chat/completions", Access::app},
    Route{RouteId::completions, "POST", "/v1/completions", Access::app},
    Route{RouteId::explain, "POST", "/v1/route/explain", Access::app},
    Route{RouteId::receipt, "GET", "/v1/route/receipts/", Access::app},
};

bool matches(const Route& route, std::string_view path) noexcept {
  if (!route.path.ends_with('/')) return path == route.path;
  return path.starts_with(route.path) && path.size() > route.path.size() &&
         path.find('/', route.path.size()) == std::string_view::npos;
}

}  // namespace

std::span<const Route> routes() noexcept {
  return kRoutes;
}

RouteMatch find_route(std::string_view method, std::string_view path) {
  RouteMatch out;
  if (method == "HEAD") method = "GET";
  for (const Route& route : kRoutes) {
    if (!matches(route, path)) continue;
    if (!out.allow.empty()) out.allow += ", ";
    out.allow += route.method == "GET" ? "GET, HEAD" : route.method;
    if (route.method == method) out.route = &route;
  }
  return out;
}

bool is_json(std::string_view content_type) noexcept {
  content_type = content_type.substr(0, content_type.find(';'));
  while (!content_type.empty() && content_type.back() == ' ') content_type.remove_suffix(1);
  return http::equals_ignoring_case(content_type, "application/json");
}

std::string_view last_segment(std::string_view path) noexcept {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace flyball::api
