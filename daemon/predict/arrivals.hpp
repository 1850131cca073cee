// The requests that come to an engine while it has others: how many a second, and how long their prompts are.
// A client that waits for each answer before it sends the next request finds the engine empty, and is not
// counted. Interactive requests are counted apart. Pure; bounded.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "backends/backend.hpp"
#include "daemon/predict/statistics/window.hpp"

namespace flyball::predict {

class Arrivals {
 public:
  // Time passes, in seconds. busy: with a request at the engine. What was counted wanes with it, busy or not.
  void passed(double seconds, bool busy) noexcept {
    if (!(seconds > 0)) return;
    const double kept = std::exp(-seconds / kMemory);
    came_ *= kept;
    busy_ = busy_ * kept + (busy ? std::min(seconds, kMemory) : 0);
  }
  // A request came. tokens: of its prompt, to compute. finds_others: requests are at the engine already.
  void came(double tokens, bool finds_others) {
    prompts_.add(tokens);
    if (finds_others) ++came_;
  }
  // Requests for each second in which the engine has one. Rates are taken for lower than seen until some
  // seconds were seen: two requests at once are no thousand a second.
  double per_second() const noexcept { return came_ / (busy_ + kPrior); }

  struct Prompts {
    double share = 0;              // of the latest prompts
    double tokens = 0, pairs = 0;  // on average
  };
  // The prompts of fewer tokens than this.
  Prompts below(double tokens) const noexcept {
    Prompts out;
    for (std::size_t age = 0; age < prompts_.size(); ++age) {
      const double n = prompts_.latest(age);
      if (n >= tokens) continue;
      ++out.share;
      out.tokens += n;
      out.pairs += n * (n + 1) / 2;
    }
    if (out.share == 0) return out;
    out.tokens /= out.share;
    out.pairs /= out.share;
    out.share /= static_cast<double>(prompts_.size());
    return out;
  }

  // The median number of requests where `mean` come on average, of a Poisson distribution [Choi 1994, On the
  // medians of gamma distributions].
  static double median_of(double mean) noexcept {
    return mean > 0 ? std::max(std::floor(mean + 1.0 / 3 - 0.02 / mean), 0.0) : 0;
  }

 private:
  static constexpr std::size_t kKept = 32;
  static constexpr double kMemory = 60, kPrior = 5;  // seconds
  double came_ = 0, busy_ = 0;
  Window<double, kKept> prompts_;
};

// Interactive requests that have come to an engine in the latest minutes, whether it was busy or not.
class InteractiveArrivals {
 public:
  // A request came. tokens: of its prompt, to compute. output: tokens that its answer should have.
  void came(TimePoint now, double tokens, double output) noexcept {
    pass(now);
    ++came_;
    tokens_ += tokens;
    output_ += output;
  }
  // How many come a second, 0 below kLeastRate; and the mean of them.
  struct Mean {
    double per_second = 0, tokens = 0, output = 0;
  };
  Mean mean(TimePoint now) noexcept {
    pass(now);
    const double rate = came_ / watched_;
    return rate < kLeastRate ? Mean{} : Mean{rate, tokens_ / came_, output_ / came_};
  }

 private:
  static constexpr double kMemory = 300;  // seconds: people who have read an answer come back within minutes
  // One in ten minutes: a request that takes some seconds meets one such arrival in a hundred.
  static constexpr double kLeastRate = 1.0 / 600;
  void pass(TimePoint now) noexcept {
    const double kept =
        came_ > 0 ? std::min(std::exp(std::chrono::duration<double>(at_ - now).count() / kMemory), 1.0) : 1;
    for (double* const sum : {&came_, &tokens_, &output_}) *sum *= kept;
    watched_ = watched_ * kept + kMemory * (1 - kept);
    at_ = std::max(at_, now);
  }
  TimePoint at_{};
  double came_ = 0, tokens_ = 0, output_ = 0;  // sums, which wane
  double watched_ = 60;  // seconds, which wane: nobody had come for a minute before the first one
};

}  // namespace flyball::predict
