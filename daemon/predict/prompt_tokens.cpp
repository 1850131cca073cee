#include "daemon/predict/prompt_tokens.hpp"

#include <variant>

namespace flyball::predict {

std::uint64_t bytes_of(const ChatPrompt& chat) noexcept {
  return chat.messages.json_bytes() + chat.tools.json_bytes() + chat.template_args.json_bytes();
}

std::uint64_t estimated_tokens(const Prompt& prompt) noexcept {
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt))
    return bytes_of(*chat) / PromptTokens::kBytesPerToken + PromptTokens::kTemplateTokens;
  if (const auto* text = std::get_if<TextPrompt>(&prompt))
    return text->text.size() / PromptTokens::kBytesPerToken + 1;
  if (const auto* infill = std::get_if<InfillPrompt>(&prompt))
    return infill->bytes() / PromptTokens::kBytesPerToken + PromptTokens::kTemplateTokens;
  return std::get<TokenPrompt>(prompt).tokens.size();
}

}  // namespace flyball::predict
