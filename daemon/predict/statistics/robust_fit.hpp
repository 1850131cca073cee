// A linear model with coefficients >= 0, fitted to the latest observations: y = coefficients . x. Relative
// errors count, large ones count less (Huber), and so do old observations; those from before a change of
// level are forgotten, unless levels alternate. Coefficients that the observations leave open keep the
// proportions of the prior. Pure; bounded.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "daemon/predict/statistics/change_point.hpp"
#include "daemon/predict/statistics/window.hpp"

namespace flyball::predict {

struct Weighted {
  double value = 0, weight = 0;  // weight > 0
};

// The weighted median of the first n; reorders them. 0 of none. Quickselect whose partition has no branches:
// sorting took most of a fit's time, and a processor predicts no comparison of noise.
template <std::size_t N>
double weighted_median(std::array<Weighted, N>& values, std::size_t n) {
  std::array<Weighted, N> larger;
  double half = 0;
  for (std::size_t i = 0; i < n; ++i) half += values[i].weight / 2;
  while (n > 1) {
    const double first = values[0].value, middle = values[n / 2].value, last = values[n - 1].value;
    const double pivot = std::max(std::min(first, middle), std::min(std::max(first, middle), last));
    std::size_t n_smaller = 0, n_larger = 0;
    double smaller = 0, up_to_pivot = 0;  // weights
    for (std::size_t i = 0; i < n; ++i) {
      const Weighted one = values[i];
      const bool is_smaller = one.value < pivot;
      const bool is_larger = one.value > pivot;
      values[n_smaller] = one;
      n_smaller += static_cast<std::size_t>(is_smaller);
      larger[n_larger] = one;
      n_larger += static_cast<std::size_t>(is_larger);
      smaller += is_smaller ? one.weight : 0;
      up_to_pivot += is_larger ? 0 : one.weight;
    }
    if (n_smaller > 0 && smaller >= half) {
      n = n_smaller;
      continue;
    }
    if (n_larger == 0 || up_to_pivot >= half) return pivot;
    half -= up_to_pivot;
    std::copy_n(larger.begin(), n_larger, values.begin());
    n = n_larger;
  }
  return n == 0 ? 0 : values[0].value;
}

template <std::size_t N>
class RobustFit {
 public:
  using Terms = std::array<double, N>;
  static constexpr std::size_t kKept = 48;
  // Observations until one counts half: a machine that became twice as slow is followed within some fifteen.
  static constexpr double kHalfLife = 10;

  // prior: every coefficient > 0. `trusted`: its size counts as one observation; else only its proportions
  // do.
  explicit RobustFit(const Terms& prior, bool trusted = false) { set_prior(prior, trusted); }
  void set_prior(const Terms& prior, bool trusted) {
    if (prior == prior_ && trusted == trusted_) return;
    prior_ = prior;
    trusted_ = trusted;
    fit();
  }
  // Ignored unless y and the prior's value of x are above 0. True: it has forgotten another level.
  bool add(const Terms& x, double y) {
    if (!(y > 0) || !std::isfinite(y) || !(dot(prior_, x) > 0)) return false;
    rows_.add({x, y});
    changes_.observed();
    fit();
    if (!level_changed() || !changes_.changed()) return false;
    rows_.keep_latest(kLevel);
    fit();
    return true;
  }
  double operator()(const Terms& x) const noexcept { return dot(coefficients_, x); }
  const Terms& coefficients() const noexcept { return coefficients_; }
  std::size_t seen() const noexcept { return rows_.size(); }  // at most kKept

 private:
  struct Row {
    Terms x{};
    double y = 0;
  };
  static constexpr int kRounds = 6;
  static constexpr double kClose = 1e-9;  // of a coefficient: rounds that change less are left out
  static constexpr double kHuber = 1.5;   // spreads, beyond which an error counts linearly
  static constexpr double kLeastSpread = 0.02;
  // Weight of the prior's proportions after one observation; it falls with the square of their number.
  static constexpr double kRidge = 0.1;

  // An observation's weight by its age, the latest first.
  static constexpr std::array<double, kKept> kAgeWeights = [] {
    static_assert(kHalfLife == 10);
    constexpr double kTenthRootOfHalf = 0.93303299153680741598;
    std::array<double, kKept> weights{1};
    for (std::size_t i = 1; i < kKept; ++i) weights[i] = weights[i - 1] * kTenthRootOfHalf;
    return weights;
  }();

  // Fits share the daemon's one thread with all requests. GCC leaves loops this short as they are at -O2,
  // unless it is told to unroll them.
  static double dot(const Terms& a, const Terms& b) noexcept {
    double sum = 0;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < N; ++i) sum += a[i] * b[i];
    return sum;
  }

