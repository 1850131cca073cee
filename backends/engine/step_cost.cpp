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
// Largest cost of a read, in pairs. Steps with one prompt do not tell reads from pairs, so a device much
// faster than the guess would keep the guessed cost of reads. A larger cost of reads counts as pairs.
constexpr double kMostReads = 16;

}  // namespace

StepWork StepWork::of(std::uint32_t first_position, std::uint32_t n_tokens) noexcept {
  const std::uint64_t n = n_tokens;
  return {n_tokens, n * first_position + n * (n + 1) / 2, n == 0 ? 0 : first_position + n};
}

StepWork& StepWork::operator+=(const StepWork& more) noexcept {
  tokens += more.tokens;
  pairs += more.pairs;
  reads += more.reads;
  rows += more.rows;
  return *this;
}

double StepCost::of(const StepWork& work) const noexcept {
  return step + token * work.tokens + pair * static_cast<double>(work.pairs) +
         read * static_cast<double>(work.reads) + row * work.rows;
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
  Vector row = terms_of(work);
  for (double& term : row) term /= seconds;
  for (std::size_t i = 0; i < kTerms; ++i) {
    sums_[i] = kMemory * sums_[i] + row[i];
    for (std::size_t j = 0; j < kTerms; ++j) squares_[i][j] = kMemory * squares_[i][j] + row[i] * row[j];
  }
  solve();
}

StepCostFit::Vector StepCostFit::terms_of(const StepWork& work) noexcept {
  return {1, static_cast<double>(work.tokens), static_cast<double>(work.pairs),
          static_cast<double>(work.reads), static_cast<double>(work.rows)};
}

void StepCostFit::set(const Vector& costs) noexcept {
  cost_ = {costs[0], costs[1], costs[2], std::min(costs[3], kMostReads * costs[2]), costs[4]};
}

// Scales what makes up most of such a step until it takes what was measured.
void StepCostFit::explain(const StepWork& work, double seconds) noexcept {
  const Vector terms = terms_of(work);
  for (int round = 0; round < 8; ++round) {
    Vector c = costs();
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < kTerms; ++i) {
      sum += c[i] * terms[i];
      squares += c[i] * terms[i] * c[i] * terms[i];
    }
    for (std::size_t i = 0; i < kTerms; ++i) {
      const double part = c[i] * terms[i];
      c[i] = std::max(c[i] * std::pow(seconds / sum, part * part / squares), kLeastCost);
    }
    c[2] = std::max(c[2], c[3] / kMostReads);
    set(c);
  }
}

// The relative change d of the costs c that has the least error, S (A S d - (b - A c)) + prior d = 0 with
// S = diag(c): elimination without pivots, because the matrix is positive definite.
void StepCostFit::solve() noexcept {
  Vector c = costs();
  std::array<Vector, kTerms> m{};
  Vector d{};
  for (std::size_t i = 0; i < kTerms; ++i) {
    d[i] = c[i] * sums_[i];
    for (std::size_t j = 0; j < kTerms; ++j) {
      m[i][j] = c[i] * squares_[i][j] * c[j];
      d[i] -= m[i][j];
    }
    m[i][i] += kPrior;
  }
  for (std::size_t i = 0; i < kTerms; ++i)
    for (std::size_t k = i + 1; k < kTerms; ++k) {
      const double f = m[k][i] / m[i][i];
      for (std::size_t j = i; j < kTerms; ++j) m[k][j] -= f * m[i][j];
      d[k] -= f * d[i];
    }
  for (std::size_t i = kTerms; i-- > 0;) {
    for (std::size_t j = i + 1; j < kTerms; ++j) d[i] -= m[i][j] * d[j];
    d[i] /= m[i][i];
  }
  // No cost moves by more than its half in one step.
  for (std::size_t i = 0; i < kTerms; ++i)
    c[i] = std::max(c[i] * (1 + std::clamp(d[i], -0.5, 1.0)), kLeastCost);
  set(c);
}

}  // namespace flyball::engine
