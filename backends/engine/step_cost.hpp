// How long a step takes, learned from those that have run: so much for the step, for each token, for each
// pair of a token and a position it attends to, for each position whose KV is read, and for each prompt token
// whose row of logits is wanted. Late chunks of a long prompt cost many times what its first ones do;
// counting tokens does not see it. A decode reads the KV of all its positions for one token, a prompt's chunk
// once for all its tokens: its pairs cost far less. Pure: the engine thread measures.
#pragma once

#include <array>
#include <cstdint>

namespace flyball::engine {

struct StepWork {
  std::uint32_t tokens = 0;
  std::uint64_t pairs = 0;  // a token at position p attends to p + 1 positions
  std::uint64_t reads = 0;  // positions whose KV is read, once for all tokens of a sequence
  std::uint32_t rows = 0;   // of logits, for log probabilities of prompts

  static StepWork of(std::uint32_t first_position, std::uint32_t n_tokens) noexcept;
  StepWork& operator+=(const StepWork& more) noexcept;
};

struct StepCost {  // seconds
  double step = 0;
  double token = 0;
  double pair = 0;
  double read = 0;
  double row = 0;

  // The cost where each token of a sequence has a row of logits.
  StepCost with_rows() const noexcept { return {step, token + row, pair, read, row}; }
  double of(const StepWork& work) const noexcept;  // of a step that holds it
  // What n_tokens of a sequence, from first_position on, add to a step.
  double added(std::uint32_t first_position, std::uint32_t n_tokens) const noexcept;
  // Most of `most` tokens that add no more than `seconds`.
  std::uint32_t fit(double seconds, std::uint32_t first_position, std::uint32_t most) const noexcept;
};

// Least squares of relative errors over the latest steps. What they do not tell apart stays as it is in
// proportion. A step more than kSurprise off is taken for the system's doing and not counted; a second one
// for a change of the device. In a row, nothing before counts any more; after steps of another kind, that
// were as expected, it counts as far as one is believed.
class StepCostFit {
 public:
  static constexpr double kSurprise = 2;  // times as long, or as short, as expected

  explicit StepCostFit(const StepCost& guess) noexcept : cost_(guess) {}
  const StepCost& cost() const noexcept { return cost_; }
  void measured(const StepWork& work, double seconds) noexcept;

 private:
  static constexpr std::size_t kTerms = 5;
  using Vector = std::array<double, kTerms>;  // step, token, pair, read, row

  static Vector terms_of(const StepWork& work) noexcept;
  Vector costs() const noexcept { return {cost_.step, cost_.token, cost_.pair, cost_.read, cost_.row}; }
  void set(const Vector& costs) noexcept;
  void explain(const StepWork& work, double seconds) noexcept;
  void solve() noexcept;

  StepCost cost_;
  std::array<Vector, kTerms> squares_{};  // of the steps seen, the latest count most
  Vector sums_{};
  bool surprised_ = false;  // by the step before
  int direction_ = 0;       // of the latest surprise: 1 slower, -1 faster than expected
};

}  // namespace flyball::engine
