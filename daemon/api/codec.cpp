#include "daemon/api/codec.hpp"

#include "config/name_list.hpp"

namespace flyball::api {
namespace {

// `path` is `plain` but for slashes that base URLs ending in '/' leave: doubled ones, and some at its end.
bool spells(std::string_view path, std::string_view plain) noexcept {
  std::size_t at = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '/' && (at == plain.size() || (i > 0 && path[i - 1] == '/'))) continue;
    if (at == plain.size() || path[i] != plain[at]) return false;
    ++at;
  }
  return at == plain.size();
}

// `loosely`: the path may have slashes to spare. Those of operators and viewers may not: a proxy that refuses
// /metrics refuses its one spelling. Nor may those with ids, which may hold any slash.
bool matches(const Route& route, const http::Request& head, bool loosely) noexcept {
  const std::string_view path = head.path();
  if (!route.header.empty() && head.field(route.header).empty()) return false;
  if (loosely) {
    const bool is_open = route.access == Access::app || route.access == Access::open;
    return is_open && !route.takes_id() && spells(path, route.path);
  }
  if (!route.takes_id()) return path == route.path;
  return path.starts_with(route.path) &&
         path.find_first_not_of('/', route.path.size()) != std::string_view::npos;
}

std::string_view without_parameters(std::string_view content_type) noexcept {
  content_type = content_type.substr(0, content_type.find(';'));
  while (!content_type.empty() && content_type.back() == ' ') content_type.remove_suffix(1);
  return content_type;
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// All that are served: a client whose base URL is wrong looks for the one that it wants. Routes with a header
// are paths that another API has, too.
std::string listed_routes(Codecs codecs) {
  std::string out;
  for (const Route& route : routes(codecs))
    if (!route.asks_for && route.header.empty())
      out += (out.empty() ? "" : ", ") + std::string(route.method) + ' ' + std::string(route.path) +
             (route.takes_id() ? "{id}" : "");
  return out;
}

}  // namespace

bool has_type(std::string_view content_type, BodyType type) noexcept {
  return type == BodyType::none ||
         http::equals_ignoring_case(without_parameters(content_type), to_string(type));
}

bool is_type_unsaid(std::string_view content_type) noexcept {
  const std::string_view type = without_parameters(content_type);
  return type.empty() || http::equals_ignoring_case(type, "application/x-www-form-urlencoded") ||
         http::equals_ignoring_case(type, "text/plain");
}

std::string_view to_string(BodyType type) noexcept {
  switch (type) {
    case BodyType::none:
      break;
    case BodyType::json:
      return "application/json";
    case BodyType::multipart:
      return "multipart/form-data";
  }
  return {};
}

Result<std::string> path_id(const Route& route, std::string_view path) {
  const std::string_view sent = path.substr(route.path.size());
  std::string id;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (sent[i] != '%') {
      id.push_back(sent[i]);
      continue;
    }
    const int high = i + 1 < sent.size() ? hex_digit(sent[i + 1]) : -1;
    const int low = i + 2 < sent.size() ? hex_digit(sent[i + 2]) : -1;
    if (high < 0 || low < 0)
      return fail(ErrorCode::invalid_value,
                  "The id in the path has a '%' without two hexadecimal digits behind it, at byte " +
                      std::to_string(i) + "; a '%' of its own is written '%25'.",
                  {}, "byte " + std::to_string(i));
    id.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return id;
}

std::vector<Route> routes(Codecs codecs) {
  std::vector<Route> out;
  for (const Codec* codec : codecs) out.insert(out.end(), codec->routes.begin(), codec->routes.end());
  return out;
}

RouteMatch find_route(Codecs codecs, const http::Request& head) {
  RouteMatch out;
  const std::string_view method = head.method == "HEAD" ? "GET" : std::string_view(head.method);
  for (const bool loosely : {false, true}) {
    for (const Codec* codec : codecs)
      for (const Route& route : codec->routes) {
        if (!matches(route, head, loosely)) continue;
        if (out.codec == nullptr) out.codec = codec;
        const std::string_view allowed = route.method == "GET" ? "GET, HEAD" : route.method;
        if (!out.allow.contains(allowed)) out.allow.append(out.allow.empty() ? "" : ", ").append(allowed);
        if (route.method != method || out.route != nullptr) continue;
        out.codec = codec;
        out.route = &route;
      }
    if (out.codec != nullptr) return out;
  }
  out.there_is = listed_routes(codecs);
  std::string_view path = head.path();
  while (path.starts_with("//")) path.remove_prefix(1);
  for (const Codec* codec : codecs)
    if (!codec->paths.empty() && path.starts_with(codec->paths)) out.nearest = codec;
  return out;
}

}  // namespace flyball::api
