#include "daemon/api/openai/codec.hpp"

#include <array>

#include "config/json_reader.hpp"
#include "daemon/api/json_text.hpp"
#include "daemon/api/openai/completion_request.hpp"
#include "daemon/api/openai/errors.hpp"
#include "daemon/api/openai/responses_request.hpp"
#include "daemon/api/openai/token_request.hpp"

namespace flyball::api::openai {
namespace {

enum RouteId : std::uint8_t {
  kModels,
  kModel,
  kChatCompletions,
  kLegacyCompletions,
  kTokenizing,
  kDetokenizing,
  kCreateResponse,
  kStoredResponse,
  kInputTokens,
  kCompaction,
  kUnserved
};

constexpr std::array kRoutes{
    Route{"GET", "/v1/models", Access::app, BodyType::none, "models", false, kModels},
    Route{"GET", "/v1/models/", Access::app, BodyType::none, "models", false, kModel},
    Route{"POST", "/v1/chat/completions", Access::app, BodyType::json, "chat", true, kChatCompletions},
    Route{"POST", "/v1/completions", Access::app, BodyType::json, "completion", true, kLegacyCompletions},
    Route{"POST", "/tokenize", Access::app, BodyType::json, "tokenize", true, kTokenizing},
    Route{"POST", "/detokenize", Access::app, BodyType::json, "detokenize", true, kDetokenizing},
    Route{"POST", "/v1/responses", Access::app, BodyType::json, "chat", true, kCreateResponse},
    Route{"POST", "/v1/responses/input_tokens", Access::app, BodyType::json, "unserved", false, kInputTokens},
    Route{"POST", "/v1/responses/compact", Access::app, BodyType::json, "unserved", false, kCompaction},
    Route{"GET", "/v1/responses/", Access::app, BodyType::none, "stored", false, kStoredResponse},
    Route{"DELETE", "/v1/responses/", Access::app, BodyType::none, "stored", false, kStoredResponse},
    Route{"POST", "/v1/responses/", Access::app, BodyType::none, "stored", false, kStoredResponse},
    unserved_route("POST", "/v1/embeddings", config::Feature::embeddings, kUnserved),
    unserved_route("POST", "/v1/rerank", config::Feature::rerank, kUnserved),
    unserved_route("POST", "/v1/audio/transcriptions", config::Feature::audio, kUnserved),
    unserved_route("POST", "/v1/audio/translations", config::Feature::audio, kUnserved),
    unserved_route("POST", "/v1/audio/speech", config::Feature::speech_output, kUnserved),
    unserved_route("POST", "/v1/images/generations", config::Feature::image_generation, kUnserved),
    unserved_route("POST", "/v1/images/edits", config::Feature::image_generation, kUnserved),
    unserved_route("POST", "/v1/images/variations", config::Feature::image_generation, kUnserved),
    unserved_route("POST", "/v1/fine_tuning/jobs", config::Feature::fine_tuning, kUnserved),
    unserved_route("GET", "/v1/fine_tuning/jobs", config::Feature::fine_tuning, kUnserved),
};

constexpr std::array kKeys{KeyPlace{"Authorization", "Bearer"}};

// By feature: {"served": "limit", "reason": "Flyball serves ..."}.
void append_capabilities(std::string& out, const config::ModelTraits& model) {
  out.append(R"(,"capabilities":{)");
  for (std::size_t i = 0; i < config::kFeatures; ++i) {
    const auto feature = static_cast<config::Feature>(i);
    const config::Capability found = config::capability(feature, model);
    if (i > 0) out.push_back(',');
    append_json_string(out, config::to_string(feature));
    out.append(R"(:{"served":)");
    append_json_string(out, config::to_string(found.served));
    if (const std::string why = config::sentence(found); !why.empty()) {
      out.append(R"(,"reason":)");
      append_json_string(out, why);
    }
    out.push_back('}');
  }
  out.push_back('}');
}

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
  if (model.context > 0) out.append(R"(,"context_length":)").append(std::to_string(model.context));
  append_capabilities(out, model.traits);
  out.push_back('}');
}

// {"object":"list","data":[{"id","object":"model","created","owned_by","capabilities"}...]}, and
// "unavailable" where no engine can serve the model, "digest" where its engines have loaded one file,
// "context_length" where it is known.
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

Result<Generate> parse_body(const Route& route, JsonView body) {
  switch (route.id) {
    case kTokenizing:
      return parse_tokenize(body);
    case kDetokenizing:
      return parse_detokenize(body);
    case kCreateResponse:
      return responses::parse_create(body);
    default:
      return parse_generate(route.id == kChatCompletions ? Generate::Kind::chat : Generate::Kind::completion,
                            body);
  }
}

Result<Operation> parse(const Route& route, const http::Request& request) {
  // A feature that the table has come to serve is parsed here first.
  if (route.asks_for) return fail(ErrorCode::internal, "The path has no parser.");
  if (route.id == kModels) return ListModels{models_answer};
  if (route.id == kModel) {
    auto name = path_id(route, request.path());
    if (!name) return pass(name);
    return ShowModel{.name = std::move(*name), .answer = model_answer};
  }
  if (route.id == kStoredResponse)
    return fail(ErrorCode::not_found,
                "No response is kept ('store' is not served): there is none to read, cancel, delete or go on "
                "with.");
  if (route.id == kInputTokens)
    return fail(
        ErrorCode::unsupported_feature,
        "The tokens of a response's input are not counted by themselves: a response's 'usage' has them, "
        "and POST /tokenize counts those of a chat.");
  if (route.id == kCompaction)
    return fail(ErrorCode::unsupported_feature,
                "No conversation is compacted here: send the items that the model needs as 'input'.");
  auto body = read_packed(request.body);
  if (!body) return pass(body);
  auto generate = parse_body(route, body->view());
  if (!generate) return pass(generate);
  return std::move(*generate);
}

}  // namespace

constinit const Codec kCodec{"openai", kRoutes, kKeys, parse, error_response};

}  // namespace flyball::api::openai
