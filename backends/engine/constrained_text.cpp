#include "backends/engine/constrained_text.hpp"

#include <chrono>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace flyball::engine {
namespace {

// Forced bytes that the next token is sought in. A word that does not end within them is drawn.
constexpr std::size_t kForcedBytes = 64;

std::uint64_t ns_since(std::chrono::steady_clock::time_point begin) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count());
}

std::unexpected<Error> cannot_go_on(Error why) {
  why.message = "The answer cannot go on under its constraint: " + why.message + ".";
  return std::unexpected(std::move(why));
}

}  // namespace

ConstrainedText::ConstrainedText(std::shared_ptr<PlayedConstraint> played, const text::Tokenizer& tokenizer,
                                 constrain::Matcher matcher)
    : played_(std::move(played)),
      tokenizer_(&tokenizer),
      first_token_(tokenizer.first_token()),
      matcher_(std::move(matcher)),
      bits_(played_->vocabulary->words()) {}

Result<ConstrainedText> ConstrainedText::begin(std::shared_ptr<PlayedConstraint> played,
                                               const text::Tokenizer& tokenizer) {
  auto matcher = constrain::Matcher::begin(played->automaton);
  if (!matcher) return cannot_go_on(std::move(matcher.error()));
  try {
    return ConstrainedText(std::move(played), tokenizer, std::move(*matcher));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::insufficient_memory, "Out of memory.");
  }
}

void ConstrainedText::make_mask() noexcept {
  if (mask_) return;
  const auto begin = std::chrono::steady_clock::now();
  try {
    mask_ = played_->broken ? std::unexpected(out_of_memory()) : fill();
  } catch (const std::bad_alloc&) {
    mask_ = std::unexpected(out_of_memory());
  }
  mask_ns_ += ns_since(begin);
}

Result<std::span<const std::uint64_t>> ConstrainedText::fill() {
  const std::uint64_t before = played_->masks.all_work();
  auto allowed = played_->masks.fill(matcher_, bits_);
  work_ += played_->masks.all_work() - before;
  if (const std::uint64_t most = kFirstWork + drawn_ * kWorkPerToken; work_ > most)
    return cannot_go_on({ErrorCode::unsupported_feature,
                         "the masks of " + std::to_string(drawn_) + " tokens take more than " +
                             std::to_string(most) + " steps; make it less ambiguous",
                         {},
                         {}});
  if (!allowed) return cannot_go_on(std::move(allowed.error()));
  if (*allowed == 0)
    return cannot_go_on({ErrorCode::unsupported_feature, "no token of the model continues its text", {}, {}});
  return bits_;
}

std::optional<Token> ConstrainedText::forced() noexcept {
  if (forced_) return *forced_;
  forced_.emplace();
  if (!first_token_ || played_->broken) return std::nullopt;  // a broken one's mask fails
  const auto begin = std::chrono::steady_clock::now();
  try {
    forced_ = find_forced();
  } catch (const std::bad_alloc&) {
    played_->broken = true;
  }
  mask_ns_ += ns_since(begin);
  return *forced_;
}

std::optional<Token> ConstrainedText::find_forced() {
  const constrain::Forced next = forced_bytes();
  if (next.starved) mask_ = cannot_go_on(constrain::overflow(*played_->automaton).error());
  if (next.starved || next.bytes.empty()) return std::nullopt;
  if (played_->markers)
    if (const auto marker = played_->markers->first_of(next.bytes)) return marker;
  const auto token = first_token_->of(next.bytes, next.whole);
  if (!token || static_cast<std::size_t>(*token) >= played_->vocabulary->size() ||
      tokenizer_->is_end_of_generation(*token))
    return std::nullopt;
  const std::string_view text = bytes(*token);
  if (text.empty() || !next.bytes.starts_with(text)) return std::nullopt;
  return token;
}

std::string_view ConstrainedText::bytes(Token token) const noexcept {
  if (played_->markers)
    if (const std::string_view marker = played_->markers->spelling(token); !marker.empty()) return marker;
  return tokenizer_->bytes(token);
}

constrain::Forced ConstrainedText::forced_bytes() {
  const std::uint64_t before = played_->automaton->work();
  constrain::Forced next = constrain::forced(matcher_, kForcedBytes);
  if (next.starved) {
    played_->masks.forget();  // they hold much of it
    next = constrain::forced(matcher_, kForcedBytes);
  }
  work_ += played_->automaton->work() - before;
  return next;
}

Result<bool> ConstrainedText::accept(Token token) {
  const bool drawn = !forced_ || !*forced_;
  mask_.reset();
  forced_.reset();
  if (drawn) ++drawn_;
  if (played_->broken) return std::unexpected(out_of_memory());
  if (tokenizer_->is_end_of_generation(token)) {
    if (matcher_.can_end()) return true;
    return fail(ErrorCode::invalid_value, "The answer ends before it is a word of its constraint.");
  }
  try {
    auto accepted = matcher_.accept(bytes(token));
    if (!accepted && played_->automaton->met() == constrain::Overflow::memory) {
      played_->masks.forget();  // they hold much of it
      accepted = matcher_.accept(bytes(token));
    }
    if (!accepted) return cannot_go_on(std::move(accepted.error()));
    if (!*accepted)
      return fail(ErrorCode::invalid_value,
                  "Token " + std::to_string(token) + " of the answer is not allowed by its constraint.");
  } catch (const std::bad_alloc&) {
    return std::unexpected(out_of_memory());
  }
  return is_over();
}

// Short enough for std::string to hold it without memory.
Error ConstrainedText::out_of_memory() {
  played_->broken = true;
  return {ErrorCode::insufficient_memory, "Out of memory.", {}, {}};
}

}  // namespace flyball::engine
