#include "daemon/route/meter.hpp"

#include <algorithm>

namespace flyball::route {
namespace {

// A tokenizer makes at most a token of a byte, and adds its marks; a chat template adds words of its own.
constexpr std::uint64_t kMarks = 8, kTemplateTokens = 1024;

std::uint64_t most_tokens(const Prompt& prompt) noexcept {
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) return predict::bytes_of(*chat) + kTemplateTokens;
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) return text->text.size() + kMarks;
  if (const auto* infill = std::get_if<InfillPrompt>(&prompt)) return infill->bytes() + kMarks;
  return std::get<TokenPrompt>(prompt).tokens.size();
}

}  // namespace

Demand demand_of(std::span<const Prompt> prompts, std::uint32_t n, std::uint32_t max_tokens,
                 std::uint32_t context) {
  Demand out;
  out.answers = static_cast<std::uint32_t>(prompts.size()) * n;
  // Every answer is counted with its prompt by the engine that has it, so all get the same bound.
  std::uint64_t least = 0, most = 0;
  for (const Prompt& prompt : prompts) {
    least = std::max(least, estimated_tokens(prompt) + std::max(max_tokens, 1U));
    most = std::max(most, max_tokens == 0 ? context : most_tokens(prompt) + max_tokens);
  }
  least = std::min<std::uint64_t>(least, context);
  most = std::clamp<std::uint64_t>(most, least, context);
  out.least_tokens = least * out.answers;
  out.most_tokens = most * out.answers;
  return out;
}

Meter::Meter(std::span<const Prompt> prompts, std::uint32_t n, std::uint32_t context)
    : n_(n), answers_(prompts.size() * n) {
  for (const Prompt& prompt : prompts)
    estimates_.push_back(std::min<std::uint64_t>(estimated_tokens(prompt), context));
}

void Meter::received(std::size_t answer, const Delta& delta) {
  Usage& usage = answers_[answer].usage;
  usage.completion_tokens += static_cast<std::uint32_t>(delta.tokens.size());
  if (delta.prompt_tokens == 0) return;
  usage.prompt_tokens = delta.prompt_tokens;
  usage.cached_tokens = delta.cached_tokens;
}

void Meter::done(std::size_t answer, const Usage& usage) {
  Usage& known = answers_[answer].usage;
  // An engine that took over counts the whole answer; an upstream may count nothing.
  known.completion_tokens = std::max(known.completion_tokens, usage.completion_tokens);
  if (usage.prompt_tokens == 0) return;
  known.prompt_tokens = usage.prompt_tokens;
  known.cached_tokens = usage.cached_tokens;
}

Usage Meter::usage() const {
  Usage total;
  for (std::size_t i = 0; i < answers_.size(); i += n_) {
    Usage prompt;  // as the first of its answers knows it; while that has none, as any does
    for (std::size_t k = i + n_; k-- > i;) {
      total.completion_tokens += answers_[k].usage.completion_tokens;
      if (answers_[k].usage.prompt_tokens > 0) prompt = answers_[k].usage;
    }
    total.prompt_tokens += prompt.prompt_tokens;
    total.cached_tokens += prompt.cached_tokens;
  }
  return total;
}

std::uint64_t Meter::charge() const {
  const Usage total = usage();
  std::uint64_t tokens = std::uint64_t{total.prompt_tokens} + total.completion_tokens;
  for (std::size_t i = 0; i < answers_.size(); i += n_) {
    bool counted = false, with_engine = false;
    for (std::size_t k = i; k < i + n_; ++k) {
      counted = counted || answers_[k].usage.prompt_tokens > 0;
      with_engine = with_engine || answers_[k].with_engine;
    }
    if (!counted && with_engine) tokens += estimates_[i / n_];
  }
  return tokens;
}

}  // namespace flyball::route
