#include "daemon/api/openai/token_request.hpp"

#include <memory>
#include <string>
#include <utility>

#include "daemon/api/field_error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/openai/completion_request.hpp"
#include "daemon/api/openai/field_table.hpp"
#include "daemon/api/openai/token_writer.hpp"
#include "daemon/api/prompt_answer.hpp"
#include "daemon/predict/prompt_tokens.hpp"

namespace flyball::api::openai {
namespace {

Result<Generate> tokenize_chat(JsonView document) {
  for (const char* const text_field : {"prompt", "content", "add_special"})
    if (document.member(text_field))
      return field_error(ErrorCode::invalid_value, text_field, "is not allowed beside 'messages'");
  auto request = parse_generate(Generate::Kind::chat, document, kTokenize);
  if (request) ask_for_prompt(*request, Wanted::prompt_tokens, std::make_unique<TokensWriter>());
  return request;
}

Result<void> read_model_name(const Fields& body, Generate& out) {
  const JsonView model = body.member("model");
  if (!model) return {};
  if (!model.is_string()) return field_error(ErrorCode::invalid_value, "model", "must be a string");
  out.model = model.text();
  return {};
}

Result<void> read_flag(const Fields& body, const char* name, bool& value) {
  const JsonView flag = body.member(name);
  if (!flag) return {};
  if (!flag.is_boolean()) return field_error(ErrorCode::invalid_value, name, "must be a boolean");
  value = flag.as_bool();
  return {};
}

}  // namespace

Result<Generate> parse_tokenize(JsonView document) {
  if (!document.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  if (document.member("messages")) return tokenize_chat(document);

  Generate out;
  out.kind = Generate::Kind::completion;
  const Fields body(document, field_table(), kTokenize, out.unknown);
  if (auto ok = read_model_name(body, out); !ok) return pass(ok);
  if (auto ok = body.refused(); !ok) return pass(ok);
  const JsonView prompt = body.member("prompt"), content = body.member("content");
  if (prompt && content)
    return field_error(ErrorCode::invalid_value, "content", "is not allowed beside 'prompt'");
  if (!prompt && !content) return missing("prompt", out.unknown);
  const JsonView text = prompt ? prompt : content;
  if (!text.is_string())
    return field_error(ErrorCode::invalid_value, prompt ? "prompt" : "content", "must be a string");
  TextPrompt one{std::string(text.text())};
  one.add_special = static_cast<bool>(prompt);  // the default of each server
  for (const char* const name : {"add_special_tokens", "add_special"})
    if (auto ok = read_flag(body, name, one.add_special); !ok) return pass(ok);
  out.prompt_bytes = one.text.size();
  out.prompts.emplace_back(std::move(one));
  ask_for_prompt(out, Wanted::prompt_tokens, std::make_unique<TokensWriter>());
  return out;
}

Result<Generate> parse_detokenize(JsonView document) {
  if (!document.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  Generate out;
  out.kind = Generate::Kind::completion;
  const Fields body(document, field_table(), kDetokenize, out.unknown);
  if (auto ok = read_model_name(body, out); !ok) return pass(ok);
  if (auto ok = body.refused(); !ok) return pass(ok);
  const JsonView tokens = body.member("tokens");
  if (!tokens) return missing("tokens", out.unknown);
  if (!tokens.is_array())
    return field_error(ErrorCode::invalid_value, "tokens", "must be an array of token ids");
  auto prompt = read_tokens(tokens, "tokens");
  if (!prompt) return pass(prompt);
  out.prompt_bytes = prompt->tokens.size() * predict::PromptTokens::kBytesPerToken;
  out.prompts.emplace_back(std::move(*prompt));
  ask_for_prompt(out, Wanted::prompt_text, std::make_unique<SpelledWriter>());
  return out;
}

}  // namespace flyball::api::openai
