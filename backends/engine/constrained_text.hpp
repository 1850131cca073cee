// The place of one answer in its constraint, and the mask of its next token. The engine thread's own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "backends/constrain/matcher.hpp"
#include "backends/engine/automaton_cache.hpp"
#include "backends/text/tokenizer.hpp"
#include "config/error.hpp"

namespace flyball::engine {

class ConstrainedText {
 public:
  // unsupported_feature: the grammar is too ambiguous. The tokenizer outlives this.
  static Result<ConstrainedText> begin(std::shared_ptr<PlayedConstraint> played,
                                       const text::Tokenizer& tokenizer);

  // The next token's mask, unless it is there. Takes at most some ten milliseconds, mostly some microseconds.
  void make_mask() noexcept;
  // Precondition: make_mask() since the latest accept(). At least one bit is set. unsupported_feature: a
  // limit of automaton or masks, or no token of the vocabulary goes on; insufficient_memory.
  const Result<std::span<const std::uint64_t>>& mask() const { return *mask_; }

  // A token of the answer. True: the word is whole and nothing can follow it. Fails as mask() does, and with
  // invalid_value for a token that the constraint does not allow (of a resumed answer; of mask() none is).
  Result<bool> accept(Token token);
  // The same without a token: so it is at the beginning where the empty text is the only word.
  bool is_over() const { return matcher_.can_end() && matcher_.takes_no_bytes(); }

  std::uint64_t mask_us() const noexcept { return mask_ns_ / 1000; }

 private:
  ConstrainedText(std::shared_ptr<PlayedConstraint> played, const text::Tokenizer& tokenizer,
                  constrain::Matcher matcher);
  Result<std::span<const std::uint64_t>> fill();
  Error out_of_memory();

  std::shared_ptr<PlayedConstraint> played_;
  const text::Tokenizer* tokenizer_;
  constrain::Matcher matcher_;
  std::vector<std::uint64_t> bits_;
  std::optional<Result<std::span<const std::uint64_t>>> mask_;  // nullopt: to be made
  std::uint64_t mask_ns_ = 0;
};

}  // namespace flyball::engine
