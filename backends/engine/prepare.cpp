#include "backends/engine/prepare.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace flyball::engine {
namespace {

Result<void> check_tokens(const std::vector<Token>& tokens, std::uint32_t vocab_size, const char* param) {
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](Token t) {
    return t < 0 || static_cast<std::uint32_t>(t) >= vocab_size;
  });
  if (bad == tokens.end()) return {};
  return fail(ErrorCode::invalid_value,
              "Token " + std::to_string(*bad) + " is not in the vocabulary of " + std::to_string(vocab_size) +
                  " tokens.",
              param);
}

Result<std::vector<Token>> encode_chat(const ChatPrompt& chat, const TextModel& model, std::int64_t now) {
  if (!model.chat_template) return pass(model.chat_template);
  if (!chat.tools.empty() && !model.chat_template->reads("tools"))
    return fail(ErrorCode::unsupported_value,
                "The model's chat template has no place for tools: the model would never see them.", "tools");
  const text::Tokenizer& tokenizer = *model.tokenizer;
  text::TemplateInput input;
  input.messages = chat.messages.view();
  input.tools = chat.tools.view();
  input.template_args = chat.template_args.view();
  if (tokenizer.bos()) input.bos_token = tokenizer.piece(*tokenizer.bos());
  if (tokenizer.eos()) input.eos_token = tokenizer.piece(*tokenizer.eos());
  input.add_generation_prompt = chat.add_generation_prompt;
  input.now = now;
  auto rendered = model.chat_template->render(input);
  if (!rendered) return pass(rendered);
  std::string_view text = *rendered;
  if (model.adds_bos && !input.bos_token.empty() && text.starts_with(input.bos_token))
    text.remove_prefix(input.bos_token.size());
  if (model.adds_eos && !input.eos_token.empty() && text.ends_with(input.eos_token))
    text.remove_suffix(input.eos_token.size());
  return tokenizer.encode(text, {.add_special = true, .parse_special = true});
}

Result<std::vector<Token>> encode_prompt(Prompt& prompt, const TextModel& model, std::int64_t now) {
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) return encode_chat(*chat, model, now);
  if (const auto* text = std::get_if<TextPrompt>(&prompt))
    return model.tokenizer->encode(text->text, {.add_special = true, .parse_special = true});
  return std::move(std::get<TokenPrompt>(prompt).tokens);
}

}  // namespace

TextModel make_text_model(std::unique_ptr<const text::Tokenizer> tokenizer,
                          Result<text::ChatTemplate> chat_template, std::uint32_t vocab_size,
                          std::uint32_t context) {
  TextModel model{std::move(tokenizer), std::move(chat_template), 0, context};
  model.vocab_size = std::min(vocab_size, model.tokenizer->vocab_size());
  const auto nothing = model.tokenizer->encode("", {.add_special = true, .parse_special = true});
  const auto bos = model.tokenizer->bos();
  const auto eos = model.tokenizer->eos();
  model.adds_bos = bos && !nothing.empty() && nothing.front() == *bos;
  model.adds_eos =
      eos && !nothing.empty() && nothing.back() == *eos && (nothing.size() > 1 || !model.adds_bos);
  return model;
}

Result<void> check_request(const CompletionRequest& request, std::uint32_t vocab_size) {
  if (auto ok = check(request.sampling); !ok) return pass(ok);
  if (request.stop.size() > kMaxStops)
    return fail(ErrorCode::invalid_value,
                std::to_string(request.stop.size()) + " stop strings; at most " + std::to_string(kMaxStops) +
                    " are allowed.",
                "stop");
  for (const std::string& stop : request.stop) {
    if (stop.empty() || stop.size() > kMaxStopBytes)
      return fail(ErrorCode::invalid_value,
                  "A stop string has " + std::to_string(stop.size()) + " bytes; it must have 1 to " +
                      std::to_string(kMaxStopBytes) + ".",
                  "stop");
    if ((static_cast<unsigned char>(stop[0]) & 0xC0U) == 0x80U)
      return fail(ErrorCode::invalid_value, "A stop string begins inside a character.", "stop");
  }
  for (const auto& [token, bias] : request.sampling.logit_bias)
    if (static_cast<std::uint32_t>(token) >= vocab_size)
      return fail(ErrorCode::invalid_value,
                  "logit_bias names token " + std::to_string(token) + "; the vocabulary has " +
                      std::to_string(vocab_size) + ".",
                  "logit_bias");
  if (auto ok = check_tokens(request.resume_tokens, vocab_size, "resume_tokens"); !ok) return pass(ok);
  if (const auto* tokens = std::get_if<TokenPrompt>(&request.prompt))
    return check_tokens(tokens->tokens, vocab_size, "prompt");
  return {};
}

Result<PreparedRequest> prepare(CompletionRequest request, const TextModel& model, std::int64_t now) {
  auto prompt = encode_prompt(request.prompt, model, now);
  if (!prompt) return pass(prompt);
  const char* param = std::holds_alternative<ChatPrompt>(request.prompt) ? "messages" : "prompt";
  if (prompt->empty()) return fail(ErrorCode::invalid_value, "The prompt has no tokens.", param);
  if (auto ok = check_tokens(*prompt, model.vocab_size, param); !ok) return pass(ok);
  if (prompt->size() >= model.context)
    return fail(ErrorCode::context_length_exceeded,
                "The prompt has " + std::to_string(prompt->size()) + " tokens; the model's context is " +
                    std::to_string(model.context) + " tokens, and at least one is needed for the answer.",
                param);
  if (request.total_tokens > 0 && prompt->size() >= request.total_tokens)
    return fail(ErrorCode::token_limit_exceeded, "The prompt has " + std::to_string(prompt->size()) +
                                                     " tokens; what is left of the app's token limits is " +
                                                     std::to_string(request.total_tokens) +
                                                     ", and at least one is needed for the answer.");

  PreparedRequest out;
  out.owner = std::move(request.owner);
  out.prompt = std::move(*prompt);
  // max_tokens is an upper bound: where the context ends first, the answer ends with reason `length`.
  const std::uint32_t total =
      request.total_tokens == 0 ? model.context : std::min(request.total_tokens, model.context);
  const auto left = static_cast<std::uint32_t>(total - out.prompt.size());
  out.max_tokens = request.max_tokens == 0 ? left : std::min(request.max_tokens, left);
  out.sampling = std::move(request.sampling);
  out.stop = std::move(request.stop);
  out.ignore_eos = request.ignore_eos;
  out.resume_tokens = std::move(request.resume_tokens);
  out.resume_text_bytes = request.resume_text_bytes;
  return out;
}

}  // namespace flyball::engine
