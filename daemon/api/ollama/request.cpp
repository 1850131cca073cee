#include "daemon/api/ollama/request.hpp"

#include <memory>
#include <string>
#include <utility>

#include "backends/constrain/constraint.hpp"
#include "daemon/api/calls/read_calls.hpp"
#include "daemon/api/chat_messages.hpp"
#include "daemon/api/constraint_verdicts.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/json_rewriter.hpp"
#include "daemon/api/ollama/field_table.hpp"
#include "daemon/api/ollama/load.hpp"
#include "daemon/api/ollama/models.hpp"
#include "daemon/api/ollama/writer.hpp"
#include "daemon/api/parameters.hpp"
#include "daemon/api/prompt_answer.hpp"
#include "daemon/api/reasoning_variables.hpp"

namespace flyball::api::ollama {
namespace {

Result<std::string_view> read_text(const Fields& body, std::string_view name) {
  const JsonView value = body.member(name);
  if (!value) return std::string_view();
  if (!value.is_string()) return field_error(ErrorCode::invalid_value, std::string(name), "must be a string");
  return value.text();
}

Result<bool> read_flag(const Fields& body, std::string_view name) {
  const JsonView value = body.member(name);
  if (!value) return false;
  if (!value.is_boolean())
    return field_error(ErrorCode::invalid_value, std::string(name), "must be a boolean");
  return value.as_bool();
}

// "json", or a JSON schema. An empty string asks for nothing.
Result<void> read_format(const Fields& body, Generate& out) {
  const JsonView format = body.member("format");
  if (!format || (format.is_string() && format.text().empty())) return {};
  Constraint constraint;
  if (format.is_object())
    constraint = {Constraint::Kind::json_schema, PackedJson(format)};
  else if (!format.is_string() || format.text() != "json")
    return field_error(ErrorCode::invalid_value, "format", "must be \"json\" or a JSON schema, an object");
  if (auto ok = constrain::check_size(constraint); !ok)
    return std::unexpected(refusal_at("format", ok.error()));
  out.base.constraint = std::move(constraint);
  out.constraint_field = "format";
  out.wants_json = true;
  return {};
}

// A boolean, or how much to reason.
Result<void> check_think(const Fields& body) {
  const JsonView think = body.member("think");
  if (!think || think.is_boolean()) return {};
  if (think.is_string())
    for (const std::string_view effort : {"low", "medium", "high"})
      if (think.text() == effort) return {};
  return field_error(ErrorCode::invalid_value, "think", "must be a boolean, \"low\", \"medium\" or \"high\"");
}

// Precondition: check_think() has passed.
void tell_think(const Fields& body, ChatPrompt& prompt) {
  const JsonView think = body.member("think");
  if (!think) return;
  const ReasoningWish wish{.on = think.is_string() || think.as_bool(),
                           .effort = think.is_string() ? think.text() : std::string_view()};
  prompt.template_args = reasoning_variables(wish, {});
}

// Ollama's default: a client that sends it means the server's own.
constexpr std::int64_t kRepeatLastN = 64;

// `repeat_last_n` tokens are seen by the penalty: here all (-1, and the default) or none (0) of the sequence.
// Any number goes where there is no penalty.
Result<void> read_repeat_last_n(const Fields& options, SamplingParams& sampling, std::string& note) {
  const JsonView value = options.member("repeat_last_n");
  if (!value) return {};
  const std::string place = options.place_of("repeat_last_n");
  if (!value.is_integer()) return field_error(ErrorCode::invalid_value, place, "must be an integer");
  const std::int64_t n = value.as_integer();
  if (n == 0) sampling.repetition_penalty = 1;
  if (n == kRepeatLastN && sampling.repetition_penalty != 1)
    note = "The repeat penalty sees the whole sequence, not the last 64 tokens.";
  if (n <= 0 || n == kRepeatLastN || sampling.repetition_penalty == 1) return {};
  return field_error(ErrorCode::unsupported_value, place,
                     "is served as -1, 0 or 64 only: 'repeat_penalty' sees the whole sequence");
}

// The penalties count newlines as other tokens; without any penalty it makes no difference.
Result<void> check_penalize_newline(const Fields& options, const SamplingParams& sampling) {
  const JsonView value = options.member("penalize_newline");
  if (!value) return {};
  const std::string place = options.place_of("penalize_newline");
  if (!value.is_boolean()) return field_error(ErrorCode::invalid_value, place, "must be a boolean");
  const bool penalizes =
      sampling.repetition_penalty != 1 || sampling.frequency_penalty != 0 || sampling.presence_penalty != 0;
  if (value.as_bool() || !penalizes) return {};
  return field_error(ErrorCode::unsupported_value, place,
                     "is not served as false beside a penalty: newlines are tokens as others");
}

// Reads all but the prompt.
Result<void> read_settings(const Fields& body, Generate& out) {
  auto model = read_text(body, "model");
  if (!model) return pass(model);
  out.model = *model;
  SamplingParams& sampling = out.base.sampling;
  sampling.temperature = kTemperature;
  sampling.top_p = kTopP;
  sampling.top_k = kTopK;
  Scalars scalars;
  scalars.stream = true;
  if (auto ok = read_parameters(body, sampling, scalars); !ok) return ok;
  if (const JsonView given = body.member("options")) {
    if (!given.is_object()) return field_error(ErrorCode::invalid_value, "options", "must be an object");
    const Fields options(given, field_table(), body.endpoints(), out.unknown, FieldOf::options, "options");
    auto ok = read_parameters(options, sampling, scalars);
    if (ok) ok = read_repeat_last_n(options, sampling, out.note);
    if (ok) ok = check_penalize_newline(options, sampling);
    if (ok) ok = read_stop(options, out.base.stop);
    if (ok) ok = read_seed(options, out);
    if (ok) ok = options.refused();
    if (!ok) return ok;
  }
  if (scalars.stream) out.stream = StreamFraming::ndjson;
  out.base.max_tokens = scalars.max_tokens == kNoTokenLimit ? 0 : scalars.max_tokens;
  if (auto ok = read_format(body, out); !ok) return ok;
  if (auto ok = check_think(body); !ok) return ok;
  return body.refused();
}

void append_message(JsonRewriter& out, std::string_view role, std::string_view content) {
  out.open(JsonKind::object);
  out.key("role");
  out.string(role);
  out.key("content");
  out.string(content);
  out.close();
}

// A request without a prompt loads its model: it goes the way of one for an empty prompt's tokens, which ends
// where the engine prepares it.
Generate load_of(Generate request, Writer::Shape shape) {
  request.prompts.emplace_back(TextPrompt{.text = {}, .add_special = false});
  ask_for_prompt(request, Wanted::prompt_tokens, load_writer(shape));
  return request;
}

// A completion's prompt is no chat: it has no place for these.
Result<void> refuse_chat_fields(const Fields& body, std::string_view system, const std::string& place) {
  if (!system.empty()) return field_error(ErrorCode::invalid_value, "system", "is only allowed " + place);
  const JsonView think = body.member("think");
  if (think && !(think.is_boolean() && !think.as_bool()))
    return field_error(ErrorCode::invalid_value, "think", "is only allowed " + place);
  return {};
}

}  // namespace

Result<Generate> parse_chat(JsonView document) {
  if (!document.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  Generate out;
  const Fields body(document, field_table(), kChat, out.unknown);
  if (auto ok = read_settings(body, out); !ok) return pass(ok);
  const JsonView messages = body.member("messages");
  if (!messages && out.unknown.refusal()) return missing("messages", out.unknown);
  DeclaredTools declared;
  if (const JsonView given = body.member("tools")) {
    auto tools = read_tools(given, field_table(), kChat, out.unknown);
    if (!tools) return pass(tools);
    declared = std::move(*tools);
  }
  if (!messages || (messages.is_array() && messages.size() == 0))
    return load_of(std::move(out), Writer::Shape::chat);
  auto history = read_chat_messages(messages, field_table(), kChat, out.unknown);
  if (!history) return pass(history);
  ChatPrompt prompt;
  prompt.messages = std::move(history->messages);
  if (!history->note.empty()) out.note += (out.note.empty() ? "" : " ") + history->note;
  out.tools = choose_tools(std::move(declared), {}, "function.parameters");
  out.has_tools = out.tools != nullptr;
  if (out.tools) prompt.tools = out.tools->tools;
  if (auto ok = calls::check_constraint(out); !ok) return pass(ok);
  tell_think(body, prompt);
  calls::read_calls(out);
  out.prompt_bytes = prompt.messages.json_bytes() + prompt.tools.json_bytes();
  out.prompts.emplace_back(std::move(prompt));
  out.writer = std::make_unique<Writer>(Writer::Shape::chat);
  return out;
}

Result<Generate> parse_generate(JsonView document) {
  if (!document.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  Generate out;
  const Fields body(document, field_table(), kGenerate, out.unknown);
  if (auto ok = read_settings(body, out); !ok) return pass(ok);
  const auto prompt = read_text(body, "prompt"), suffix = read_text(body, "suffix"),
             system = read_text(body, "system");
  if (!prompt) return pass(prompt);
  if (!suffix) return pass(suffix);
  if (!system) return pass(system);
  const auto raw = read_flag(body, "raw");
  if (!raw) return pass(raw);
  if (prompt->empty() && suffix->empty()) return load_of(std::move(out), Writer::Shape::text);
  out.prompt_bytes = prompt->size() + suffix->size() + system->size();
  out.writer = std::make_unique<Writer>(Writer::Shape::text);
  if (!suffix->empty()) {
    if (*raw)
      return field_error(ErrorCode::invalid_value, "suffix", "is only allowed where 'raw' is not true");
    if (auto ok = refuse_chat_fields(body, *system, "without 'suffix'"); !ok) return pass(ok);
    out.kind = Generate::Kind::completion;
    out.prompts.emplace_back(
        InfillPrompt{std::string(*prompt), std::make_shared<const std::string>(*suffix)});
    return out;
  }
  if (*raw) {
    if (auto ok = refuse_chat_fields(body, *system, "where 'raw' is not true"); !ok) return pass(ok);
    out.kind = Generate::Kind::completion;
    out.prompts.emplace_back(TextPrompt{std::string(*prompt)});
    return out;
  }
  ChatPrompt chat;
  JsonRewriter messages(out.prompt_bytes + 64);
  messages.open(JsonKind::array);
  if (!system->empty()) append_message(messages, "system", *system);
  append_message(messages, "user", *prompt);
  messages.close();
  chat.messages = messages.take();
  tell_think(body, chat);
  calls::read_calls(out);
  out.prompts.emplace_back(std::move(chat));
  return out;
}

Result<ShowModel> parse_show(JsonView document) {
  if (!document.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  ShowModel out{.name = {}, .answer = show_answer};
  const Fields body(document, field_table(), kShow, out.unknown);
  if (auto ok = body.refused(); !ok) return pass(ok);
  const auto model = read_text(body, "model"), name = read_text(body, "name");
  if (!model) return pass(model);
  if (!name) return pass(name);
  if (model->empty() && name->empty()) return missing("model", out.unknown);
  if (!model->empty() && !name->empty() && *model != *name)
    return field_error(ErrorCode::invalid_value, "name", "contradicts 'model'");
  out.name = model->empty() ? *name : *model;
  return out;
}

}  // namespace flyball::api::ollama
