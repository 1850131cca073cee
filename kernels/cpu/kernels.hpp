// The CPU engine's kernels as one table of functions per instruction set, chosen at run time.
// Every entry has a twin of the same name in kernels/reference (double precision) and works on a range of
// rows, heads or tokens, so that the device splits one call over its threads. Nothing here allocates, logs or
// fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/formats/activation.hpp"
#include "kernels/formats/dtype.hpp"
#include "kernels/formats/rope_style.hpp"
#include "kernels/formats/source_rows.hpp"

namespace flyball::kernels::cpu {

enum class Isa : std::uint8_t {
  scalar,
  avx2,    // AVX2+FMA+F16C
  avx512,  // F+BW+VL+DQ+VNNI besides
  neon     // with FEAT_DotProd
};
const char* to_string(Isa isa) noexcept;
// Those this program was built with, best first; `scalar` is the last.
std::span<const Isa> built_isas() noexcept;
bool supported(Isa isa) noexcept;  // by this processor and operating system
Isa best_isa() noexcept;

// Half-open range of rows, heads or tokens that one thread works on.
struct Range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// One query token of one sequence against that sequence's paged KV cache.
struct AttendArgs {
  const float* q = nullptr;  // [n_heads, head_dim]
  const void* k_blocks =
      nullptr;  // of this layer: [n_blocks, n_kv_heads] pages (kernels/formats/kv_page.hpp)
  const void* v_blocks = nullptr;              // same shape
  const std::uint32_t* block_table = nullptr;  // block ids of the sequence, in order of position
  std::uint32_t block_size = 0;                // positions per block
  std::uint32_t n_positions = 0;               // positions visible to this token, itself included; > 0
  std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;  // GQA: n_heads is a multiple of n_kv_heads
  float scale = 1.0F;                                       // on q.k, usually 1/sqrt(head_dim)
  float* out = nullptr;                                     // [n_heads, head_dim]
  DType kv_type = DType::f16;  // or q8_0: head_dim is a multiple of 32, at most kMaxQuantizedHeadDim
  std::uint32_t first_position = 0;  // the first visible one; < n_positions
  float cap = 0.0F;                  // a score x becomes cap * tanh(x / cap); 0: it stays
};
// A tile's scales stand on the stack.
inline constexpr std::uint32_t kMaxQuantizedHeadDim = 512;

struct Kernels {
  Isa isa;

  // ---- matmul: y[t, r] = sum_c x[t, c] * w[r, c] ----------------------------------------------------------
  // Weights are repacked once at load. 0: this ISA reads the file's bytes in place, no packing needed.
  std::size_t (*packed_bytes)(DType type, std::uint32_t rows, std::uint32_t cols);
  // Packs rows [row_range) of the file's [rows, cols]. Layout: kernels/formats/row_groups.hpp.
  void (*pack)(DType type, std::uint32_t rows, std::uint32_t cols, const SourceRows& file, void* packed,
               Range row_range);
  // Row ranges given to pack and matmul begin at multiples of this; >= 1.
  std::uint32_t (*row_group)(DType type);
  // Activations are brought into the form matmul wants (int8 blocks for quantized weights, f32 or bf16
  // otherwise): so many bytes a token, one token after the other.
  std::size_t (*activation_bytes)(DType weights, std::uint32_t cols);
  // x: [n_tokens, cols]
  void (*prepare_activations)(DType weights, const float* x, std::uint32_t n_tokens, std::uint32_t cols,
                              void* prepared);
  // w: packed (or the file's bytes where packed_bytes is 0). y: [n_tokens, ldy], columns row_range written.
  void (*matmul)(DType weights, const void* w, std::uint32_t rows, std::uint32_t cols, const void* prepared,
                 std::uint32_t n_tokens, float* y, std::uint32_t ldy, Range row_range);

  // ---- the rest -------------------------------------------------------------------------------------------
  // One row of an embedding table in the file's own format, to f32, times `scale`. out: [cols]
  void (*embed)(DType type, const SourceRows& row, std::uint32_t cols, float scale, float* out);
  // out[t] = x[t] / rms(x[t]) * weight. x, out: [n, dim]; may alias.
  void (*rms_norm)(const float* x, const float* weight, std::uint32_t n, std::uint32_t dim, float eps,
                   float* out);
  // In place on x: [n_heads, head_dim] of one token. cos_sin: [rope_dim/2, 2] for that token's position.
  void (*rope)(float* x, std::uint32_t n_heads, std::uint32_t head_dim, std::uint32_t rope_dim,
               const float* cos_sin, RopeStyle style);
  // out = activation(gate) * up, n values.
  void (*glu)(Activation activation, const float* gate, const float* up, std::size_t n, float* out);
  // x = cap * tanh(x / cap), n values.
  void (*softcap)(float* x, std::size_t n, float cap);
  // x += y, n values.
  void (*add)(float* x, const float* y, std::size_t n);
  // x += scale * y, n values.
  void (*add_scaled)(float* x, const float* y, float scale, std::size_t n);
  // The n_used largest of n_experts logits, largest first and of equal ones the lower id, and the softmax of
  // those. n_used <= n_experts. NaN logits give some experts, of weight NaN.
  void (*moe_route)(const float* logits, std::uint32_t n_experts, std::uint32_t n_used,
                    std::uint32_t* experts, float* weights);
  // f32 -> f16, round to nearest even, n values (KV append).
  void (*store_f16)(const float* x, std::size_t n, std::uint16_t* out);
  // f32 -> q8_0 (KV append): n int8 quants and n / 32 f16 scales. n is a multiple of 32. What is not finite
  // gives a scale that is none.
  void (*store_q8_0)(const float* x, std::size_t n, std::int8_t* quants, std::uint16_t* scales);
  // Softmax attention of one token over query heads [head_range); online softmax, no scratch beyond the
  // stack. Head ranges begin at multiples of n_heads / n_kv_heads.
  void (*attend)(const AttendArgs& args, Range head_range);

  // Sum of n_bytes as 64-bit words (the last one zero-filled), read once in order: what probe and bench time
  // to learn the memory's read bandwidth. Nothing else uses it.
  std::uint64_t (*read_sum)(const void* data, std::size_t n_bytes);
};

// Precondition: supported(isa).
const Kernels& kernels_for(Isa isa) noexcept;

}  // namespace flyball::kernels::cpu
