#include "backends/decode/softmax.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace flyball::decode {
namespace {

// Sixteen lanes: one AVX-512 or two AVX2 registers' worth; a fixed inner trip count lets -O2 vectorize.
constexpr std::size_t kSumLanes = 16;
// Values summed in f32 before they join the f64 sum: 32 a lane keep seven digits. Also what a draw goes
// through one by one.
constexpr std::size_t kSumBlock = 512;

// e^x for x in [-kNegligible, 0]: 2^n * p(r) with x = n ln2 + r, |r| <= ln2/2, p the degree-6 Taylor
// polynomial. Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
inline float exp_of(float x) noexcept {
  constexpr float kRound = 12582912.0F;
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;  // ln2 in two parts
  float p = 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // n into the exponent: the bits above n's are shifted out.
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                              (std::bit_cast<std::uint32_t>(shifted) << 23));
}

inline float weigh(const Softmax& s, float logit) noexcept {
  const float x = (logit - s.best) / s.temperature;
  // Masks, not branches, which would keep the loop from being vectorized.
  const std::uint32_t weighs = x > -kNegligible ? 0xFFFFFFFFU : 0U;
  const float w = exp_of(std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & weighs));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(w) & weighs);
}

double block_sum(const Softmax& s, std::span<const float> logits) noexcept {
  float lanes[kSumLanes] = {};
  std::size_t i = 0;
  for (; i + kSumLanes <= logits.size(); i += kSumLanes)
    for (std::size_t j = 0; j < kSumLanes; ++j) lanes[j] += weigh(s, logits[i + j]);
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  for (; i < logits.size(); ++i) sum += static_cast<double>(weigh(s, logits[i]));
  return sum;
}

std::span<const float> block(std::span<const float> logits, std::size_t i) noexcept {
  const auto rest = logits.subspan(i * kSumBlock);
  return rest.first(std::min(rest.size(), kSumBlock));
}

std::size_t blocks(std::span<const float> logits) noexcept {
  return (logits.size() + kSumBlock - 1) / kSumBlock;
}

}  // namespace

float Softmax::weight(float logit) const noexcept {
  return weigh(*this, logit);
}

double Softmax::sum(std::span<const float> logits) const noexcept {
  double sum = 0;
  for (std::size_t b = 0; b < blocks(logits); ++b) sum += block_sum(*this, block(logits, b));
  return sum;
}

Token Softmax::at(double share, std::span<const float> logits, std::vector<double>& sums) const {
  sums.clear();
  double total = 0;
  for (std::size_t b = 0; b < blocks(logits); ++b)
    total += sums.emplace_back(block_sum(*this, block(logits, b)));
  // Below the total, to which the same sums add up again: some block reaches it.
  const double target = std::min(share * total, std::nextafter(total, 0.0));
  double reached = 0;
  std::size_t b = 0;
  while (reached + sums[b] <= target) reached += sums[b++];
  std::size_t token = 0;
  const auto chosen = block(logits, b);
  for (std::size_t i = 0; i < chosen.size() && reached <= target; ++i) {
    const auto w = static_cast<double>(weigh(*this, chosen[i]));
    if (w > 0) token = b * kSumBlock + i;  // the last such one where rounding leaves the target behind it
    reached += w;
  }
  return static_cast<Token>(token);
}

}  // namespace flyball::decode
