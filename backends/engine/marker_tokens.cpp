#include "backends/engine/marker_tokens.hpp"

#include <algorithm>
#include <span>

#include "backends/call_markers.hpp"

namespace flyball::engine {
namespace {

bool is_among(std::span<const std::string_view> markers, std::string_view spelling) noexcept {
  return std::ranges::find(markers, spelling) != markers.end();
}

}  // namespace

MarkerTokens::MarkerTokens(const text::Tokenizer& tokenizer, std::uint32_t vocab_size,
                           const AnswerForm& form) {
  const auto of_calls = markers_of(form.calls), of_reasoning = markers_of(form.reasoning);
  if (of_calls.empty() && of_reasoning.empty()) return;
  for (std::uint32_t id = 0; id < vocab_size; ++id) {
    const auto token = static_cast<Token>(id);
    if (tokenizer.kind(token) != text::TokenKind::control || tokenizer.is_end_of_generation(token)) continue;
    const std::string_view spelling = tokenizer.bytes(token, true);
    if (is_among(of_calls, spelling) || is_among(of_reasoning, spelling))
      markers_.push_back({token, spelling});
  }
}

std::string_view MarkerTokens::spelling(Token token) const noexcept {
  const auto found = std::ranges::find(markers_, token, &Marker::token);
  return found == markers_.end() ? std::string_view() : found->spelling;
}

std::optional<Token> MarkerTokens::first_of(std::string_view text) const noexcept {
  const Marker* best = nullptr;
  for (const Marker& one : markers_)
    if (text.starts_with(one.spelling) && (best == nullptr || one.spelling.size() > best->spelling.size()))
      best = &one;
  return best == nullptr ? std::nullopt : std::optional(best->token);
}

}  // namespace flyball::engine
