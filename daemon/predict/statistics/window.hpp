// The latest N values of a series, and their median, quantiles and mean. No allocation. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

namespace flyball::predict {

// Values of any number up to N, ascending.
template <class T, std::size_t N>
struct Sorted {
  std::array<T, N> kept{};
  std::size_t size = 0;
  std::span<const T> values() const noexcept { return std::span(kept).first(size); }
};

// `sorted`: ascending, not empty.
template <class T>
T median(std::span<const T> sorted) noexcept {
  return std::midpoint(sorted[(sorted.size() - 1) / 2], sorted[sorted.size() / 2]);
}
// The smallest of them that the next value exceeds with a probability of at most 1 - q; the largest where
// they are too few for that.
template <class T>
T quantile(std::span<const T> sorted, double q) noexcept {
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size() + 1)));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

template <class T, std::size_t N>
class Window {
 public:
  void add(T value) {
    kept_[next_] = std::move(value);
    next_ = (next_ + 1) % N;
    size_ = std::min(size_ + 1, N);
  }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  // age: 0 of the latest; below size().
  const T& latest(std::size_t age = 0) const noexcept { return kept_[place_of(age)]; }
  T& latest(std::size_t age = 0) noexcept { return kept_[place_of(age)]; }
  // Forgets those before the latest n.
  void keep_latest(std::size_t n) noexcept { size_ = std::min(size_, n); }
  // The values as `of` projects them.
  template <class Of = std::identity>
  auto sorted(Of of = {}) const {
    Sorted<std::remove_cvref_t<std::invoke_result_t<Of, const T&>>, N> out;
    while (out.size < size_) {
      out.kept[out.size] = std::invoke(of, latest(out.size));
      ++out.size;
    }
    std::ranges::sort(std::span(out.kept).first(out.size));
    return out;
  }
  // The mean of the projected values; 0: there are none.
  template <class Of = std::identity>
  double mean(Of of = {}) const {
    double sum = 0;
    for (std::size_t age = 0; age < size_; ++age) sum += std::invoke(of, latest(age));
    return size_ == 0 ? 0 : sum / static_cast<double>(size_);
  }

 private:
  std::size_t place_of(std::size_t age) const noexcept {
    return next_ > age ? next_ - 1 - age : next_ + N - 1 - age;
  }

  std::array<T, N> kept_{};  // a ring
  std::size_t next_ = 0, size_ = 0;
};

}  // namespace flyball::predict
