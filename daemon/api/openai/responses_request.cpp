#include "daemon/api/openai/responses_request.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "backends/constrain/constraint.hpp"
#include "config/name_list.hpp"
#include "daemon/api/calls/read_calls.hpp"
#include "daemon/api/constraint_verdicts.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/openai/responses_echo.hpp"
#include "daemon/api/openai/responses_fields.hpp"
#include "daemon/api/openai/responses_input.hpp"
#include "daemon/api/openai/responses_tools.hpp"
#include "daemon/api/openai/responses_writer.hpp"
#include "daemon/api/openai/template_variables.hpp"
#include "daemon/api/parameters.hpp"

namespace flyball::api::openai::responses {
namespace {

constexpr std::string_view kLogprobs = "message.output_text.logprobs",
                           kEncrypted = "reasoning.encrypted_content";
// Parts of items that no answer here has.
constexpr std::array<std::string_view, 6> kOfOtherItems{"file_search_call.results",
                                                        "web_search_call.results",
                                                        "web_search_call.action.sources",
                                                        "message.input_image.image_url",
                                                        "computer_call_output.output.image_url",
                                                        "code_interpreter_call.outputs"};

constexpr std::array<std::string_view, 3> kSummaries{"auto", "concise", "detailed"};

Result<void> read_include(JsonView include, Shape& shape) {
  if (!include) return {};
  if (!include.is_array())
    return field_error(ErrorCode::invalid_value, "include", "must be an array of strings");
  std::size_t i = 0;
  for (const auto& [key, one] : include.members()) {
    const std::string place = "include[" + std::to_string(i++) + "]";
    if (!one.is_string()) return field_error(ErrorCode::invalid_value, place, "must be a string");
    if (one.text() == kLogprobs)
      shape.logprobs = true;
    else if (one.text() == kEncrypted)
      shape.encrypted = true;
    else if (std::ranges::find(kOfOtherItems, one.text()) == kOfOtherItems.end())
      return field_error(ErrorCode::invalid_value, place,
                         "is " + config::quoted(one.text()) + ", which the API does not know");
  }
  return {};
}

Result<void> read_logprobs(const Scalars& scalars, const Shape& shape, SamplingParams& sampling) {
  if (scalars.top_logprobs > 0 && !shape.logprobs)
    return field_error(ErrorCode::invalid_value, "top_logprobs",
                       "is only allowed when 'include' has \"" + std::string(kLogprobs) + "\"");
  sampling.top_logprobs = shape.logprobs ? std::max(scalars.top_logprobs, 0) : -1;
  return {};
}

// The members beside the type; a format without a schema has none.
Result<void> check_labels(JsonView format, const std::string& place, bool has_schema) {
  for (const std::string_view name : {"schema", "name", "description", "strict"})
    if (!has_schema && format.member(name))
      return field_error(ErrorCode::invalid_value, place + "." + std::string(name),
                         "is only allowed with the type 'json_schema'");
  for (const std::string_view name : {"name", "description"})
    if (const JsonView label = format.member(name); label && !label.is_string())
      return field_error(ErrorCode::invalid_value, place + "." + std::string(name), "must be a string");
  if (const JsonView strict = format.member("strict"); strict && !strict.is_boolean())
    return field_error(ErrorCode::invalid_value, place + ".strict", "must be a boolean");
  return {};
}

Result<void> read_format(JsonView format, Generate& out) {
  const std::string place = "text.format";
  const auto object =
      checked_object(format, field_table(), FieldOf::text_format, kCreate, place, out.unknown);
  if (!object) return pass(object);
  if (!*object) return {};
  const JsonView type = format.member("type"), schema = format.member("schema");
  if (!type.is_string())
    return field_error(ErrorCode::invalid_value, place, "must be an object with a 'type'");
  if (auto ok = check_labels(format, place, type.text() == "json_schema"); !ok) return ok;
  if (type.text() == "text") return {};
  Constraint constraint{Constraint::Kind::json_object, {}};
  out.constraint_field = place;
  if (type.text() == "json_schema") {
    out.constraint_field += ".schema";
    if (!schema) return field_error(ErrorCode::missing_field, out.constraint_field, "is required");
    if (!schema.is_object())
      return field_error(ErrorCode::invalid_value, out.constraint_field, "must be a JSON schema, an object");
    constraint = {Constraint::Kind::json_schema, PackedJson(schema)};
    if (auto ok = constrain::check_size(constraint); !ok)
      return std::unexpected(refusal_at(out.constraint_field, ok.error()));
  } else if (type.text() != "json_object") {
    return field_error(ErrorCode::unsupported_value, place + ".type",
                       "is served as 'text', 'json_object' or 'json_schema' only");
  }
  out.base.constraint = std::move(constraint);
  out.wants_json = true;
  return {};
}

Result<void> read_text(const Fields& body, Generate& out) {
  const auto text =
      checked_object(body.member("text"), field_table(), FieldOf::text, kCreate, "text", out.unknown);
  if (!text) return pass(text);
  return *text ? read_format(text->member("format"), out) : Result<void>();
}

// The effort; absent where none is said.
Result<JsonView> read_reasoning(const Fields& body, Shape& shape, UnknownFields& unknown) {
  const auto reasoning = checked_object(body.member("reasoning"), field_table(), FieldOf::reasoning, kCreate,
                                        "reasoning", unknown);
  if (!reasoning) return pass(reasoning);
  if (!*reasoning) return JsonView();
  for (const std::string_view name : {"summary", "generate_summary"}) {
    const JsonView summary = reasoning->member(name);
    if (!summary) continue;
    if (!summary.is_string() || std::ranges::find(kSummaries, summary.text()) == kSummaries.end())
      return field_error(ErrorCode::invalid_value, "reasoning." + std::string(name),
                         "must be one of auto, concise, detailed");
    shape.summaries = true;
  }
  return reasoning->member("effort");
}

Result<void> check_others(const Fields& body, bool stream, UnknownFields& unknown) {
  const JsonView options = body.member("stream_options"), metadata = body.member("metadata");
  if (options && !stream)
    return field_error(ErrorCode::invalid_value, "stream_options", "is only allowed when 'stream' is true");
  if (metadata && !metadata.is_object())
    return field_error(ErrorCode::invalid_value, "metadata", "must be an object");
  const auto known =
      checked_object(options, field_table(), FieldOf::stream_options, kCreate, "stream_options", unknown);
  if (!known) return pass(known);
  return body.refused();
}

Result<ChatPrompt> read_prompt(const Fields& body, Shape& shape, const ReadTools& tools, Generate& out) {
  const JsonView input = body.member("input");
  if (!input) return missing("input", out.unknown);
  auto history = read_input(body.member("instructions"), input, out.unknown);
  if (!history) return pass(history);
  const auto effort = read_reasoning(body, shape, out.unknown);
  if (!effort) return pass(effort);
  auto variables = read_variables(body, *effort, "reasoning.effort");
  if (!variables) return pass(variables);
  ChatPrompt prompt;
  prompt.messages = std::move(history->messages);
  prompt.template_args = std::move(*variables);
  if (tools.set) prompt.tools = tools.set->tools;
  out.note = std::move(history->note);
  return prompt;
}

}  // namespace

Result<Generate> parse_create(JsonView document) {
  if (!document.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  Generate out;
  const Fields body(document, field_table(), kCreate, out.unknown);
  if (const JsonView model = body.member("model")) {
    if (!model.is_string()) return field_error(ErrorCode::invalid_value, "model", "must be a string");
    out.model = model.text();
  }
  Scalars scalars;
  Shape shape;
  auto ok = read_parameters(body, out.base.sampling, scalars);
  if (ok) ok = read_include(body.member("include"), shape);
  if (ok) ok = read_logprobs(scalars, shape, out.base.sampling);
  if (ok) ok = read_stop(body, out.base.stop);
  if (ok) ok = read_seed(body, out);
  if (ok) ok = read_text(body, out);
  if (ok) ok = check_others(body, scalars.stream, out.unknown);
  if (!ok) return pass(ok);
  if (scalars.stream) out.stream = StreamFraming::sse;
  shape.streamed = scalars.stream;
  out.base.max_tokens = scalars.max_tokens == kNoTokenLimit ? 0 : scalars.max_tokens;
  out.base.ignore_eos = scalars.ignore_eos;

  auto tools = read_tools(body, out.unknown);
  if (!tools) return pass(tools);
  auto prompt = read_prompt(body, shape, *tools, out);
  if (!prompt) return pass(prompt);
  out.tools = tools->set;
  out.has_tools = out.tools != nullptr;
  if (ok = calls::check_constraint(out); !ok) return pass(ok);
  calls::read_calls(out);
  out.prompt_bytes = prompt->messages.json_bytes() + prompt->tools.json_bytes();
  out.prompts.emplace_back(std::move(*prompt));
  out.writer = std::make_unique<Writer>(shape, Echo(body, *tools), std::move(tools->namespaces));
  return out;
}

}  // namespace flyball::api::openai::responses
