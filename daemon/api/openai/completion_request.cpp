#include "daemon/api/openai/completion_request.hpp"

#include <charconv>
#include <cmath>
#include <utility>

#include "daemon/api/calls/read_calls.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/openai/messages.hpp"
#include "daemon/api/openai/structured_output.hpp"
#include "daemon/api/openai/writer.hpp"
#include "daemon/api/parameters.hpp"
#include "daemon/predict/prompt_tokens.hpp"

namespace flyball::api::openai {
namespace {

using Kind = Generate::Kind;

Result<void> read_logit_bias(const Fields& body, std::map<Token, float>& bias) {
  const JsonView value = body.member("logit_bias");
  if (!value) return {};
  if (!value.is_object())
    return field_error(ErrorCode::invalid_value, "logit_bias", "must be an object of token ids and numbers");
  if (value.size() > kMaxLogitBias)
    return field_error(ErrorCode::invalid_value, "logit_bias",
                       "has more than " + std::to_string(kMaxLogitBias) + " entries");
  for (const auto& [key, number] : value.members()) {
    Token token = 0;
    const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (ec != std::errc() || end != key.data() + key.size() || token < 0)
      return field_error(ErrorCode::invalid_value, "logit_bias", "has a key that is no token id");
    if (number.is_null()) continue;
    if (!number.is_number() || !(std::abs(number.as_double()) <= 100.0))
      return field_error(ErrorCode::invalid_value, "logit_bias", "must have values from -100 to 100");
    bias[token] = static_cast<float>(number.as_double());
  }
  return {};
}

Result<void> read_stream_options(const Fields& body, bool stream, bool& include_usage,
                                 UnknownFields& unknown) {
  const JsonView options = body.member("stream_options");
  if (!options) return {};
  if (!options.is_object())
    return field_error(ErrorCode::invalid_value, "stream_options", "must be an object");
  if (!stream)
    return field_error(ErrorCode::invalid_value, "stream_options", "is only allowed when 'stream' is true");
  if (const JsonView usage = options.member("include_usage")) {
    if (!usage.is_boolean())
      return field_error(ErrorCode::invalid_value, "stream_options.include_usage", "must be a boolean");
    include_usage = usage.as_bool();
  }
  return check_members(options, field_table(), FieldOf::stream_options, kBoth, "stream_options", unknown);
}

Result<void> read_constraint(const Fields& body, Generate& out) {
  auto asked = read_structured_output(body, out.unknown);
  if (!asked) return pass(asked);
  out.base.constraint = std::move(asked->constraint);
  out.constraint_field = std::move(asked->field);
  if (out.base.constraint)
    out.wants_json = out.base.constraint->kind == Constraint::Kind::json_object ||
                     out.base.constraint->kind == Constraint::Kind::json_schema;
  return {};
}

void read_length(const Fields& body, const Scalars& scalars, Generate& out) {
  out.base.max_tokens = scalars.max_tokens == kNoTokenLimit ? 0 : scalars.max_tokens;
  if (out.kind == Kind::chat || scalars.max_tokens != 0) return;
  out.base.empty_answer = bool{body.member("max_tokens")};
  out.base.max_tokens = out.base.empty_answer ? 1 : kLegacyMaxTokens;
}

Result<void> read_logprobs(const Scalars& scalars, Generate& out) {
  std::int32_t& top = out.base.sampling.top_logprobs;
  if (out.kind == Kind::completion) {
    top = scalars.legacy_logprobs;
    return {};
  }
  if (scalars.top_logprobs > 0 && !scalars.logprobs)
    return field_error(ErrorCode::invalid_value, "top_logprobs", "is only allowed when 'logprobs' is true");
  top = scalars.logprobs ? std::max(scalars.top_logprobs, 0) : -1;
  return {};
}

Result<TokenPrompt> read_token_prompt(JsonView array) {
  if (array.size() == 0) return field_error(ErrorCode::invalid_value, "prompt", "has no tokens");
  return read_tokens(array, "prompt");
}

// "text", ["text", ...], [1, 2, ...] or [[1, 2], ...].
Result<void> read_legacy_prompt(const Fields& body, Generate& out) {
  const JsonView prompt = body.member("prompt");
  if (!prompt) return missing("prompt", out.unknown);
  if (prompt.is_string()) {
    out.prompts.emplace_back(TextPrompt{std::string(prompt.text())});
  } else if (!prompt.is_array() || prompt.size() == 0) {
    return field_error(ErrorCode::invalid_value, "prompt",
                       "must be a string, an array of strings, or an array of token ids");
  } else if ((*prompt.members().begin()).value.is_number()) {
    auto tokens = read_token_prompt(prompt);
    if (!tokens) return pass(tokens);
    out.prompts.emplace_back(std::move(*tokens));
  } else {
    if (prompt.size() > kMaxChoices)
      return field_error(ErrorCode::invalid_value, "prompt",
                         "has more than " + std::to_string(kMaxChoices) + " prompts");
    for (const auto& [key, one] : prompt.members()) {
      if (one.is_string()) {
        out.prompts.emplace_back(TextPrompt{std::string(one.text())});
      } else if (one.is_array()) {
        auto tokens = read_token_prompt(one);
        if (!tokens) return pass(tokens);
        out.prompts.emplace_back(std::move(*tokens));
      } else {
        return field_error(ErrorCode::invalid_value, "prompt",
                           "must be a string, an array of strings, or an array of token ids");
      }
    }
  }
  for (const Prompt& one : out.prompts) {
    if (const auto* text = std::get_if<TextPrompt>(&one))
      out.prompt_bytes += text->text.size();
    else
      out.prompt_bytes += std::get<TokenPrompt>(one).tokens.size() * predict::PromptTokens::kBytesPerToken;
  }
  return {};
}

// `suffix`: the text behind the gap that the answers fill.
Result<void> read_suffix(const Fields& body, Generate& out) {
  const JsonView suffix = body.member("suffix");
  if (!suffix) return {};
  if (!suffix.is_string()) return field_error(ErrorCode::invalid_value, "suffix", "must be a string");
  if (suffix.text().empty()) return {};
  if (out.base.echo)
    return field_error(ErrorCode::unsupported_value, "echo", "is not served beside 'suffix'");
  const auto after = std::make_shared<const std::string>(suffix.text());
  for (Prompt& prompt : out.prompts) {
    auto* const text = std::get_if<TextPrompt>(&prompt);
    if (text == nullptr)
      return field_error(ErrorCode::unsupported_value, "suffix", "is served beside prompts of text only");
    prompt = InfillPrompt{std::move(text->text), after};
    out.prompt_bytes += after->size();
  }
  return {};
}

}  // namespace

Result<TokenPrompt> read_tokens(JsonView array, std::string_view field) {
  TokenPrompt prompt;
  prompt.tokens.reserve(array.size());
  for (const auto& [key, id] : array.members()) {
    if (!id.is_integer() || id.as_integer() < 0 || id.as_integer() > INT32_MAX)
      return field_error(ErrorCode::invalid_value, std::string(field), "has an element that is no token id");
    prompt.tokens.push_back(static_cast<Token>(id.as_integer()));
  }
  return prompt;
}

Result<Generate> parse_generate(Kind kind, JsonView document, Endpoints also) {
  if (!document.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");

  Generate out;
  out.kind = kind;
  const Endpoints endpoint = kind == Kind::chat ? kChat : kCompletions;
  const Fields body(document, field_table(), static_cast<Endpoints>(endpoint | also), out.unknown);
  if (const JsonView model = body.member("model")) {
    if (!model.is_string()) return field_error(ErrorCode::invalid_value, "model", "must be a string");
    out.model = model.text();
  }
  Scalars scalars;
  const auto all_of = [](auto&&... steps) -> Result<void> {
    Result<void> ok;
    (void)((ok = steps()).has_value() && ...);
    return ok;
  };
  auto ok =
      all_of([&] { return read_parameters(body, out.base.sampling, scalars); },
             [&] { return read_logprobs(scalars, out); }, [&] { return read_stop(body, out.base.stop); },
             [&] { return read_logit_bias(body, out.base.sampling.logit_bias); },
             [&] { return read_seed(body, out); }, [&] { return read_constraint(body, out); },
             [&] { return body.refused(); });
  if (!ok) return pass(ok);
  if (scalars.stream) out.stream = StreamFraming::sse;
  out.n = scalars.n;
  read_length(body, scalars, out);
  out.base.ignore_eos = scalars.ignore_eos;
  out.base.echo = scalars.echo;
  if (scalars.best_of != 0 && scalars.best_of != out.n)
    return field_error(ErrorCode::unsupported_value, "best_of", "is served only when it equals 'n'");
  bool include_usage = false;
  if (ok = read_stream_options(body, scalars.stream, include_usage, out.unknown); !ok) return pass(ok);

  if (kind == Kind::chat) {
    auto chat = read_chat_prompt(body, out);
    if (!chat) return pass(chat);
    out.has_tools = out.tools != nullptr;
    if (ok = calls::check_constraint(out); !ok) return pass(ok);
    calls::read_calls(out);
    out.prompt_bytes = chat->messages.json_bytes() + chat->tools.json_bytes();
    out.prompts.emplace_back(std::move(*chat));
  } else {
    if (ok = read_legacy_prompt(body, out); !ok) return pass(ok);
    if (ok = read_suffix(body, out); !ok) return pass(ok);
  }
  if (out.choices() > kMaxChoices)
    return field_error(ErrorCode::invalid_value, "n",
                       "times the number of prompts is more than " + std::to_string(kMaxChoices));
  out.writer = std::make_unique<Writer>(kind, out.base.sampling.top_logprobs >= 0, include_usage);
  return out;
}

}  // namespace flyball::api::openai
