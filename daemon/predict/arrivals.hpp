// Requests that come while others are at an engine: how many a second, and how long their prompts are. Whoever
// waits for each answer before he asks again finds the engine without work, and nobody has to expect him.
// Pure; bounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "daemon/predict/statistics/window.hpp"

namespace flyball::predict {

class Arrivals {
 public:
  void passed(double seconds) noexcept { seconds_ += seconds; }  // with a request at the engine
  // tokens: of the prompt. others: it finds other requests there.
  void came(double tokens, bool others) {
    prompts_.add(tokens);
    if (others) ++came_;
  }
  // One of them has left: some twenty are remembered.
  void left() noexcept {
    constexpr double kMemory = 0.95;
    came_ *= kMemory;
    seconds_ *= kMemory;
  }
  double per_second() const noexcept { return seconds_ > 0 ? came_ / seconds_ : 0; }

  struct Prompts {
    double share = 0;   // of the latest prompts
    double tokens = 0;  // on average; 0 of none
  };
  // Those below so many tokens.
  Prompts below(double tokens) const noexcept {
    Prompts out;
    for (std::size_t age = 0; age < prompts_.size(); ++age) {
      if (prompts_.latest(age) >= tokens) continue;
      ++out.share;
      out.tokens += prompts_.latest(age);
    }
    if (out.share > 0) out.tokens /= out.share;
    if (!prompts_.empty()) out.share /= static_cast<double>(prompts_.size());
    return out;
  }

  // In half of all cases no more come than this, where so many come on average: the median of a Poisson
  // distribution [Choi 1994, On the medians of gamma distributions].
  static double median_of(double mean) noexcept {
    return mean > 0 ? std::max(std::floor(mean + 1.0 / 3 - 0.02 / mean), 0.0) : 0;
  }

 private:
  static constexpr std::size_t kKept = 32;
  double came_ = 0, seconds_ = 0;
  Window<double, kKept> prompts_;
};

}  // namespace flyball::predict
