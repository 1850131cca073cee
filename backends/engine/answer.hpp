// The text side of one answer: tokens in, released text out, and why it ends: end-of-generation token, stop
// string, the end of its constraint, or length. A resumed answer is fed its old tokens again and skips the
// bytes the client already has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/decode/stop_matcher.hpp"
#include "backends/text/detokenizer.hpp"

namespace flyball::engine {

class Answer {
 public:
  Answer(const text::Tokenizer& tokenizer, std::vector<std::string> stops, bool ignore_eos,
         std::uint32_t max_tokens, std::uint64_t skip_bytes, bool marks_control = false);

  struct Step {
    std::string text;                    // whole characters
    std::optional<FinishReason> finish;  // then this was the last token
    std::vector<ControlSpan> control;    // as in Delta
    void append(Step next);              // what follows it
  };
  // is_last: whatever it is, the answer ends with it (stop). Precondition: no finish before.
  Step accept(Token token, bool is_last = false);

  std::uint32_t tokens() const noexcept { return n_tokens_; }
  const std::string& stop_text() const noexcept {
    return stop_text_;
  }  // the stop string that ended it, or ""

 private:
  // The rest of the text, without the bytes that the client has; `control` becomes its marks.
  std::string skip(std::string text, std::vector<ControlSpan>& control);

  const text::Tokenizer* tokenizer_;
  text::Detokenizer detokenizer_;
  decode::StopMatcher stops_;
  bool ignore_eos_, marks_control_;
  std::uint32_t max_tokens_;
  std::uint64_t skip_bytes_;
  std::uint32_t n_tokens_ = 0;
  std::string stop_text_;
};

}  // namespace flyball::engine
