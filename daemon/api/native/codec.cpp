#include "daemon/api/native/codec.hpp"

#include <array>

#include "daemon/api/native/explain.hpp"
#include "daemon/api/openai/errors.hpp"

namespace flyball::api::native {
namespace {

enum RouteId : std::uint8_t { kHealthz, kReadyz, kMetrics, kExplain, kReceipt };

constexpr std::array kRoutes{
    Route{"GET", "/healthz", Access::open, BodyType::none, kObserve, false, kHealthz},
    Route{"GET", "/readyz", Access::open_viewer, BodyType::none, kObserve, false, kReadyz},
    Route{"GET", "/metrics", Access::viewer, BodyType::none, kObserve, false, kMetrics},
    Route{"POST", "/v1/route/explain", Access::app, BodyType::json, "explain", false, kExplain},
    Route{"GET", "/v1/route/receipts/", Access::app, BodyType::none, "receipt", false, kReceipt},
};

constexpr std::array kKeys{KeyPlace{"Authorization", "Bearer"}};

Result<Operation> parse(const Route& route, const http::Request& request) {
  switch (route.id) {
    case kHealthz:
      return TellHealth{};
    case kReadyz:
      return TellReadiness{};
    case kMetrics:
      return TellMetrics{};
    case kReceipt:
      return FindReceipt{std::string(last_segment(request.path()))};
    default:
      break;
  }
  auto question = parse_explain(request.body);
  if (!question) return pass(question);
  return std::move(*question);
}

}  // namespace

constinit const Codec kCodec{"flyball", kRoutes, kKeys, parse, openai::error_response};

}  // namespace flyball::api::native
