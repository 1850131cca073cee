#include "backends/engine/echo.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/engine/token_logprob.hpp"

namespace flyball::engine {

Echo::Echo(const text::Tokenizer& tokenizer, const EchoRequest& request, std::span<const Token> prompt)
    : tokenizer_(&tokenizer),
      detokenizer_(tokenizer, /*at_start=*/true, /*render_special=*/true),
      request_(request),
      n_prompt_(static_cast<std::uint32_t>(prompt.size())) {
  Delta sent;
  for (const Token token : prompt.first(request.sent)) add(token, sent);
}

bool Echo::hides(std::uint32_t at) const noexcept {
  return (at == 0 && request_.hides_first) || (at + 1 == n_prompt_ && request_.hides_last);
}

void Echo::add(Token token, Delta& delta) {
  if (!hides(sent_)) delta.text += detokenizer_.push(token);
  if (++sent_ == n_prompt_) delta.text += detokenizer_.finish();
  ++delta.echoed;
}

void Echo::add_scored(Token token, TokenLogprob logprob, Delta& delta) {
  logprob.bytes = detokenizer_.bytes(token);
  logprob.in_text = !hides(sent_);
  delta.logprobs.push_back(std::move(logprob));
  add(token, delta);
}

Delta Echo::next(std::span<const Token> prompt, const LogitRows& rows) {
  Delta delta;
  if (!request_.scores()) {
    const std::uint32_t end = sent_ + std::min(kMostTokens, n_prompt_ - sent_);
    while (sent_ < end) add(prompt[sent_], delta);
    return delta;
  }
  if (sent_ == 0) {
    TokenLogprob first;
    first.token = prompt[0];
    first.known = false;
    add_scored(prompt[0], std::move(first), delta);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Token token = prompt[sent_];
    add_scored(token, token_logprob(*tokenizer_, rows[i], token, request_.top_logprobs), delta);
  }
  return delta;
}

}  // namespace flyball::engine
