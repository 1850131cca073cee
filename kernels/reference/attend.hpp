// Softmax attention of one token over a paged f16 KV cache, in double precision and in two passes.
#pragma once

#include <cstdint>

namespace flyball::kernels::reference {

struct AttendArgs {
  const float* q = nullptr;                    // [n_heads, head_dim]
  const std::uint16_t* k_blocks = nullptr;     // f16: [n_blocks, n_kv_heads, block_size, head_dim]
  const std::uint16_t* v_blocks = nullptr;     // f16, same shape
  const std::uint32_t* block_table = nullptr;  // block ids in order of position
  std::uint32_t block_size = 0;                // positions per block
  std::uint32_t n_positions = 0;               // > 0
  std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;  // head h reads KV head h / (n_heads / n_kv_heads)
  float scale = 1.0F;                                       // on q.k
};

// out: [n_heads, head_dim]
void attend(const AttendArgs& args, double* out);

}  // namespace flyball::kernels::reference
