// The beginning of an answer that echoes its prompt: the prompt's tokens in order, some in each delta, with
// their text and, where they are wanted, their log probabilities. A token's part depends on the prompt alone,
// so that another engine goes on where one has stopped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "backends/backend.hpp"
#include "backends/text/detokenizer.hpp"
#include "backends/text/tokenizer.hpp"

namespace flyball::engine {

// Rows of logits of `vocab` tokens each, which begin `stride` values apart.
struct LogitRows {
  std::span<const float> values = {};
  std::size_t stride = 1, vocab = 0;

  std::size_t size() const noexcept { return values.size() / stride; }
  std::span<const float> operator[](std::size_t i) const { return values.subspan(i * stride, vocab); }
  LogitRows from(std::size_t i) const { return {values.subspan(i * stride), stride, vocab}; }
};

struct EchoRequest {
  std::uint32_t sent = 0;  // tokens that the client has
  // The prompt's first and last token were added by the tokenizer, and have no text.
  bool hides_first = false, hides_last = false;
  std::int32_t top_logprobs = -1;  // as in SamplingParams
  // The prompt as the client wrote it: each token stands for an equal part of it, in whole characters. Empty:
  // tokens stand for what they spell.
  std::string text = {};

  bool scores() const noexcept { return top_logprobs >= 0; }
};

class Echo {
 public:
  // Most tokens of a delta. One with log probabilities has no more than a step has rows.
  static constexpr std::uint32_t kMostTokens = 1024;
  // A delta ends with the token that brings it to so many bytes, those of likely tokens included: a worker's
  // frame has room for it whatever the vocabulary.
  static constexpr std::size_t kMostBytes = 64 * 1024;

  // prompt: not empty, of which no more than request.sent are sent. The tokenizer outlives this.
  Echo(const text::Tokenizer& tokenizer, const EchoRequest& request, std::span<const Token> prompt);

  bool over() const noexcept { return sent_ == n_prompt_; }
  std::uint32_t sent() const noexcept { return sent_; }
  // True where the next token needs no row of logits: no log probabilities are wanted, or it is the first.
  bool needs_no_row() const noexcept { return !over() && (!request_.scores() || sent_ == 0); }
  // The next tokens of the same prompt, at least one. `rows`: the logits that each of them was predicted by,
  // all finite. None where needs_no_row(): with log probabilities that is one token.
  Delta next(std::span<const Token> prompt, const LogitRows& rows = {});

 private:
  bool hides(std::uint32_t at) const noexcept;
  std::size_t text_before(std::uint32_t n) const noexcept;
  void add(Token token, Delta& delta);
  void add_scored(Token token, TokenLogprob logprob, Delta& delta);

  const text::Tokenizer* tokenizer_;
  text::Detokenizer detokenizer_;
  EchoRequest request_;
  std::uint32_t n_prompt_, sent_ = 0;
};

}  // namespace flyball::engine
