#include "daemon/api/native/codec.hpp"

#include <array>

#include "daemon/api/native/explain.hpp"
#include "daemon/api/native/model_and_engine.hpp"
#include "daemon/api/openai/errors.hpp"

namespace flyball::api::native {
namespace {

enum RouteId : std::uint8_t {
  kHealthz,
  kReadyz,
  kMetrics,
  kExplain,
  kReceipt,
  kEngines,
  kPrefixes,
  kLoad,
  kUnload
};

constexpr std::array kRoutes{
    Route{"GET", "/healthz", Access::open, BodyType::none, kObserve, false, kHealthz},
    Route{"GET", "/health", Access::open, BodyType::none, kObserve, false, kHealthz},
    Route{"GET", "/readyz", Access::open_viewer, BodyType::none, kObserve, false, kReadyz},
    Route{"GET", "/metrics", Access::viewer, BodyType::none, kObserve, false, kMetrics},
    Route{"POST", "/v1/route/explain", Access::app, BodyType::json, "explain", false, kExplain},
    Route{"GET", "/v1/route/receipts/", Access::app, BodyType::none, "receipt", false, kReceipt},
    Route{"GET", "/v1/engines", Access::operator_only, BodyType::none, kObserve, false, kEngines},
    Route{"GET", "/v1/prefixes", Access::viewer, BodyType::none, kObserve, false, kPrefixes},
    Route{"POST", "/v1/engines/load", Access::operator_only, BodyType::json, "load", true, kLoad},
    Route{"POST", "/v1/engines/unload", Access::operator_only, BodyType::json, "unload", true, kUnload},
};

constexpr std::array kKeys{KeyPlace{"Authorization", "Bearer"}};

http::Response unloaded_answer(const Unloaded& unloaded) {
  return json_response(nlohmann::ordered_json{{"model", unloaded.id}, {"unloaded", unloaded.engines}}.dump());
}

Result<Operation> parse(const Route& route, const http::Request& request) {
  switch (route.id) {
    case kHealthz:
      return TellHealth{};
    case kReadyz:
      return TellReadiness{};
    case kMetrics:
      return TellMetrics{};
    case kReceipt: {
      auto id = path_id(route, request.path());
      if (!id) return pass(id);
      return FindReceipt{std::move(*id)};
    }
    case kEngines:
      return ListEngines{};
    case kPrefixes:
      return ListPrefixes{};
    case kLoad:
    case kUnload: {
      auto asked = parse_model_and_engine(request.body);
      if (!asked) return pass(asked);
      if (route.id == kLoad) return LoadModel{std::move(asked->model), std::move(asked->engine)};
      return UnloadModel{
          .model = std::move(asked->model), .engine = std::move(asked->engine), .answer = unloaded_answer};
    }
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
