// How many tokens the next step may hold so that it takes about kStepTarget: what is cancelled ends, and
// streams that decode go on, once a step. Pure: the engine thread measures. Begins small and doubles while
// steps are quick, so that a slow device is never tried with a step of many seconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace flyball::engine {

inline constexpr std::chrono::nanoseconds kStepTarget = std::chrono::milliseconds(150);
inline constexpr std::uint32_t kLeastStepTokens = 16;  // below it weights are read for too few tokens

class StepBudget {
 public:
  // most: what a step may hold on the fastest device, > 0.
  explicit StepBudget(std::uint32_t most) : most_(most), tokens_(std::min(most, kLeastStepTokens)) {}

  std::uint32_t tokens() const noexcept { return tokens_; }
  // A step of n_tokens (> 0) under this budget took so long.
  void measured(std::uint32_t n_tokens, std::chrono::nanoseconds elapsed) noexcept;

 private:
  std::uint32_t most_;
  std::uint32_t tokens_;
  bool was_slow_ = false;  // the step before
};

}  // namespace flyball::engine
