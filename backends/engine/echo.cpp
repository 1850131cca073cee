#include "backends/engine/echo.hpp"

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

// Bytes of the client's text that the first n tokens stand for.
std::size_t Echo::text_before(std::uint32_t n) const noexcept {
  const std::string& text = request_.text;
  std::size_t at = text.size() / n_prompt_ * n + text.size() % n_prompt_ * n / n_prompt_;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
  return at;
}

void Echo::add(Token token, Delta& delta) {
  const std::uint32_t at = sent_++;
  ++delta.echoed;
  if (!request_.text.empty()) {
    const std::size_t begin = text_before(at);
    delta.text.append(request_.text, begin, text_before(sent_) - begin);
    return;
  }
  if (!hides(at)) delta.text += detokenizer_.push(token);
  if (over()) delta.text += detokenizer_.finish();
}

void Echo::add_scored(Token token, TokenLogprob logprob, Delta& delta) {
  logprob.in_text = !hides(sent_);
  delta.logprobs.push_back(std::move(logprob));
  add(token, delta);
}

Delta Echo::next(std::span<const Token> prompt, const LogitRows& rows) {
  Delta delta;
  if (!request_.scores()) {
    while (!over() && delta.echoed < kMostTokens && delta.text.size() < kMostBytes) add(prompt[sent_], delta);
    return delta;
  }
  if (sent_ == 0) {
    TokenLogprob first;
    first.token = prompt[0];
    first.bytes = detokenizer_.bytes(prompt[0]);
    first.known = false;
    add_scored(prompt[0], std::move(first), delta);
  }
  const auto bytes = [this](Token token) { return std::string(detokenizer_.bytes(token)); };
  std::size_t n = 0;
  for (std::size_t i = 0; i < rows.size() && n < kMostBytes; ++i) {
    const Token token = prompt[sent_];
    TokenLogprob logprob = token_logprob(*tokenizer_, rows[i], token, request_.top_logprobs, bytes);
    n += logprob.bytes.size();
    for (const auto& likely : logprob.top) n += likely.first.size();
    add_scored(token, std::move(logprob), delta);
  }
  return delta;
}

}  // namespace flyball::engine
