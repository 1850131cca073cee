// The closed vocabulary of the forward pass: what decoder.cpp says and every device must be able to do.
// Values live in device buffers named by role; weights are named by role and layer; only a step's inputs are
// host memory. Verbs work on the first `n` rows of their buffers, each row one token, f32. A row's result
// never depends on the values beside it. On a processor alone equals batched bit for bit; a GPU may choose a
// kernel by the number of rows, and then they differ by the rounding of sums. Compound verbs have a default
// body; a device overrides one only for a measured win.
#pragma once

#include <cstdint>
#include <span>

#include "backends/backend.hpp"
#include "backends/model/weight_roles.hpp"

namespace flyball::graph {

// Planned by plan_buffers() (decoder.hpp). Columns: D = dim, H = heads * head_dim, K = kv heads * head_dim.
// A mixture of experts has E experts of which each token uses U; its gate and up have a row per (token, use).
enum class Buffer : std::uint8_t {
  residual,         // [tokens, D]
  normed,           // [tokens, D]
  q,                // [tokens, H]
  k,                // [tokens, K]
  v,                // [tokens, K]
  attended,         // [tokens, H]
  projected,        // [tokens, D]  what a block adds to the residual
  gate,             // [tokens, ffn], with experts [tokens * U, expert ffn]
  up,               // as gate
  router,           // [tokens, E]
  wanted_residual,  // [rows wanted, D]  the last layer goes on with the rows whose logits are wanted
  wanted_attended,  // [rows wanted, H]
  logits,           // [rows wanted, vocab]
  candidates,       // [rows wanted, 1 + kMaxCandidates] pairs of 32 bits: what top_k found
};
inline constexpr std::size_t kBufferCount = 14;

// Most candidates of a row: more than the 20 of logprobs and than the top_k that clients send by habit (40,
// 50), and few enough for a row's to be chosen one after the other.
inline constexpr std::uint32_t kMaxCandidates = 64;

using model::WeightRef;
using model::WeightRole;

// One of several matrices that read the same input: y[r] = sum_c x[c] * w[r, c].
struct Projection {
  WeightRef weight;
  Buffer out = Buffer::projected;
};

// What to find in row `row` of Buffer::logits (0: the first wanted): the `k` likeliest of its first `of`
// values, by value, equal ones by index.
struct TopK {
  std::uint32_t row = 0;
  std::uint32_t k = 0;   // 1 to min(of, kMaxCandidates)
  std::uint32_t of = 0;  // at most the row
  bool exp_sum = false;  // and the sum of e^(x - best) over the `of` values
};

// A step's inputs, valid until the step ends. Row i is one new token; rows of a sequence follow each other in
// order of position. The KV of every earlier position of its sequence is in the cache or comes earlier in
// this step.
struct StepInputs {
  std::span<const Token> tokens;                                 // [rows]
  std::span<const std::uint32_t> positions;                      // [rows] within the sequence
  std::span<const std::uint32_t> sequence_of;                    // [rows] index into block_tables
  std::span<const std::span<const std::uint32_t>> block_tables;  // KV block ids by position / block size
  std::span<const std::uint32_t> wanted;                         // rows whose logits are wanted, ascending
  bool one_row_each = false;                                     // no sequence has two rows: pure decode
  std::span<const TopK> top_k = {};                              // rows wanted of which no more is wanted
};

struct Ops {
  virtual ~Ops() = default;

  virtual void begin(const StepInputs& inputs) = 0;
  // out[i] = row tokens[i] of the table times the model's embedding scale.
  virtual void embed(std::uint32_t n, WeightRef table, Buffer out) = 0;
  // out = x / rms(x) * weight
  virtual void rms_norm(std::uint32_t n, Buffer x, WeightRef weight, Buffer out) = 0;
  virtual void matmul(std::uint32_t n, Buffer x, std::span<const Projection> projections) = 0;
  // x += b
  virtual void bias(std::uint32_t n, Buffer x, WeightRef b) = 0;
  // x = x / rms(x) * weight for each head of head_dim values by itself.
  virtual void head_norm(std::uint32_t n, Buffer x, WeightRef weight) = 0;
  // Rotates q and k of each row to its position as `layer` does, q in place, and appends k and v to the cache
  // of `layer` there. What is left in k is the device's own.
  virtual void rope_kv_store(std::uint32_t n, std::uint32_t layer, Buffer q, Buffer k, Buffer v) = 0;
  // Causal attention of each row over the cache of `layer`, its own position included: over the layer's
  // window of positions where it has one, scores scaled and capped as the model has it.
  virtual void attend(std::uint32_t n, std::uint32_t layer, Buffer q, Buffer out) = 0;
  // gate = activation(gate) * up, by the model's activation.
  virtual void glu(std::uint32_t n, Buffer gate, Buffer up) = 0;
  // x = cap * tanh(x / cap)
  virtual void softcap(std::uint32_t n, Buffer x, float cap) = 0;
  // x += y
  virtual void add(std::uint32_t n, Buffer x, Buffer y) = 0;
  // out[i] = x[wanted[i]]
  virtual void gather_wanted(Buffer x, Buffer out) = 0;
  // What StepInputs::top_k asks for, one after the other in `out`, 1 + k pairs each: {1 if a value is NaN or
  // infinite (what follows means nothing then), exp_sum as f32}, then {index, value as f32} k times. Only
  // devices whose logits the host cannot read in place have it: elsewhere no step asks
  // (Executor::max_candidates).
  virtual void top_k(Buffer logits, Buffer out);

  // ---- mixture of experts ---------------------------------------------------------------------------------
  // Chooses each row's U likeliest experts (equal ones: the lower id first) and weighs them by the softmax of
  // their U values: the softmax over all E, divided by the chosen ones' share. The choice stays on the device
  // until the next moe_route.
  virtual void moe_route(std::uint32_t n, Buffer router) = 0;
  // Each row of x times the matrices of its U experts, and of no others. `out` has n * U rows, in an order
  // that is the device's own until moe_glu_matmul_add has read them.
  virtual void moe_matmul(std::uint32_t n, Buffer x, std::span<const Projection> projections) = 0;
  // residual += sum over the row's experts, in order of choice, of weight * down(activation(gate) * up).
  virtual void moe_glu_matmul_add(std::uint32_t n, Buffer gate, Buffer up, WeightRef down,
                                  Buffer residual) = 0;

  // ---- compound verbs -------------------------------------------------------------------------------------
  virtual void norm_matmul(std::uint32_t n, Buffer x, WeightRef norm,
                           std::span<const Projection> projections) {
    rms_norm(n, x, norm, Buffer::normed);
    matmul(n, Buffer::normed, projections);
  }
  virtual void attention(std::uint32_t n, std::uint32_t layer, Buffer q, Buffer k, Buffer v, Buffer out) {
    rope_kv_store(n, layer, q, k, v);
    attend(n, layer, q, out);
  }
  virtual void matmul_add(std::uint32_t n, Buffer x, WeightRef weight, Buffer residual) {
    const Projection projection[] = {{weight, Buffer::projected}};
    matmul(n, x, projection);
    add(n, residual, Buffer::projected);
  }
  virtual void glu_matmul_add(std::uint32_t n, Buffer gate, Buffer up, WeightRef down, Buffer residual) {
    glu(n, gate, up);
    matmul_add(n, gate, down, residual);
  }
};

}  // namespace flyball::graph
