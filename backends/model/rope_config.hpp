// How a model rotates queries and keys, read from its file's metadata and validated.
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; YaRN: https://arxiv.org/abs/2309.00071;
// LongRoPE: https://arxiv.org/abs/2402.13753
#pragma once

#include <cstdint>
#include <vector>

#include "backends/model/key_reader.hpp"

namespace flyball::model {

enum class RopeScaling : std::uint8_t { none, linear, yarn, llama3, longrope };

struct RopeConfig {
  std::uint32_t dim = 0;   // rotated values per head, even, <= head_dim
  float base = 10'000.0F;  // theta
  RopeScaling scaling = RopeScaling::none;
  float factor = 1.0F;                 // linear, yarn: >= 1 stretches the context
  std::uint32_t original_context = 0;  // yarn, longrope: positions before scaling
  // rope.scaling.attn_factor, whatever the scaling: multiplies cos and sin, for yarn together with
  // 1 + 0.1 ln(factor). A yarn_log_multiplier m divides it by 1 + 0.1 m ln(factor).
  float attn_factor = 1.0F;
  float beta_fast = 32.0F, beta_slow = 1.0F;  // yarn: rotations between which the two angles are blended
  std::vector<float> frequency_factors;       // llama3 and longrope: divides each frequency; [dim/2] or empty
  bool rotates = true;                        // false: layers with this rope tell no positions apart (NoPE)
  std::vector<float> long_factors;  // longrope: stand in for those where a context exceeds original_context

  bool operator==(const RopeConfig&) const = default;
};

// model_invalid, naming the key or the tensor.
Result<RopeConfig> read_rope(const Gguf& file, KeyReader& keys, std::uint32_t head_dim,
                             std::uint32_t context_length);

}  // namespace flyball::model
