/* The calling convention of the Vulkan kernels: this file is read by C++ and by GLSL.

   A kernel takes one block of push constants, the struct named after it below, and nothing else: no descriptors, but
   for the texel_ kernels of software devices.
   Every buffer in it is a device address (GL_EXT_buffer_reference); all are aligned to 16 bytes except weights and
   the embedding table, which lie in the file's own layout (row-major blocks, kernels/formats): GGUF's at multiples of 8
   bytes, though rows of 34- or 210-byte blocks begin anywhere even, and MLX's at any byte. The address of a matrix
   of an affine format is that of an AffineMatrix.
   Push constants hold what is the same for every step of one recording; what differs from step to step (tokens,
   slots, rotations, block tables, work of attention) lies in the step's buffer and is read by address, and grids that
   depend on it are dispatched indirectly. So a command buffer is recorded once per shape of step and replayed.

   local_size_x is always specialization constant 0 (local_size_x_id = 0); others follow from 1 on, as each kernel says.
   Grids are counted in work-groups. No dimension exceeds 65535.  */
#ifndef FLYBALL_VULKAN_PUSH_H
#define FLYBALL_VULKAN_PUSH_H

#ifdef __cplusplus
#include <cstdint>
namespace flyball::vulkan {
using uint = std::uint32_t;
using Address = std::uint64_t;
#else
#define Address uint64_t
#endif

/* What an affine format keeps apart: row after row, of all experts. */
struct AffineMatrix {
  Address codes, scales, biases;
};

/* to[i] = row tokens[i] of the table times scale, f32. tokens: [rows] int. Groups: 1, rows. Built per format. */
struct EmbedPush {
  Address table, tokens, to;
  uint row_bytes, cols;
  float scale;
  uint unused;
};

/* to = x / sqrt(mean(x^2) + eps) * weight, by row. Groups: 1, rows. texel_rms_norm: the three are bytes into what the sets
   0, 1 and 2 hold, multiples of 32, and cols is one of 8. */
struct RmsNormPush {
  Address x, weight, to;
  uint cols;
  float eps;
};

/* The same for each head of head_dim values by itself, in place. x: [rows, heads, head_dim].
   Groups: 1, rows (a group does all heads of a row). */
struct HeadNormPush {
  Address x, weight;
  uint heads, head_dim;
  float eps;
  uint unused;
};

/* x += bias, by row. Groups: ceil(cols / (local size * 4)), rows. */
struct BiasPush {
  Address x, bias;
  uint cols, unused;
};

/* Elementwise over the first `count` values: glu: x = activation(x) * y, constant 1: 1: gelu, 0: silu; add: x += y.
   Groups: ceil(count / (local size * 4)), at most 65535, and an invocation goes on in strides of the grid. texel_glu: x and
   y are bytes into what the sets 0 and 1 hold, multiples of 32, and count is one of 8, of which an invocation takes 8. */
struct ElementwisePush {
  Address x, y;
  uint count, unused;
};

/* x = cap * tanh(x / cap). Grid and count as above. */
struct SoftcapPush {
  Address x;
  uint count;
  float cap;
};

/* y[i][n, rows[i]] = x[n, cols] * w[i], or y += where add is 1. Matrices of one format that are not there have
   rows 0. Groups: as matmul_plan says. Built per format. */
struct MatmulPush {
  Address x;
  Address w[3];
  Address y[3];
  uint rows[3];
  uint n, cols;
  uint row_bytes; /* of w */
  uint add;
  uint zero; /* is 0, which no compiler knows */
};

/* The same by texel_matmul: x and w are bytes into what the descriptor sets 1 (f32) and 0 hold; and by texel_panel, of one
   matrix, y into what set 2 holds, too. Groups: as plan_texel_matmul says. Built per format, for some. */

/* What products named _dot take for x, for quantized formats but affine ones, the same otherwise: blocks of PREPARED_VALUES
   values become records of PREPARED_BYTES (prepared.glsl). Groups: ceil(blocks / local size), at most 65535, and an
   invocation goes on in strides of the grid. */
#define FLYBALL_PREPARED_VALUES 32
#define FLYBALL_PREPARED_BYTES 40
struct PrepareActivationsPush {
  Address x, to;
  uint blocks, unused;
};

/* y[p] = x[p / per_row] * w[experts[p]] for each pair p < pairs: moe_matvec, which takes a pair's expert from
   `experts`, and moe_matmul, which takes the pairs of expert e from order[offsets[e] .. offsets[e + 1]].
   w: the experts' matrices, one after the other. y: [pairs, rows]. Groups: as matmul_plan says. Built per format. */
struct MoeMatmulPush {
  Address x, w, y, experts, offsets, order;
  uint per_row, pairs, rows, cols;
  uint row_bytes, n_experts;
};

/* Rotates q [rows, n_heads, head_dim] in place and k [rows, n_kv_heads, head_dim] on its way: rotations: [rows,
   rope_dim / 2, 2] cosine and sine; and rounds k, v [rows, n_kv_heads, head_dim] into the caches at slots[row] = block id
   * block_size + place. Caches: [block][kv head] pages (kernels/formats/kv_page.hpp). Constants: 1: pairs are 1: (2i,
   2i + 1), 0: (i, i + rope_dim / 2); 2: 1: pages are q8_0, 0: f16. Groups: any, rows. */
struct RopeKvStorePush {
  Address q, k, v, q_rotations, rotations, slots, keys, values;
  uint n_heads, n_kv_heads, head_dim, rope_dim, block_size, unused;
};

/* Causal attention of q [rows, n_heads, head_dim] over the pages of one layer, into `to`, of the same shape.
   work: [items][4]: first row, rows, position of the first row, where its sequence's block ids begin in `tables`.
   partial: [item][split][n_heads][head_dim + 2]: accumulator, maximum, sum, not divided.
   window: positions that a row sees, its own included; where constant 7 is 0 it sees all.
   Constants: 1 head_dim, 2 query heads of a KV head, 3 block_size, 4 pages are q8_0, 5 positions of a split (a multiple
   of block_size), 6 rows of an item at most, 7 whether `window` counts, 8 a cap of scores (f32, 0: none),
   9 what a tile of positions has is no loop, 10 subgroups reduce by shuffles.
   attend_rows: rows of prompts; a group takes all positions of an item in order.     Groups: 1, n_kv_heads, items.
   attend_split: items of one row; a group takes one split, and writes to `to` where it is the only one; groups outside
   an item's splits end at once.                                                      Groups: splits, n_kv_heads, items.
   attend_combine: merges the splits of items that have more than one.                Groups: n_heads, items.
   All three are dispatched indirectly: the grids lie in the step's buffer. */
struct AttendPush {
  Address q, keys, values, work, tables, to, partial;
  uint n_kv_heads, max_splits;
  float scale;
  uint window;
};

/* to[i] = x[rows[i]]. Groups: ceil(cols / (local size * 4)), rows wanted. */
struct GatherPush {
  Address x, rows, to;
  uint cols, unused;
};

/* asked: [asked][5]: row, k, n (of its first n values), whether the sum is wanted, the pair in `to` where the answer
   begins: {1 if a value is NaN or infinite, sum of exp(x - best)}, then k of {index, value}, likeliest first and of
   equals the lower index. to: pairs of 32 bits. Groups: 1, asked. */
struct TopKPush {
  Address logits, asked, to;
  uint cols, unused;
};

/* experts, weights: [rows, n_used], likeliest first, of equals the lower id; softmax over the chosen ones; a row with a NaN
   chooses the last experts, and the NaN stays in the weights. Groups: 1, rows. */
struct MoeRoutePush {
  Address router, experts, weights;
  uint n_experts, n_used;
};

/* Sorts pairs by expert, stable: offsets [n_experts + 1], order [pairs]. Groups: 1. */
struct MoeGroupPush {
  Address experts, offsets, order;
  uint pairs, n_experts;
};

/* residual += sum over a row's uses, in order, of weights * y. y: [rows, n_used, cols].
   Groups: ceil(cols / (local size * 4)), rows. */
struct MoeAddPush {
  Address y, weights, residual;
  uint n_used, cols;
};

/* The device's ceilings, for benchmarks. read_bandwidth: words: pairs of 64 bits, a multiple of 4 * invocations; to:
   [invocations] uint. multiply_add: to: [invocations] f32; rounds: a multiple of 64; 0 <= first < 0.5, 0 <= term <= 0.25.
   Groups: any. */
struct ReadBandwidthPush {
  Address from, to;
  uint words, unused;
};
struct MultiplyAddPush {
  Address to;
  uint rounds;
  float first, term;
  uint unused;
};

#ifdef __cplusplus
static_assert(sizeof(MatmulPush) == 88 && sizeof(MoeMatmulPush) == 72 && sizeof(AttendPush) == 72);
}  // namespace flyball::vulkan
#endif
#endif
