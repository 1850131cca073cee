// How far predictions of one quantity were off, the latest of them. Bounded.
#pragma once

#include <cmath>
#include <cstddef>

#include "daemon/predict/statistics/window.hpp"

namespace flyball::predict {

class Accuracy {
 public:
  static constexpr std::size_t kKept = 64;

  // Any unit. p50, p90: as predicted.
  void add(double actual, double p50, double p90) {
    if (actual > 0) seen_.add({std::abs(actual - p50) / actual, actual <= p90 ? 1.0 : 0.0});
  }
  std::size_t seen() const noexcept { return seen_.size(); }
  // The median of |actual - p50| / actual. 0 of none.
  double error() const { return seen_.empty() ? 0 : median(seen_.sorted(&Seen::error).values()); }
  // The share that was at most p90; nine in ten, if predictions are right. 0 of none.
  double coverage() const { return seen_.mean(&Seen::covered); }

 private:
  struct Seen {
    double error = 0, covered = 0;
  };
  Window<Seen, kKept> seen_;
};

}  // namespace flyball::predict
