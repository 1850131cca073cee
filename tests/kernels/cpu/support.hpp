// Random inputs, and output buffers with canaries around them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.hpp"
#include "tests/kernels/cpu/print.hpp"
#include "tests/kernels/formats/print.hpp"

namespace flyball::kernels::test {

inline std::vector<float> random_floats(std::size_t n, std::uint32_t seed, float scale = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> v(n);
  for (float& x : v) x = normal(generator);
  return v;
}

// n bytes with kMargin canary bytes before and after; the middle starts as signalling noise, not zeros.
class Guarded {
 public:
  static constexpr std::size_t kMargin = 256;
  explicit Guarded(std::size_t n) : n_(n), bytes_(n + 2 * kMargin, kCanary) {}
  void* data() { return bytes_.data() + kMargin; }
  float* floats() { return static_cast<float*>(data()); }
  const std::uint8_t* bytes() const { return bytes_.data() + kMargin; }
  std::size_t size() const { return n_; }
  bool intact() const {
    for (std::size_t i = 0; i < kMargin; ++i) {
      if (bytes_[i] != kCanary || bytes_[kMargin + n_ + i] != kCanary) return false;
    }
    return true;
  }

  static constexpr std::uint8_t kCanary = 0xA7;

 private:
  std::size_t n_;
  std::vector<std::uint8_t> bytes_;
};

class EachIsa : public testing::TestWithParam<cpu::Isa> {
 protected:
  void SetUp() override {
    if (!cpu::supported(GetParam())) GTEST_SKIP() << "this machine lacks " << cpu::to_string(GetParam());
  }
  const cpu::Kernels& kernels() const { return cpu::kernels_for(GetParam()); }
};

inline std::string isa_name(const testing::TestParamInfo<cpu::Isa>& info) {
  return cpu::to_string(info.param);
}
inline auto all_isas() {
  return testing::ValuesIn(cpu::built_isas().begin(), cpu::built_isas().end());
}

inline constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

}  // namespace flyball::kernels::test
