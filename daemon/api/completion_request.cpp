#include "daemon/api/completion_request.hpp"

#include <charconv>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "daemon/api/messages.hpp"
#include "daemon/api/parameters.hpp"

namespace flyball::api {
namespace {

using nlohmann::json;

std::unexpected<Error> invalid(std::string param, const std::string& what) {
  std::string message = "'" + param + "' " + what + ".";
  return fail(ErrorCode::invalid_value, std::move(message), std::move(param));
}

std::unexpected<Error> unsupported(std::string param, const std::string& what) {
  std::string message = "'" + param + "' " + what + ".";
  return fail(ErrorCode::unsupported_value, std::move(message), std::move(param));
}

// nullptr where the member is absent or null.
const json* member(const json& object, std::string_view name) {
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<void> read_stop(const json& body, std::vector<std::string>& stop) {
  const json* value = member(body, "stop");
  if (!value) return {};
  if (value->is_string())
    stop.push_back(value->get<std::string>());
  else if (value->is_array()) {
    if (value->size() > kMaxStops)
      return invalid("stop", "has more than " + std::to_string(kMaxStops) + " strings");
    for (const json& one : *value) {
      if (!one.is_string()) return invalid("stop", "must be a string or an array of strings");
      stop.push_back(one.get<std::string>());
    }
  } else {
    return invalid("stop", "must be a string or an array of strings");
  }
  for (const auto& one : stop)
    if (one.empty() || one.size() > kMaxStopBytes)
      return invalid("stop", "must have strings of 1 to " + std::to_string(kMaxStopBytes) + " bytes");
  return {};
}

Result<void> read_logit_bias(const json& body, std::map<Token, float>& bias) {
  const json* value = member(body, "logit_bias");
  if (!value) return {};
  if (!value->is_object()) return invalid("logit_bias", "must be an object of token ids and numbers");
  if (value->size() > kMaxLogitBias)
    return invalid("logit_bias", "has more than " + std::to_string(kMaxLogitBias) + " entries");
  for (const auto& [key, number] : value->items()) {
    Token token = 0;
    const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (ec != std::errc() || end != key.data() + key.size() || token < 0)
      return invalid("logit_bias", "has a key that is no token id");
    if (!number.is_number() || !(std::abs(number.get<double>()) <= 100.0))
      return invalid("logit_bias", "must have values from -100 to 100");
    bias[token] = number.get<float>();
  }
  return {};
}

Result<void> read_seed(const json& body, InferenceRequest& out) {
  const json* value = member(body, "seed");
  if (!value) return {};
  if (value->is_number_unsigned())
    out.base.sampling.seed = value->get<std::uint64_t>();
  else if (value->is_number_integer())
    out.base.sampling.seed = static_cast<std::uint64_t>(value->get<std::int64_t>());
  else
    return invalid("seed", "must be a 64-bit integer");
  out.seeded = true;
  return {};
}

Result<void> read_stream_options(const json& body, InferenceRequest& out) {
  const json* options = member(body, "stream_options");
  if (!options) return {};
  if (!options->is_object()) return invalid("stream_options", "must be an object");
  if (!out.stream) return invalid("stream_options", "is only allowed when 'stream' is true");
  if (const json* usage = member(*options, "include_usage")) {
    if (!usage->is_boolean()) return invalid("stream_options.include_usage", "must be a boolean");
    out.include_usage = usage->get<bool>();
  }
  return {};
}

// Features of the API that change what an answer means are refused, not ignored.
Result<void> refuse_unsupported(const json& body, Operation operation) {
  if (const json* format = member(body, "response_format")) {
    const json* type = format->is_object() ? member(*format, "type") : nullptr;
    if (!type || !type->is_string()) return invalid("response_format", "must be an object with a 'type'");
    if (*type != "text") return unsupported("response_format", "is served for type 'text' only");
  }
  if (operation == Operation::completion) {
    if (const json* suffix = member(body, "suffix"); suffix && *suffix != "")
      return unsupported("suffix", "is not served");
    return {};
  }
  for (const char* name : {"functions", "function_call"})
    if (member(body, name)) return unsupported(name, "is deprecated and not served; use 'tools'");
  if (member(body, "audio")) return unsupported("audio", "is not served");
  if (const json* modalities = member(body, "modalities"); modalities && *modalities != json::array({"text"}))
    return unsupported("modalities", "is served as [\"text\"] only");
  return {};
}

Result<void> read_max_tokens(const json& body, const Scalars& scalars, InferenceRequest& out) {
  out.base.max_tokens = scalars.max_tokens;
  if (member(body, "max_tokens") && member(body, "max_completion_tokens") &&
      out.operation == Operation::chat &&
      *member(body, "max_tokens") != *member(body, "max_completion_tokens"))
    return invalid("max_completion_tokens", "contradicts 'max_tokens'");
  if (out.operation == Operation::completion && scalars.max_tokens == 0)
    out.base.max_tokens = kLegacyMaxTokens;
  return {};
}

Result<void> read_logprobs(const Scalars& scalars, InferenceRequest& out) {
  std::int32_t& top = out.base.sampling.top_logprobs;
  if (out.operation == Operation::completion) {
    top = scalars.legacy_logprobs;
    return {};
  }
  if (scalars.top_logprobs >= 0 && !scalars.logprobs)
    return invalid("top_logprobs", "is only allowed when 'logprobs' is true");
  top = scalars.logprobs ? std::max(scalars.top_logprobs, 0) : -1;
  return {};
}

Result<TokenPrompt> read_tokens(const json& array) {
  TokenPrompt prompt;
  prompt.tokens.reserve(array.size());
  for (const json& id : array) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      return invalid("prompt", "has an element that is no token id");
    prompt.tokens.push_back(id.get<Token>());
  }
  if (prompt.tokens.empty()) return invalid("prompt", "has no tokens");
  return prompt;
}

// "text", ["text", ...], [1, 2, ...] or [[1, 2], ...].
Result<void> read_legacy_prompt(const json& body, InferenceRequest& out) {
  const json* prompt = member(body, "prompt");
  if (!prompt) return fail(ErrorCode::missing_field, "'prompt' is required.", "prompt");
  if (prompt->is_string()) {
    out.prompts.emplace_back(TextPrompt{prompt->get<std::string>()});
  } else if (!prompt->is_array() || prompt->empty()) {
    return invalid("prompt", "must be a string, an array of strings, or an array of token ids");
  } else if (prompt->front().is_number()) {
    auto tokens = read_tokens(*prompt);
    if (!tokens) return std::unexpected(std::move(tokens.error()));
    out.prompts.emplace_back(std::move(*tokens));
  } else {
    if (prompt->size() > kMaxChoices)
      return invalid("prompt", "has more than " + std::to_string(kMaxChoices) + " prompts");
    for (const json& one : *prompt) {
      if (one.is_string()) {
        out.prompts.emplace_back(TextPrompt{one.get<std::string>()});
      } else if (one.is_array()) {
        auto tokens = read_tokens(one);
        if (!tokens) return std::unexpected(std::move(tokens.error()));
        out.prompts.emplace_back(std::move(*tokens));
      } else {
        return invalid("prompt", "must be a string, an array of strings, or an array of token ids");
      }
    }
  }
  for (const Prompt& one : out.prompts) {
    if (const auto* text = std::get_if<TextPrompt>(&one))
      out.prompt_bytes += text->text.size();
    else
      out.prompt_bytes += std::get<TokenPrompt>(one).tokens.size() * 4;  // an English token is about 4 bytes
  }
  return {};
}

}  // namespace

Result<InferenceRequest> parse_inference_request(Operation operation, std::string_view text) {
  auto parsed = read_json(text);
  if (!parsed) return std::unexpected(std::move(parsed.error()));
  const json& body = *parsed;
  if (!body.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");

  InferenceRequest out;
  out.operation = operation;
  if (const json* model = member(body, "model")) {
    if (!model->is_string()) return invalid("model", "must be a string");
    out.model = model->get<std::string>();
  }
  Scalars scalars;
  const Endpoints endpoint = operation == Operation::chat ? kChat : kCompletions;
  const auto all_of = [](auto&&... steps) -> Result<void> {
    Result<void> ok;
    (void)((ok = steps()).has_value() && ...);
    return ok;
  };
  auto ok =
      all_of([&] { return read_parameters(body, endpoint, out.base.sampling, scalars); },
             [&] { return read_max_tokens(body, scalars, out); }, [&] { return read_logprobs(scalars, out); },
             [&] { return read_stop(body, out.base.stop); },
             [&] { return read_logit_bias(body, out.base.sampling.logit_bias); },
             [&] { return read_seed(body, out); }, [&] { return refuse_unsupported(body, operation); });
  if (!ok) return std::unexpected(std::move(ok.error()));
  out.stream = scalars.stream;
  out.n = scalars.n;
  out.base.ignore_eos = scalars.ignore_eos;
  if (scalars.echo) return unsupported("echo", "is not served");
  if (scalars.best_of != 0 && scalars.best_of != out.n)
    return unsupported("best_of", "is served only when it equals 'n'");
  if (ok = read_stream_options(body, out); !ok) return std::unexpected(std::move(ok.error()));

  if (operation == Operation::chat) {
    auto chat = read_chat_prompt(body, text);
    if (!chat) return std::unexpected(std::move(chat.error()));
    out.has_tools = !chat->tools_json.empty();
    out.prompt_bytes = chat->messages_json.size() + chat->tools_json.size();
    out.prompts.emplace_back(std::move(*chat));
  } else if (ok = read_legacy_prompt(body, out); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  if (out.choices() > kMaxChoices)
    return invalid("n", "times the number of prompts is more than " + std::to_string(kMaxChoices));
  return out;
}

}  // namespace flyball::api
