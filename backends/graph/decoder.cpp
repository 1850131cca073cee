#include "backends/graph/decoder.hpp"

#include <cstdlib>

namespace flyball::graph {

void Ops::top_k(Buffer, Buffer) {
  std::abort();  // a step asked what the device's executor says it does not do
}

BufferPlan plan_buffers(const model::ModelConfig& c, std::uint32_t step_tokens, std::uint32_t wanted_rows,
                        std::uint32_t max_candidates) {
  const std::uint32_t heads = c.n_heads * c.head_dim;
  const std::uint32_t kv_heads = c.n_kv_heads * c.head_dim;
  BufferPlan plan;
  const auto set = [&](Buffer b, std::uint32_t rows, std::uint32_t cols) {
    plan[static_cast<std::size_t>(b)] = {rows, cols};
  };
  set(Buffer::residual, step_tokens, c.dim);
  set(Buffer::normed, step_tokens, c.dim);
  set(Buffer::q, step_tokens, heads);
  set(Buffer::k, step_tokens, kv_heads);
  set(Buffer::v, step_tokens, kv_heads);
  set(Buffer::attended, step_tokens, heads);
  set(Buffer::projected, step_tokens, c.dim);
  const bool experts = c.n_experts > 0;
  const std::uint32_t ffn_rows = experts ? step_tokens * c.n_experts_used : step_tokens;
  const std::uint32_t ffn_cols = experts ? c.expert_ffn_dim : c.ffn_dim;
  set(Buffer::gate, ffn_rows, ffn_cols);
  set(Buffer::up, ffn_rows, ffn_cols);
  set(Buffer::router, experts ? step_tokens : 0, c.n_experts);
  set(Buffer::wanted_residual, wanted_rows, c.dim);
  set(Buffer::wanted_attended, wanted_rows, heads);
  set(Buffer::logits, wanted_rows, c.vocab_size);
  set(Buffer::candidates, max_candidates > 0 ? wanted_rows : 0, 2 * (1 + max_candidates));
  return plan;
}

std::uint64_t plan_bytes(const BufferPlan& plan) noexcept {
  std::uint64_t bytes = 0;
  for (const BufferShape& shape : plan) bytes += shape.bytes();
  return bytes;
}

namespace {

// What q, k and v get before they are rotated, in the families that have it.
void adjust_qkv(const model::ModelConfig& config, std::uint32_t n, std::uint32_t layer, Ops& ops) {
  if (config.qkv_bias) {
    ops.bias(n, Buffer::q, {WeightRole::q_bias, layer});
    ops.bias(n, Buffer::k, {WeightRole::k_bias, layer});
    ops.bias(n, Buffer::v, {WeightRole::v_bias, layer});
  }
  if (config.qk_norm) {
    ops.head_norm(n, Buffer::q, {WeightRole::q_norm, layer});
    ops.head_norm(n, Buffer::k, {WeightRole::k_norm, layer});
  }
}

// residual += x * w, normed on its way in the families that have it so.
void add_product(const model::ModelConfig& config, std::uint32_t n, Buffer x, WeightRef w,
                 WeightRef post_norm, Buffer residual, Ops& ops) {
  if (!config.post_norms) return ops.matmul_add(n, x, w, residual);
  const Projection product[] = {{w, Buffer::projected}};
  ops.matmul(n, x, product);
  ops.rms_norm(n, Buffer::projected, post_norm, Buffer::normed);
  ops.add(n, residual, Buffer::normed);
}

void feed_forward(const model::ModelConfig& config, std::uint32_t n, std::uint32_t layer, Buffer residual,
                  Ops& ops) {
  const Projection gate_up[] = {{{WeightRole::gate, layer}, Buffer::gate},
                                {{WeightRole::up, layer}, Buffer::up}};
  ops.norm_matmul(n, residual, {WeightRole::ffn_norm, layer}, gate_up);
  if (!config.post_norms)
    return ops.glu_matmul_add(n, Buffer::gate, Buffer::up, {WeightRole::down, layer}, residual);
  ops.glu(n, Buffer::gate, Buffer::up);
  add_product(config, n, Buffer::gate, {WeightRole::down, layer}, {WeightRole::ffn_post_norm, layer},
              residual, ops);
}

// Mixtral (arXiv:2401.04088): a few of many feed-forwards for each token, chosen by a router.
void mixed_feed_forward(std::uint32_t n, std::uint32_t layer, Buffer residual, Ops& ops) {
  ops.rms_norm(n, residual, {WeightRole::ffn_norm, layer}, Buffer::normed);
  const Projection router[] = {{{WeightRole::router, layer}, Buffer::router}};
  ops.matmul(n, Buffer::normed, router);
  ops.moe_route(n, Buffer::router);
  const Projection gate_up[] = {{{WeightRole::expert_gate, layer}, Buffer::gate},
                                {{WeightRole::expert_up, layer}, Buffer::up}};
  ops.moe_matmul(n, Buffer::normed, gate_up);
  ops.moe_glu_matmul_add(n, Buffer::gate, Buffer::up, {WeightRole::expert_down, layer}, residual);
}

}  // namespace

bool decode_step(const model::ModelConfig& config, const StepInputs& inputs, Ops& ops,
                 const std::function<bool()>& go_on) {
  return decode_part(config, whole_model(config), inputs, ops, go_on);
}

bool decode_part(const model::ModelConfig& config, const ModelPart& part, const StepInputs& inputs, Ops& ops,
                 const std::function<bool()>& go_on) {
  auto n = static_cast<std::uint32_t>(inputs.tokens.size());
  Buffer residual = Buffer::residual;
  Buffer attended = Buffer::attended;

  ops.begin(inputs);
  if (part.embeds) ops.embed(n, {WeightRole::token_embedding}, residual);
  for (std::uint32_t layer = part.begin; layer < part.end; ++layer) {
    if (go_on && !go_on()) return false;
    const Projection qkv[] = {{{WeightRole::q, layer}, Buffer::q},
                              {{WeightRole::k, layer}, Buffer::k},
                              {{WeightRole::v, layer}, Buffer::v}};
    ops.norm_matmul(n, residual, {WeightRole::attn_norm, layer}, qkv);
    adjust_qkv(config, n, layer, ops);
    ops.attention(n, layer, Buffer::q, Buffer::k, Buffer::v, attended);

    if (part.projects && layer + 1 == part.end && inputs.wanted.size() < n) {
      // Nothing reads the other rows any more: their KV is stored. A prompt's chunk stops here.
      n = static_cast<std::uint32_t>(inputs.wanted.size());
      if (n == 0) return true;
      ops.gather_wanted(residual, Buffer::wanted_residual);
      ops.gather_wanted(attended, Buffer::wanted_attended);
      residual = Buffer::wanted_residual;
      attended = Buffer::wanted_attended;
    }

    add_product(config, n, attended, {WeightRole::o, layer}, {WeightRole::attn_post_norm, layer}, residual,
                ops);
    if (config.o_bias) ops.bias(n, residual, {WeightRole::o_bias, layer});
    if (config.n_experts > 0) {
      mixed_feed_forward(n, layer, residual, ops);
    } else {
      feed_forward(config, n, layer, residual, ops);
    }
  }
  if (!part.projects) return true;
  const Projection head[] = {{{WeightRole::output}, Buffer::logits}};
  ops.norm_matmul(n, residual, {WeightRole::output_norm}, head);
  if (config.logit_cap != 0.0F) ops.softcap(n, Buffer::logits, config.logit_cap);
  if (!inputs.top_k.empty()) ops.top_k(Buffer::logits, Buffer::candidates);
  return true;
}

}  // namespace flyball::graph
