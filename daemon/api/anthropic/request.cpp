#include "daemon/api/anthropic/request.hpp"

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/constrain/constraint.hpp"
#include "daemon/api/anthropic/field_table.hpp"
#include "daemon/api/anthropic/messages.hpp"
#include "daemon/api/anthropic/tools.hpp"
#include "daemon/api/anthropic/writer.hpp"
#include "daemon/api/calls/read_calls.hpp"
#include "daemon/api/constraint_verdicts.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/parameters.hpp"
#include "daemon/api/prompt_answer.hpp"
#include "daemon/api/reasoning_variables.hpp"

namespace flyball::api::anthropic {
namespace {

// Whether the model is to think. The default is false, as in Anthropic's API.
Result<bool> read_thinking(const Fields& body, UnknownFields& unknown) {
  const auto thinking =
      checked_object(body.member("thinking"), field_table(), FieldOf::thinking, kBoth, "thinking", unknown);
  if (!thinking) return pass(thinking);
  if (!*thinking) return false;
  const JsonView type = thinking->find("type");
  const std::string_view text = type.is_string() ? type.text() : std::string_view();
  if (text == "enabled" || text == "adaptive") return true;
  if (text == "disabled") return false;
  return field_error(ErrorCode::unsupported_value, "thinking.type",
                     "is served as enabled, adaptive or disabled only");
}

// How much the model is to think; "": it is not said.
Result<std::string_view> read_effort(JsonView config) {
  const JsonView effort = config ? config.member("effort") : JsonView();
  if (!effort) return std::string_view();
  const std::string_view text = effort.is_string() ? effort.text() : std::string_view();
  for (const std::string_view known : {"low", "medium", "high", "xhigh", "max"})
    if (text == known) return text;
  return field_error(ErrorCode::invalid_value, "output_config.effort",
                     "must be low, medium, high, xhigh or max");
}

// The model, and all that is part of the prompt.
struct Asked {
  std::string model;
  ChatPrompt prompt;
  std::shared_ptr<const ToolSet> tools;
  std::string note;
  JsonView output_config;
};

Result<Asked> read_asked(const Fields& body, UnknownFields& unknown) {
  Asked out;
  if (const JsonView model = body.member("model")) {
    if (!model.is_string()) return field_error(ErrorCode::invalid_value, "model", "must be a string");
    out.model = model.text();
  }
  const auto thinking = read_thinking(body, unknown);
  if (!thinking) return pass(thinking);
  const auto config = checked_object(body.member("output_config"), field_table(), FieldOf::output_config,
                                     kBoth, "output_config", unknown);
  if (!config) return pass(config);
  out.output_config = *config;
  const auto effort = read_effort(*config);
  if (!effort) return pass(effort);
  auto tools = read_tool_set(body, unknown);
  if (!tools) return pass(tools);
  out.tools = std::move(*tools);
  const JsonView messages = body.member("messages");
  if (!messages) return missing("messages", unknown);
  auto history = read_messages(body.member("system"), messages, unknown);
  if (!history) return pass(history);
  out.prompt.messages = std::move(history->messages);
  out.note = std::move(history->note);
  if (out.tools) out.prompt.tools = out.tools->tools;
  out.prompt.template_args = reasoning_variables({.on = *thinking, .effort = *effort}, JsonView());
  return out;
}

void take_prompt(Asked asked, Generate& out) {
  out.model = std::move(asked.model);
  out.note = std::move(asked.note);
  out.tools = std::move(asked.tools);
  out.has_tools = !asked.prompt.tools.empty();
  out.prompt_bytes = asked.prompt.messages.json_bytes() + asked.prompt.tools.json_bytes();
  out.prompts.emplace_back(std::move(asked.prompt));
}

// {"type": "json_schema", "schema": {...}} at `place`.
Result<void> read_format(JsonView format, const std::string& place, Generate& out) {
  if (!format) return {};
  if (out.base.constraint)
    return field_error(ErrorCode::invalid_value, place,
                       "and '" + out.constraint_field + "' are both set; an answer has one constraint");
  const JsonView type = format.is_object() ? format.find("type") : JsonView();
  if (!type.is_string() || type.text() != "json_schema")
    return field_error(ErrorCode::invalid_value, place, "must be an object of the 'type' json_schema");
  if (auto ok = check_members(format, field_table(), FieldOf::output_format, kBoth, place, out.unknown); !ok)
    return ok;
  const std::string here = place + ".schema";
  const JsonView schema = format.member("schema");
  if (!schema) return field_error(ErrorCode::missing_field, here, "is required");
  if (!schema.is_object())
    return field_error(ErrorCode::invalid_value, here, "must be a JSON schema, an object");
  Constraint constraint{Constraint::Kind::json_schema, PackedJson(schema)};
  if (auto ok = constrain::check_size(constraint); !ok) return std::unexpected(refusal_at(here, ok.error()));
  out.base.constraint = std::move(constraint);
  out.constraint_field = here;
  out.wants_json = true;
  return {};
}

// The format of the answer, by either of its names.
Result<void> read_formats(const Fields& body, JsonView output_config, Generate& out) {
  if (output_config)
    if (auto ok = read_format(output_config.member("format"), "output_config.format", out); !ok) return ok;
  return read_format(body.member("output_format"), "output_format", out);
}

// No answer continues a message of the assistant.
Result<void> check_last(JsonView messages) {
  std::size_t i = 0;
  JsonView last;
  for (const auto& [key, message] : messages.members()) {
    last = message;
    ++i;
  }
  if (last.find("role").text() != "assistant") return {};
  return field_error(ErrorCode::unsupported_value, "messages[" + std::to_string(i - 1) + "].role",
                     "is \"assistant\" in the last message, which an answer does not go on with: it begins "
                     "a turn of its own");
}

}  // namespace

Result<Generate> parse_messages(JsonView document) {
  if (!document.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  Generate out;
  const Fields body(document, field_table(), kMessages, out.unknown);
  Scalars scalars;
  auto ok = read_parameters(body, out.base.sampling, scalars);
  if (const JsonView stop = body.member("stop_sequences"); ok && stop && !stop.is_array())
    ok = field_error(ErrorCode::invalid_value, "stop_sequences", "must be an array of strings");
  if (ok) ok = read_stop(body, out.base.stop, "stop_sequences");
  if (ok) ok = body.refused();
  if (!ok) return pass(ok);
  if (scalars.max_tokens == 0) return missing("max_tokens", out.unknown);
  out.base.max_tokens = scalars.max_tokens;
  if (scalars.stream) out.stream = StreamFraming::sse;

  auto asked = read_asked(body, out.unknown);
  if (!asked) return pass(asked);
  ok = check_last(body.member("messages"));
  if (ok) ok = read_formats(body, asked->output_config, out);
  if (!ok) return pass(ok);
  take_prompt(std::move(*asked), out);
  if (ok = calls::check_constraint(out); !ok) return pass(ok);
  calls::read_calls(out);
  out.writer = std::make_unique<Writer>();
  return out;
}

Result<Generate> parse_count_tokens(JsonView document) {
  if (!document.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  Generate out;
  const Fields body(document, field_table(), kCountTokens, out.unknown);
  if (auto ok = body.refused(); !ok) return pass(ok);
  auto asked = read_asked(body, out.unknown);
  if (!asked) return pass(asked);
  if (auto ok = read_formats(body, asked->output_config, out); !ok) return pass(ok);
  take_prompt(std::move(*asked), out);
  if (auto ok = calls::check_constraint(out); !ok) return pass(ok);
  ask_for_prompt(out, Wanted::prompt_tokens, count_writer("input_tokens"));
  return out;
}

}  // namespace flyball::api::anthropic
