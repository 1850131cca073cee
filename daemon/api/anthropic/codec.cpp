#include "daemon/api/anthropic/codec.hpp"

#include <array>
#include <utility>

#include "config/json_reader.hpp"
#include "daemon/api/anthropic/errors.hpp"
#include "daemon/api/anthropic/models.hpp"
#include "daemon/api/anthropic/request.hpp"

namespace flyball::api::anthropic {
namespace {

enum RouteId : std::uint8_t { kMessagesRoute, kCountRoute, kModelsRoute, kModelRoute };

// OpenAI's API has the paths of models, too. Every client of this API names the version that it speaks.
constexpr std::string_view kVersion = "anthropic-version";

constexpr std::array kRoutes{
    Route{"POST", "/v1/messages", Access::app, BodyType::json, "chat", true, kMessagesRoute},
    Route{"POST", "/v1/messages/count_tokens", Access::app, BodyType::json, "tokenize", true, kCountRoute},
    Route{"GET", "/v1/models", Access::app, BodyType::none, "models", false, kModelsRoute, {}, kVersion},
    Route{"GET", "/v1/models/", Access::app, BodyType::none, "models", false, kModelRoute, {}, kVersion},
};

constexpr std::array kKeys{KeyPlace{"x-api-key", ""}, KeyPlace{"Authorization", "Bearer"}};

Result<Operation> parse(const Route& route, const http::Request& request) {
  if (route.id == kModelsRoute) return ListModels{models_answer};
  if (route.id == kModelRoute) {
    auto name = path_id(route, request.path());
    if (!name) return pass(name);
    return ShowModel{.name = std::move(*name), .answer = model_answer};
  }
  auto body = read_packed(request.body);
  if (!body) return pass(body);
  auto generate = route.id == kCountRoute ? parse_count_tokens(body->view()) : parse_messages(body->view());
  if (!generate) return pass(generate);
  return std::move(*generate);
}

}  // namespace

constinit const Codec kCodec{"anthropic",    kRoutes,      kKeys,          parse,
                             error_response, "request-id", "/v1/messages/"};

}  // namespace flyball::api::anthropic
