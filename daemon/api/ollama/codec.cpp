#include "daemon/api/ollama/codec.hpp"

#include <array>
#include <string>
#include <utility>

#include "config/json_reader.hpp"
#include "daemon/api/ollama/errors.hpp"
#include "daemon/api/ollama/load.hpp"
#include "daemon/api/ollama/models.hpp"
#include "daemon/api/ollama/request.hpp"

namespace flyball::api::ollama {
namespace {

enum RouteId : std::uint8_t {
  kGreetingRoute,
  kVersionRoute,
  kTagsRoute,
  kPsRoute,
  kShowRoute,
  kChatRoute,
  kGenerateRoute,
  kManages,
  kUnserved
};

// A path by which clients change what models there are.
constexpr Route manages(std::string_view path, std::string_view method = "POST") {
  return {method, path, Access::app, BodyType::json, "unserved", false, kManages};
}

constexpr std::array kRoutes{
    Route{"GET", "/", Access::open, BodyType::none, "greeting", false, kGreetingRoute},
    Route{"GET", "/api/version", Access::open, BodyType::none, "version", false, kVersionRoute},
    Route{"GET", "/api/tags", Access::app, BodyType::none, "models", false, kTagsRoute},
    Route{"GET", "/api/ps", Access::app, BodyType::none, "models", false, kPsRoute},
    Route{"POST", "/api/show", Access::app, BodyType::json, "models", false, kShowRoute},
    Route{"POST", "/api/chat", Access::app, BodyType::json, "chat", true, kChatRoute},
    Route{"POST", "/api/generate", Access::app, BodyType::json, "generate", true, kGenerateRoute},
    manages("/api/pull"),
    manages("/api/push"),
    manages("/api/create"),
    manages("/api/copy"),
    manages("/api/delete", "DELETE"),
    unserved_route("POST", "/api/embed", config::Feature::embeddings, kUnserved),
    unserved_route("POST", "/api/embeddings", config::Feature::embeddings, kUnserved),
};

constexpr std::array kKeys{KeyPlace{"Authorization", "Bearer"}};

// The version of Ollama whose API is spoken here: its clients refuse servers that say they are older than the
// fields that they send.
constexpr std::string_view kVersionAnswer = R"({"version":"0.11.0"})";

// By which Ollama's command line and other clients find out whether a server is there: byte for byte.
Tell greeting() {
  Tell out;
  out.answer.body = "Ollama is running";
  out.answer.content_type = "text/plain; charset=utf-8";
  return out;
}

Result<Operation> parse(const Route& route, const http::Request& request) {
  switch (route.id) {
    case kGreetingRoute:
      return greeting();
    case kVersionRoute:
      return Tell{json_response(std::string(kVersionAnswer))};
    case kTagsRoute:
      return ListModels{tags_answer};
    case kPsRoute:
      return ListModels{ps_answer};
    case kManages:
      return fail(ErrorCode::unsupported_feature,
                  std::string(route.path) +
                      " is not served: the models are those that config.yaml lists, and its operator changes "
                      "them.");
    case kUnserved:  // a feature that the table has come to serve is parsed here first
      return fail(ErrorCode::internal, "The path has no parser.");
    default:
      break;
  }
  auto body = read_packed(request.body);
  if (!body) return pass(body);
  if (route.id == kShowRoute) {
    auto shown = parse_show(body->view());
    if (!shown) return pass(shown);
    return std::move(*shown);
  }
  const bool is_chat = route.id == kChatRoute;
  auto generate = is_chat ? parse_chat(body->view()) : parse_generate(body->view());
  if (!generate) return pass(generate);
  if (generate->base.wanted == Wanted::answer || !is_zero(body->view().member("keep_alive")))
    return std::move(*generate);
  auto unload = unload_of(std::move(*generate), is_chat ? Writer::Shape::chat : Writer::Shape::text);
  if (!unload) return pass(unload);
  return std::move(*unload);
}

}  // namespace

constinit const Codec kCodec{"ollama", kRoutes, kKeys, parse, error_response, {}, "/api/"};

}  // namespace flyball::api::ollama
