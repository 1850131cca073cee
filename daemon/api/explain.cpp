#include "daemon/api/explain.hpp"

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "policy/fact_json.hpp"

namespace flyball::api {
route::RequestTraits traits_of(const InferenceRequest& request) {
  route::RequestTraits out;
  out.operation = to_string(request.operation);
  out.model_as_asked = request.model;
  out.prompt_bytes = request.prompt_bytes;
  out.max_tokens = request.base.max_tokens;
  out.n = request.n;
  out.stream = request.stream;
  out.has_tools = request.has_tools;
  out.wants_json = request.wants_json;
  return out;
}

Result<ExplainQuestion> parse_explain_request(std::string_view text, const policy::TargetCatalogue& targets) {
  auto body = read_json(text);
  if (!body) return std::unexpected(std::move(body.error()));
  if (!body->is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  ExplainQuestion out;
  if (body->contains("messages") || body->contains("prompt")) {
    const auto operation = body->contains("messages") ? Operation::chat : Operation::completion;
    auto request = parse_inference_request(operation, text);
    if (!request) return std::unexpected(std::move(request.error()));
    out.traits = traits_of(*request);
  } else {
    out.traits.operation = to_string(Operation::chat);
    if (const auto model = body->find("model"); model != body->end() && !model->is_null()) {
      if (!model->is_string()) return fail(ErrorCode::invalid_value, "'model' must be a string.", "model");
      out.traits.model_as_asked = model->get<std::string>();
    }
  }
  if (const auto facts = body->find("facts"); facts != body->end() && !facts->is_null()) {
    if (!facts->is_object()) return fail(ErrorCode::invalid_value, "'facts' must be an object.", "facts");
    for (const auto& [name, value] : facts->items()) {
      auto fact = policy::read_fact(name, value, targets);
      if (!fact) {
        fact.error().param = "facts." + name.substr(0, 100);
        return pass(fact);
      }
      out.overrides.push_back(std::move(*fact));
    }
  }
  return out;
}

}  // namespace flyball::api
