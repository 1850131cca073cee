// A linear model with coefficients >= 0, fitted to the latest observations: y = coefficients . x. Relative
// errors count, large ones count less (Huber), and so do old observations; those from before a change of
// level are forgotten, unless levels alternate. Coefficients that the observations leave open keep the
// proportions of the prior. Pure; bounded.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "daemon/predict/statistics/change_point.hpp"
#include "daemon/predict/statistics/window.hpp"

namespace flyball::predict {

// The weighted median of (value, weight); reorders them. 0 of none.
inline double weighted_median(std::span<std::pair<double, double>> values) {
  std::ranges::sort(values);
  double total = 0, below = 0;
  for (const auto& [value, weight] : values) total += weight;
  for (const auto& [value, weight] : values)
    if ((below += weight) * 2 >= total) return value;
  return 0;
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
  static constexpr double kHuber = 1.5;  // spreads, beyond which an error counts linearly
  static constexpr double kLeastSpread = 0.02;
  // Weight of the prior's proportions after one observation; it falls with the square of their number.
  static constexpr double kRidge = 0.1;

  static double dot(const Terms& a, const Terms& b) noexcept {
    double sum = 0;
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
    std::array<double, kKept> age_weights{};
    std::array<std::pair<double, double>, kKept + 1> sorted{};
    for (std::size_t i = 0; i < seen(); ++i) {
      age_weights[i] = std::exp2(-static_cast<double>(i) / kHalfLife);
      sorted[i] = {rows_.latest(i).y / dot(prior_, rows_.latest(i).x), age_weights[i]};
    }
    const std::size_t known = seen() + (trusted_ ? 1 : 0);
    sorted[seen()] = {1, 1};
    const double size = known == 0 ? 1 : weighted_median(std::span(sorted).first(known));
    Terms scaled = prior_;
    for (double& c : scaled) c *= size;
    coefficients_ = scaled;
    if (seen() == 0) return;
    std::array<double, kKept> errors{};
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < seen(); ++i) {
        const double expected = std::max(dot(coefficients_, rows_.latest(i).x), 1e-12);
        errors[i] = std::abs(rows_.latest(i).y - expected) / expected;
        sorted[i] = {errors[i], age_weights[i]};
      }
      const double spread = std::max(1.4826 * weighted_median(std::span(sorted).first(seen())), kLeastSpread);
      solve(scaled, age_weights, errors, kHuber * spread);
    }
  }

  // One round of weighted least squares. A coefficient that comes out negative is 0 in the next try.
  void solve(const Terms& scaled, const std::array<double, kKept>& age_weights,
             const std::array<double, kKept>& errors, double limit) {
    std::array<std::array<double, N + 1>, N> sums{};
    for (std::size_t i = 0; i < seen(); ++i) {
      const Row& r = rows_.latest(i);
      const double expected = std::max(dot(coefficients_, r.x), 1e-12);
      const double weight =
          age_weights[i] * (errors[i] <= limit ? 1 : limit / errors[i]) / (expected * expected);
      for (std::size_t a = 0; a < N; ++a) {
        for (std::size_t b = 0; b < N; ++b) sums[a][b] += weight * r.x[a] * r.x[b];
        sums[a][N] += weight * r.x[a] * r.y;
      }
    }
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
