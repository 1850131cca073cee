// A KV page: the keys, or the values, of one KV head at the positions of one KV block. As f16:
// [block_size][head_dim]. As q8_0 (GGML's: 32 values share an f16 scale, value = scale * quant): the int8
// quants [block_size][head_dim], then the scales [block_size][head_dim / 32], so that both lie in whole
// vectors. What OpenCL calls so stands in kernels/opencl/{rope_kv_store,attend}.cl.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.hpp"

namespace flyball::kernels {

inline constexpr std::uint32_t kKvScaleValues = block_shape(DType::q8_0).values;
inline constexpr std::uint32_t kKvScaledBytes = block_shape(DType::q8_0).bytes;  // of so many values

// Precondition, here as everywhere: f16, or q8_0 and head_dim a multiple of kKvScaleValues. Always inlined:
// files of one instruction set may define nothing that others share.
[[gnu::always_inline]] constexpr std::size_t kv_page_bytes(DType type, std::uint32_t block_size,
                                                           std::uint32_t head_dim) noexcept {
  const std::size_t values = std::size_t{block_size} * head_dim;
  return type == DType::q8_0 ? values / kKvScaleValues * kKvScaledBytes : 2 * values;
}

// Where in a q8_0 page the scales of a position begin.
[[gnu::always_inline]] constexpr std::size_t kv_scales_at(std::uint32_t block_size, std::uint32_t head_dim,
                                                          std::uint32_t position) noexcept {
  return std::size_t{block_size} * head_dim +
         sizeof(std::uint16_t) * std::size_t{position} * (head_dim / kKvScaleValues);
}

}  // namespace flyball::kernels
