#include "daemon/api/openai/codec.hpp"

#include <array>

#include "config/json_reader.hpp"
#include "daemon/api/json_text.hpp"
#include "daemon/api/openai/completion_request.hpp"
#include "daemon/api/openai/errors.hpp"

namespace flyball::api::openai {
namespace {

enum RouteId : std::uint8_t { kModels, kModel, kChatCompletions, kLegacyCompletions };

constexpr std::array kRoutes{
    Route{"GET", "/v1/models", Access::app, BodyType::none, "models", false, kModels},
    Route{"GET", "/v1/models/", Access::app, BodyType::none, "models", false, kModel},
    Route{"POST", "/v1/chat/completions", Access::app, BodyType::json, "chat", true, kChatCompletions},
    Route{"POST", "/v1/completions", Access::app, BodyType::json, "completion", true, kLegacyCompletions},
};

constexpr std::array kKeys{KeyPlace{"Authorization", "Bearer"}};

void append_model(std::string& out, const ListedModel& model, std::int64_t created) {
  out.append(R"({"id":)");
  append_json_string(out, model.entry->id);
  out.append(R"(,"object":"model","created":)")
      .append(std::to_string(created))
      .append(R"(,"owned_by":"flyball")");
  if (!model.unavailable.empty()) {
    out.append(R"(,"unavailable":)");
    append_json_string(out, model.unavailable);
  }
  if (!model.digest.empty()) {
    out.append(R"(,"digest":)");
    append_json_string(out, model.digest);
  }
  out.push_back('}');
}

// {"object":"list","data":[{"id","object":"model","created","owned_by"}...]}, and "unavailable" where no
// engine can serve the model, "digest" where one has loaded it.
http::Response models_answer(std::span<const ListedModel> models, std::int64_t created) {
  std::string body = R"({"object":"list","data":[)";
  for (const ListedModel& model : models) {
    if (&model != &models.front()) body.push_back(',');
    append_model(body, model, created);
  }
  return json_response(std::move(body) + "]}");
}

http::Response model_answer(const ListedModel& model, std::int64_t created) {
  std::string body;
  append_model(body, model, created);
  return json_response(std::move(body));
}

Result<Operation> parse(const Route& route, const http::Request& request) {
  if (route.id == kModels) return ListModels{models_answer};
  if (route.id == kModel) {
    auto name = path_id(route, request.path());
    if (!name) return pass(name);
    return ShowModel{std::move(*name), model_answer};
  }
  auto body = read_packed(request.body);
  if (!body) return pass(body);
  auto generate = parse_generate(
      route.id == kChatCompletions ? Generate::Kind::chat : Generate::Kind::completion, body->view());
  if (!generate) return pass(generate);
  return std::move(*generate);
}

}  // namespace

constinit const Codec kCodec{"openai", kRoutes, kKeys, parse, error_response};

}  // namespace flyball::api::openai
