#include "backends/engine/step_cost.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace flyball::engine {
namespace {

// Weight of a step against the next one: some ten steps are remembered.
constexpr double kMemory = 0.9;
// How much the costs known before weigh against the steps remembered, in steps.
constexpr double kPrior = 0.5;
// Nothing is free: a clock too coarse to see a step must not make costs that nothing can scale up again.
constexpr double kShortestStep = 1e-6;
constexpr double kLeastCost = 1e-15;

}  // namespace

StepWork StepWork::of(std::uint32_t first_position, std::uint32_t n_tokens) noexcept {
  const std::uint64_t n = n_tokens;
  return {n_tokens, n * first_position + n * (n + 1) / 2};
}

StepWork& StepWork::operator+=(const StepWork& more) noexcept {
  tokens += more.tokens;
  pairs += more.pairs;
  return *this;
}

double StepCost::of(const StepWork& work) const noexcept {
  return step + token * work.tokens + pair * static_cast<double>(work.pairs);
}

double StepCost::added(std::uint32_t first_position, std::uint32_t n_tokens) const noexcept {
  return of(StepWork::of(first_position, n_tokens)) - step;
}

std::uint32_t StepCost::fit(double seconds, std::uint32_t first_position, std::uint32_t most) const noexcept {
  std::uint32_t fits = 0, too_many = most + 1;
  while (too_many - fits > 1) {
    const std::uint32_t n = fits + (too_many - fits) / 2;
    (added(first_position, n) <= seconds ? fits : too_many) = n;
  }
  return fits;
}

void StepCostFit::measured(const StepWork& work, double seconds) noexcept {
  seconds = std::max(seconds, kShortestStep);
  const double expected = cost_.of(work);
  const double off = seconds / expected;
  const int direction = off > kSurprise ? 1 : off < 1 / kSurprise ? -1 : 0;
  if (direction != 0) {
    const bool in_a_row = std::exchange(surprised_, true);
    const bool again = std::exchange(direction_, direction) == direction;
    if (in_a_row) {
      squares_ = {};
      sums_ = {};
      explain(work, seconds);
      surprised_ = false;
      return;
    }
    if (!again) return;
    seconds = expected * (direction > 0 ? kSurprise : 1 / kSurprise);
  } else {
    surprised_ = false;
  }
  // Divided by the time: a long step's error counts no more than a short one's.
  const Vector row{1 / seconds, work.tokens / seconds, static_cast<double>(work.pairs) / seconds};
  for (std::size_t i = 0; i < 3; ++i) {
    sums_[i] = kMemory * sums_[i] + row[i];
    for (std::size_t j = 0; j < 3; ++j) squares_[i][j] = kMemory * squares_[i][j] + row[i] * row[j];
  }
  solve();
}

// Scales what makes up most of such a step until it takes what was measured.
void StepCostFit::explain(const StepWork& work, double seconds) noexcept {
  for (int i = 0; i < 8; ++i) {
    const Vector parts{cost_.step, cost_.token * work.tokens, cost_.pair * static_cast<double>(work.pairs)};
    const double sum = parts[0] + parts[1] + parts[2];
    const double squares = parts[0] * parts[0] + parts[1] * parts[1] + parts[2] * parts[2];
    const auto scaled = [&](double cost, double part) {
      return std::max(cost * std::pow(seconds / sum, part * part / squares), kLeastCost);
    };
    cost_ = {scaled(cost_.step, parts[0]), scaled(cost_.token, parts[1]), scaled(cost_.pair, parts[2])};
  }
}

// The relative change d of the costs c that has the least error, S (A S d - (b - A c)) + prior d = 0 with
// S = diag(c): elimination without pivots, because the matrix is positive definite.
void StepCostFit::solve() noexcept {
  const Vector c{cost_.step, cost_.token, cost_.pair};
  std::array<Vector, 3> m{};
  Vector d{};
  for (std::size_t i = 0; i < 3; ++i) {
    d[i] = c[i] * sums_[i];
    for (std::size_t j = 0; j < 3; ++j) {
      m[i][j] = c[i] * squares_[i][j] * c[j];
      d[i] -= m[i][j];
    }
    m[i][i] += kPrior;
  }
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = i + 1; k < 3; ++k) {
      const double f = m[k][i] / m[i][i];
      for (std::size_t j = i; j < 3; ++j) m[k][j] -= f * m[i][j];
      d[k] -= f * d[i];
    }
  for (std::size_t i = 3; i-- > 0;) {
    for (std::size_t j = i + 1; j < 3; ++j) d[i] -= m[i][j] * d[j];
    d[i] /= m[i][i];
  }
  // No cost moves by more than its half in one step.
  const auto moved = [](double cost, double by) {
    return std::max(cost * (1 + std::clamp(by, -0.5, 1.0)), kLeastCost);
  };
  cost_ = {moved(c[0], d[0]), moved(c[1], d[1]), moved(c[2], d[2])};
}

}  // namespace flyball::engine
