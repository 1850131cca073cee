// Softmax attention of one token over a paged KV cache, in double precision and in two passes.
#pragma once

#include <cstdint>

#include "kernels/formats/dtype.hpp"

namespace flyball::kernels::reference {

struct AttendArgs {
  const float* q = nullptr;                    // [n_heads, head_dim]
  const void* k_blocks = nullptr;              // [n_blocks, n_kv_heads] pages (kernels/formats/kv_page.hpp)
  const void* v_blocks = nullptr;              // same shape
  const std::uint32_t* block_table = nullptr;  // block ids in order of position
  std::uint32_t block_size = 0;                // positions per block
  std::uint32_t n_positions = 0;               // > 0
  std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;  // head h reads KV head h / (n_heads / n_kv_heads)
  float scale = 1.0F;                                       // on q.k
  DType kv_type = DType::f16;                               // or q8_0
  std::uint32_t first_position = 0;                         // earlier ones are not seen; < n_positions
  float cap = 0.0F;  // a score x becomes cap * tanh(x / cap); 0: it stays
};

// out: [n_heads, head_dim]
void attend(const AttendArgs& args, double* out);

}  // namespace flyball::kernels::reference
