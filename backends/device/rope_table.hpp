// The rotation of one position: cosines and sines for the rope kernel, with the context extensions that
// LLaMA-family files ask for (linear scaling, YaRN [arXiv:2309.00071], per-frequency factors of Llama 3.1 and
// LongRoPE).
#pragma once

#include <cstdint>
#include <vector>

namespace flyball::device {

struct RopeTableArgs {
  std::uint32_t dim = 0;  // rotated dimensions, even; frequency i is base^(-2i/dim), i < dim/2
  float base = 10000.0F;  // rope.freq_base
  float factor = 1.0F;    // positions are divided by it: rope.scaling.factor for linear and yarn, 1 for none
  float ext_factor = 0.0F;   // YaRN's mix of unscaled angles at high frequencies: 0 none (linear), 1 YaRN
  float attn_factor = 1.0F;  // multiplies cosine and sine (YaRN multiplies it by 1 + 0.1 ln(factor) besides)
  float beta_fast = 32.0F;   // rotations over the original context above which an angle is left unscaled
  float beta_slow = 1.0F;    // rotations below which it is fully scaled
  std::uint32_t original_context = 0;        // positions trained on; used only where ext_factor is not 0
  const float* frequency_factors = nullptr;  // [dim/2], each frequency is divided by its own; null: all 1
  bool rotates = true;  // false: every position has the rotation that changes nothing (NoPE)
  // Cosine and sine grow with the position by 1 + scale * ln(1 + floor(position / length)): the attention
  // temperature of Llama 4 and Ministral 3, of queries alone. 0: they do not.
  float temperature_scale = 0.0F;
  std::uint32_t temperature_length = 1;
};

class RopeTable {
 public:
  // The arguments are needed no longer. May throw bad_alloc.
  explicit RopeTable(const RopeTableArgs& args);
  // cos_sin: [dim/2, 2]
  void rotation(std::uint32_t position, float* cos_sin) const noexcept;

 private:
  std::vector<double> angles_;  // [dim/2] of one position: f32 ones are off by 4e-3 radians at position 1e5
  double magnitude_ = 1.0;
  double temperature_scale_ = 0.0;
  std::uint32_t temperature_length_ = 1;
};

}  // namespace flyball::device
