#include "backends/constrain/matcher.hpp"

#include <array>
#include <string>
#include <utility>

namespace flyball::constrain {

Matcher::Matcher(std::shared_ptr<Automaton> automaton) : automaton_(std::move(automaton)) {
  history_.push_back(automaton_->start());
  automaton_->hold(now());
}

Matcher::Matcher(const Matcher& other) : automaton_(other.automaton_), history_(other.history_) {
  for (const auto id : history_) automaton_->hold(id);
}

Matcher::Matcher(Matcher&& other) noexcept
    : automaton_(std::exchange(other.automaton_, nullptr)), history_(std::move(other.history_)) {
  other.history_.clear();
}

Matcher& Matcher::operator=(Matcher other) noexcept {
  std::swap(automaton_, other.automaton_);
  std::swap(history_, other.history_);
  return *this;
}

Matcher::~Matcher() {
  for (const auto id : history_) automaton_->release(id);
}

Result<Matcher> Matcher::begin(std::shared_ptr<Automaton> automaton) {
  if (automaton->start() == Automaton::kOverflow) return overflow(*automaton);
  return Matcher(std::move(automaton));
}

Result<bool> Matcher::accept(std::string_view bytes) {
  Automaton::SetId to = now();
  for (const char byte : bytes) {
    const Automaton::SetId from = to;
    to = automaton_->next(from, static_cast<std::uint8_t>(byte));
    if (to == Automaton::kOverflow && automaton_->met() == Overflow::memory) {
      automaton_->collect(std::array{from});
      to = automaton_->next(from, static_cast<std::uint8_t>(byte));
    }
    if (to == Automaton::kDead) return false;
    if (to == Automaton::kOverflow) return overflow(*automaton_);
    if (automaton_->is_full()) automaton_->collect(std::array{to});
  }
  automaton_->hold(to);
  history_.push_back(to);
  if (history_.size() > kHistory + 1) {
    automaton_->release(history_.front());
    history_.erase(history_.begin());
  }
  return true;
}

bool Matcher::rollback(std::size_t tokens) {
  if (tokens >= history_.size()) return false;
  for (; tokens > 0; --tokens) {
    automaton_->release(history_.back());
    history_.pop_back();
  }
  return true;
}

std::unexpected<Error> overflow(const Automaton& automaton) {
  const AutomatonLimits& limits = automaton.limits();
  std::string message;
  switch (automaton.met()) {
    case Overflow::frames:
      message = "the text nests the grammar in more than " + std::to_string(limits.frames) + " frames";
      break;
    case Overflow::memory:
      message = "the answers that share the grammar take more than " + std::to_string(limits.most) +
                " bytes of stacks";
      break;
    default:
      message = "the grammar has more than " + std::to_string(limits.configurations) +
                " ways to read the text; make it less ambiguous";
  }
  return fail(ErrorCode::unsupported_feature, std::move(message));
}

}  // namespace flyball::constrain
