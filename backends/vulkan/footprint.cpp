#include "backends/vulkan/footprint.hpp"

#include <algorithm>

#include "backends/device/rope_args.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/vulkan/facts.hpp"
#include "backends/vulkan/matmul_plan.hpp"

namespace flyball::vulkan {
namespace {

constexpr std::uint64_t kWord = 4;        // of the device
constexpr std::uint64_t kAskedWords = 5;  // of top_k, a row
constexpr std::uint64_t kWorkWords = 4;   // of a piece of attention
constexpr std::uint64_t kGrids = 3;

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) noexcept {
  return (n + to - 1) / to * to;
}
// An allocation's.
std::uint64_t held(std::uint64_t bytes) noexcept {
  return std::max<std::uint64_t>(round_up(bytes, 16), 16);
}

template <class Take>
void each_weight(const model::ModelFile& model, Take&& take) noexcept {
  for (std::size_t i = 0; i < model::kWeightRoleCount; ++i) {
    const auto role = static_cast<graph::WeightRole>(i);
    const std::uint32_t layers = model::of_a_layer(role) ? model.config().n_layers : 1;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      const model::Weight& w = model.weights().of(role, layer);
      const bool tied = role == model::WeightRole::output &&
                        w.data == model.weights().of(model::WeightRole::token_embedding).data;
      if (w.data != nullptr && !tied) take(w);
    }
  }
}

std::uint64_t weight_bytes(const model::ModelFile& model) noexcept {
  std::uint64_t bytes = 0;
  each_weight(model, [&](const model::Weight& w) { bytes += w.experts * w.matrix_bytes(); });
  return bytes;
}

// Whether a device is fast at integer dot products only it can tell. Those with memory of their own are taken
// to be; one that shares the machine's memory and is, too, holds this more than is said: of a LLaMA 7 % of
// its activations, of a mixture of experts some 10 %.
std::uint64_t most_prepared_bytes(const model::ModelFile& model,
                                  const graph::FootprintShape& shape) noexcept {
  DeviceFacts device;
  device.integer_dot = shape.own_memory;
  std::uint64_t most = 0;
  each_weight(model, [&](const model::Weight& w) {
    std::uint64_t rows = std::max(shape.step_tokens, shape.logit_rows);
    if (w.experts > 1 && w.cols == model.config().expert_ffn_dim) rows *= model.config().n_experts_used;
    most = std::max(most, prepared_bytes(device, w.type, rows, w.cols));
  });
  return most;
}

std::uint64_t scratch_bytes(const model::ModelConfig& config, const graph::FootprintShape& shape,
                            std::uint32_t block_size, std::uint64_t prepared) noexcept {
  std::uint64_t bytes = 0;
  const auto plan = graph::plan_buffers(config, shape.step_tokens, shape.logit_rows, graph::kMaxCandidates);
  for (const graph::BufferShape& buffer : plan) bytes += held(buffer.bytes());
  if (shape.own_memory)  // and where the host reads them
    bytes += held(plan[static_cast<std::size_t>(graph::Buffer::logits)].bytes());
  const std::uint64_t rows = shape.step_tokens, sequences = shape.logit_rows;
  if (prepared > 0) bytes += held(prepared);
  if (config.n_experts > 0) {
    const std::uint64_t uses = rows * config.n_experts_used * kWord;
    for (const std::uint64_t n : {uses, uses, uses, (config.n_experts + 1) * kWord, uses * config.dim})
      bytes += held(n);
  }

  std::uint64_t inputs = 0;  // of a step, in one allocation
  for (const std::uint64_t words :
       {rows, rows, rows, sequences * kAskedWords, device::rope_tables(config) * rows * config.rope_dim(),
        rows * kWorkWords, sequences * kWorkWords, kGrids * kWorkWords})
    inputs += round_up(words * kWord, 64);
  bytes += held(inputs) + held(kWord * shape.kv_blocks);

  const std::uint64_t positions =
      std::min<std::uint64_t>(std::uint64_t{shape.kv_blocks} * block_size, shape.context);
  const AttendPlan gpu =
      plan_attend({}, config.head_dim, config.n_heads / config.n_kv_heads, block_size, positions);
  // A software device's splits are longer than a GPU's, but not where a GPU's are longest.
  constexpr std::uint32_t kSoftwareSplit = 256;
  const std::uint32_t split = shape.own_memory ? gpu.split : std::min(gpu.split, kSoftwareSplit);
  bytes += held(kWord * sequences * divided_up(positions, split) * config.n_heads * (config.head_dim + 2));
  return bytes;
}

}  // namespace

graph::MemoryPlan footprint(const model::ModelFile& model, const graph::FootprintShape& shape) noexcept {
  const std::uint32_t block_size = graph::kv_layout(model.config(), shape.kv_type).block_size;
  return graph::with_kv(model.config(), shape, weight_bytes(model),
                        scratch_bytes(model.config(), shape, block_size, most_prepared_bytes(model, shape)));
}

}  // namespace flyball::vulkan
