// How RoPE pairs the values of a head.
#pragma once

#include <cstdint>

namespace flyball::kernels {

enum class RopeStyle : std::uint8_t {
  interleaved,  // (2i, 2i+1): LLaMA as GGUF stores it
  half,         // (i, i + d/2): GPT-NeoX, Qwen2
};

}  // namespace flyball::kernels
