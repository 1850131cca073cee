// The control tokens with which a model writes calls and reasoning. Under a constraint of a request that
// marks control tokens they stand for their spelling, as they do in its answer's text. Immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/answer_form.hpp"
#include "backends/text/tokenizer.hpp"

namespace flyball::engine {

class MarkerTokens {
 public:
  // Takes those of the form's markers that the vocabulary has as control tokens below vocab_size. The
  // tokenizer outlives this.
  MarkerTokens(const text::Tokenizer& tokenizer, std::uint32_t vocab_size, const AnswerForm& form);

  bool empty() const noexcept { return markers_.empty(); }
  std::string_view spelling(Token token) const noexcept;  // "": it is none of them
  // The one whose spelling the text begins with; the longest, if there are several.
  std::optional<Token> first_of(std::string_view text) const noexcept;

 private:
  struct Marker {
    Token token = 0;
    std::string_view spelling;
  };
  std::vector<Marker> markers_;  // a handful
};

}  // namespace flyball::engine
