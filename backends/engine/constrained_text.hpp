// The place of one answer in its constraint, and the mask of its next token. The engine thread's own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "backends/constrain/forced.hpp"
#include "backends/constrain/matcher.hpp"
#include "backends/engine/automaton_cache.hpp"
#include "backends/text/tokenizer.hpp"
#include "config/error.hpp"

namespace flyball::engine {

class ConstrainedText {
 public:
  // Work for the masks and forced tokens of one answer, in the automaton's units of about 10 ns, at the
  // beginning and for each token that is drawn. Ordinary answers take a hundredth; over it an answer ends, so
  // that no app holds up the others.
  static constexpr std::uint64_t kFirstWork = 5'000'000, kWorkPerToken = 100'000;

  // unsupported_feature: the grammar is too ambiguous; insufficient_memory. The tokenizer outlives this.
  static Result<ConstrainedText> begin(std::shared_ptr<PlayedConstraint> played,
                                       const text::Tokenizer& tokenizer);
  ConstrainedText(ConstrainedText&&) = default;  // mask() stays valid
  ConstrainedText& operator=(ConstrainedText&&) = default;

  // Makes the next token's mask, unless it is there. Mostly takes some microseconds, and at most some 30 ms:
  // a mask's own work is bounded, and now and then the automaton's memory is collected.
  void make_mask() noexcept;
  // Precondition: make_mask() since the latest accept(). At least one bit is set. unsupported_feature: a
  // limit of automaton, masks or their work, or no token of the vocabulary goes on; insufficient_memory.
  const Result<std::span<const std::uint64_t>>& mask() const { return *mask_; }

  // The next token where the constraint leaves no choice of text, and nothing that may follow changes how the
  // text is encoded; nullopt: it is to be drawn. The text so far decides it, so that an answer resumed
  // anywhere goes on alike. Takes some microseconds. Where memory is short it is nullopt, and mask() fails.
  std::optional<Token> forced() noexcept;

  // A token of the answer. True: the word is whole and nothing can follow it. Fails as mask() does, and with
  // invalid_value for a token that the constraint does not allow (of a resumed answer; of mask() none is).
  Result<bool> accept(Token token);
  // True if nothing can follow the text so far, as at the beginning where only the empty text is allowed.
  bool is_over() const { return matcher_.can_end() && matcher_.takes_no_bytes(); }

  // Time for masks and forced tokens.
  std::uint64_t mask_us() const noexcept { return mask_ns_ / 1000; }

 private:
  ConstrainedText(std::shared_ptr<PlayedConstraint> played, const text::Tokenizer& tokenizer,
                  constrain::Matcher matcher);
  std::string_view bytes(Token token) const noexcept;  // that it stands for
  constrain::Forced forced_bytes();
  Result<std::span<const std::uint64_t>> fill();
  std::optional<Token> find_forced();
  Error out_of_memory();

  std::shared_ptr<PlayedConstraint> played_;
  const text::Tokenizer* tokenizer_;
  std::unique_ptr<text::Tokenizer::FirstToken> first_token_;  // null: no token is forced
  constrain::Matcher matcher_;
  std::vector<std::uint64_t> bits_;
  std::optional<Result<std::span<const std::uint64_t>>> mask_;  // nullopt: to be made
  std::optional<std::optional<Token>> forced_;                  // the same
  std::uint64_t mask_ns_ = 0;
  std::uint64_t work_ = 0, drawn_ = 0;  // so far; tokens drawn
};

}  // namespace flyball::engine
