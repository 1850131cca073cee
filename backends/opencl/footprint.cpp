#include "backends/opencl/footprint.hpp"

#include <algorithm>

#include "backends/device/rope_args.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/opencl/attend_plan.hpp"
#include "backends/opencl/matmul_plan.hpp"
#include "kernels/formats/row_groups.hpp"

namespace flyball::opencl {
namespace {

constexpr std::uint64_t kWord = 4;        // of the device
constexpr std::uint64_t kAskedWords = 5;  // of top_k, a row
constexpr std::uint64_t kWorkWords = 4;   // of a piece of attention

// Norms and biases as they are; matrices, and where they are many, each expert's, in row groups; the
// embedding table as the file has it.
std::uint64_t weight_bytes(const model::ModelFile& model) noexcept {
  std::uint64_t bytes = 0;
  const auto hold = [&](graph::WeightRole role, std::uint32_t layer) {
    const model::Weight& w = model.weights().of(role, layer);
    if (w.data == nullptr) return;
    const bool vector = model::kind_of(role) == model::WeightKind::vector;
    if (vector || role == graph::WeightRole::token_embedding)
      bytes += w.matrix_bytes();
    else
      bytes += w.experts * kernels::grouped_bytes(kGroupRows, w.type, w.rows, w.cols);
  };
  for (std::size_t i = 0; i < model::kWeightRoleCount; ++i) {
    const auto role = static_cast<graph::WeightRole>(i);
    const std::uint32_t layers = model::of_a_layer(role) ? model.config().n_layers : 1;
    for (std::uint32_t layer = 0; layer < layers; ++layer) hold(role, layer);
  }
  return bytes;
}

std::uint64_t scratch_bytes(const model::ModelConfig& config, const graph::FootprintShape& shape,
                            std::uint32_t block_size) noexcept {
  std::uint64_t bytes = 0;
  const auto add = [&](std::uint64_t n) { bytes += std::max(n, kWord); };  // no buffer has fewer
  for (const graph::BufferShape& buffer :
       graph::plan_buffers(config, shape.step_tokens, shape.logit_rows, graph::kMaxCandidates))
    add(buffer.bytes());
  const std::uint64_t rows = shape.step_tokens, sequences = shape.logit_rows;
  if (config.n_experts > 0) {
    const std::uint64_t uses = rows * config.n_experts_used * kWord;
    for (const std::uint64_t n : {uses, uses, (config.n_experts + 1) * kWord, uses, uses * config.dim})
      add(n);
  }
  for (int i = 0; i < 3; ++i) add(rows * kWord);  // tokens, their slots, rows wanted
  add(sequences * kAskedWords * kWord);
  for (int i = 0; i < 2; ++i) add(rows * kWorkWords * kWord);
  for (std::uint32_t table = 0; table < device::rope_tables(config); ++table)
    add(rows * config.rope_dim() * kWord);
  const std::uint64_t positions =
      std::min<std::uint64_t>(std::uint64_t{shape.kv_blocks} * block_size, shape.context);
  const std::uint64_t split = attend_split(false, positions);  // a processor's are longer, and fewer
  add(kWord * sequences * ((positions + split - 1) / split) * config.n_heads * (config.head_dim + 2));
  add(kWord * shape.kv_blocks);
  return bytes;
}

}  // namespace

graph::MemoryPlan footprint(const model::ModelFile& model, const graph::FootprintShape& shape) noexcept {
  const std::uint32_t block_size = graph::kv_layout(model.config(), shape.kv_type).block_size;
  return graph::with_kv(model.config(), shape, weight_bytes(model),
                        scratch_bytes(model.config(), shape, block_size));
}

}  // namespace flyball::opencl