  // Compares actual over fitted: other work than before is no change of level where the fit accounts for it.
  bool level_changed() const {
    std::array<double, 2 * kLevel> levels{};
    if (seen() < levels.size()) return false;
    for (std::size_t age = 0; age < levels.size(); ++age)
      levels[age] = rows_.latest(age).y / std::max(dot(coefficients_, rows_.latest(age).x), 1e-12);
    return has_changed(levels);
  }

  // By iterated reweighting, from the prior as large as the observations say.
  void fit() {
    std::array<Weighted, kKept + 1> weighted;
    const std::size_t n = seen(), known = n + (trusted_ ? 1 : 0);
    for (std::size_t i = 0; i < n; ++i)
      weighted[i] = {rows_.latest(i).y / dot(prior_, rows_.latest(i).x), kAgeWeights[i]};
    weighted[n] = {1, 1};
    const double size = known == 0 ? 1 : weighted_median(weighted, known);
    Terms scaled = prior_;
    for (double& c : scaled) c *= size;
    coefficients_ = scaled;
    if (n == 0) return;
    std::array<double, kKept> inverse{}, errors{};  // inverse: 1 over the expected value
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < n; ++i) {
        inverse[i] = 1 / std::max(dot(coefficients_, rows_.latest(i).x), 1e-12);
        errors[i] = std::abs(rows_.latest(i).y * inverse[i] - 1);
        weighted[i] = {errors[i], kAgeWeights[i]};
      }
      const double spread = std::max(1.4826 * weighted_median(weighted, n), kLeastSpread);
      const Terms before = coefficients_;
      solve(scaled, inverse, errors, kHuber * spread);
      if (is_close(before, coefficients_)) return;
    }
  }

  static bool is_close(const Terms& one, const Terms& other) noexcept {
    for (std::size_t i = 0; i < N; ++i)
      if (std::abs(one[i] - other[i]) > kClose * other[i]) return false;
    return true;
  }

  // One round of weighted least squares. A coefficient that comes out negative is 0 in the next try.
  void solve(const Terms& scaled, const std::array<double, kKept>& inverse,
             const std::array<double, kKept>& errors, double limit) {
    std::array<std::array<double, N + 1>, N> sums{};
    for (std::size_t i = 0; i < seen(); ++i) {
      const Row& r = rows_.latest(i);
      const double weight =
          kAgeWeights[i] * (errors[i] <= limit ? 1 : limit / errors[i]) * (inverse[i] * inverse[i]);
#pragma GCC unroll 4
      for (std::size_t a = 0; a < N; ++a) {
        const double weighted = weight * r.x[a];
#pragma GCC unroll 4
        for (std::size_t b = a; b < N; ++b) sums[a][b] += weighted * r.x[b];
        sums[a][N] += weighted * r.y;
      }
    }
    for (std::size_t a = 1; a < N; ++a)
      for (std::size_t b = 0; b < a; ++b) sums[a][b] = sums[b][a];
    const double ridge = kRidge / static_cast<double>(seen() * seen());
    for (std::size_t a = 0; a < N; ++a) {
      const double weight = ridge / (scaled[a] * scaled[a]);
      sums[a][a] += weight;
      sums[a][N] += weight * scaled[a];
    }
    std::array<bool, N> zero{};
    for (std::size_t tries = 0; tries < N; ++tries) {
      const Terms got = eliminate(sums, zero);
      const auto least = std::ranges::min_element(got);
      if (*least >= 0) {
        coefficients_ = got;
        return;
      }
      zero[static_cast<std::size_t>(least - got.begin())] = true;
    }
  }

  // Gauss, without the rows and columns that are zero. The ridge keeps the pivots above 0.
  static Terms eliminate(std::array<std::array<double, N + 1>, N> m, const std::array<bool, N>& zero) {
    for (std::size_t p = 0; p < N; ++p) {
      if (zero[p]) continue;
      for (std::size_t r = p + 1; r < N; ++r) {
        if (zero[r]) continue;
        const double times = m[r][p] / m[p][p];
        for (std::size_t c = p; c <= N; ++c) m[r][c] -= times * m[p][c];
      }
    }
    Terms out{};
    for (std::size_t p = N; p-- > 0;) {
      if (zero[p]) continue;
      double rest = m[p][N];
      for (std::size_t c = p + 1; c < N; ++c) rest -= m[p][c] * out[c];
      out[p] = rest / m[p][p];
    }
    return out;
  }

  Window<Row, kKept> rows_;
  Changes changes_;
  Terms prior_{}, coefficients_{};
  bool trusted_ = false;
};

}  // namespace flyball::predict
