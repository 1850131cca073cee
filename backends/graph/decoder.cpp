#include "backends/graph/decoder.hpp"

namespace flyball::graph {

BufferPlan plan_buffers(const model::ModelConfig& c, std::uint32_t step_tokens, std::uint32_t wanted_rows) {
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
  set(Buffer::gate, step_tokens, c.ffn_dim);
  set(Buffer::up, step_tokens, c.ffn_dim);
  set(Buffer::wanted_residual, wanted_rows, c.dim);
  set(Buffer::wanted_attended, wanted_rows, heads);
  set(Buffer::logits, wanted_rows, c.vocab_size);
  return plan;
}

std::uint64_t plan_bytes(const BufferPlan& plan) noexcept {
  std::uint64_t bytes = 0;
  for (const BufferShape& shape : plan) bytes += shape.bytes();
  return bytes;
}

void decode_step(const model::ModelConfig& config, const StepInputs& inputs, Ops& ops) {
  auto n = static_cast<std::uint32_t>(inputs.tokens.size());
  Buffer residual = Buffer::residual;
  Buffer attended = Buffer::attended;

  ops.begin(inputs);
  ops.embed(n, {WeightRole::token_embedding}, residual);
  for (std::uint32_t layer = 0; layer < config.n_layers; ++layer) {
    const Projection qkv[] = {{{WeightRole::q, layer}, Buffer::q},
                              {{WeightRole::k, layer}, Buffer::k},
                              {{WeightRole::v, layer}, Buffer::v}};
    ops.norm_matmul(n, residual, {WeightRole::attn_norm, layer}, qkv);
    ops.attention(n, layer, Buffer::q, Buffer::k, Buffer::v, attended);

    if (layer + 1 == config.n_layers && inputs.wanted.size() < n) {
      // Nothing reads the other rows any more: their KV is stored. A prompt's chunk stops here.
      n = static_cast<std::uint32_t>(inputs.wanted.size());
      if (n == 0) return;
      ops.gather_wanted(residual, Buffer::wanted_residual);
      ops.gather_wanted(attended, Buffer::wanted_attended);
      residual = Buffer::wanted_residual;
      attended = Buffer::wanted_attended;
    }

    ops.matmul_add(n, attended, {WeightRole::o, layer}, residual);
    const Projection gate_up[] = {{{WeightRole::gate, layer}, Buffer::gate},
                                  {{WeightRole::up, layer}, Buffer::up}};
    ops.norm_matmul(n, residual, {WeightRole::ffn_norm, layer}, gate_up);
    ops.swiglu_matmul_add(n, Buffer::gate, Buffer::up, {WeightRole::down, layer}, residual);
  }
  const Projection head[] = {{{WeightRole::output}, Buffer::logits}};
  ops.norm_matmul(n, residual, {WeightRole::output_norm}, head);
}

}  // namespace flyball::graph
