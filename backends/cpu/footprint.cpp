#include "backends/cpu/footprint.hpp"

#include <algorithm>

#include "backends/device/memory.hpp"
#include "backends/device/rope_args.hpp"
#include "backends/graph/decoder.hpp"

namespace flyball::cpu {
namespace {

using graph::WeightRole;
using kernels::cpu::Kernels;

constexpr std::uint64_t kPreparedSlots = 3;  // CpuOps has as many

bool is_expert(WeightRole role) noexcept {
  return model::kind_of(role) == model::WeightKind::experts;
}

// Calls use(weight) for every weight of the layers whose role is one of `roles`.
template <class Roles, class Use>
void each(const model::ModelFile& model, Roles&& roles, Use&& use) {
  for (std::uint32_t layer = 0; layer < model.config().n_layers; ++layer)
    for (const model::RoleFacts& facts : model::kWeightRoles)
      if (const model::Weight& w = model.weights().of(facts.role, layer);
          roles(facts.role) && w.data != nullptr)
        use(w);
}

std::uint64_t slot_bytes(const model::ModelFile& model, const Kernels& kernels) noexcept {
  std::uint64_t most = device::kAlignment;
  for (std::uint32_t layer = 0; layer < model.config().n_layers; ++layer) {
    std::uint64_t bytes = 0;
    for (const model::RoleFacts& facts : model::kWeightRoles) {
      const model::Weight& w = model.weights().of(facts.role, layer);
      if (is_expert(facts.role)) bytes += device::align_up(kernels.packed_bytes(w.type, w.rows, w.cols));
    }
    most = std::max(most, bytes);
  }
  return most;
}

std::uint64_t weight_bytes(const model::ModelFile& model, const Kernels& kernels,
                           std::uint64_t expert_limit) noexcept {
  const model::ModelWeights& weights = model.weights();
  std::uint64_t bytes = 0;
  bool packs = false;
  const auto hold = [&](const model::Weight& w) {
    const std::uint64_t packed = kernels.packed_bytes(w.type, w.rows, w.cols);
    packs = packs || packed != 0;
    bytes += packed != 0 ? packed : w.matrix_bytes();
  };
  each(model, model::is_layer_matrix, hold);
  hold(weights.of(WeightRole::output));
  if (weights.of(WeightRole::output).data != weights.of(WeightRole::token_embedding).data || packs)
    bytes += weights.of(WeightRole::token_embedding).matrix_bytes();
  if (model.config().n_experts > 0) {
    const std::uint64_t slot = slot_bytes(model, kernels);
    const std::uint64_t all = std::uint64_t{model.config().n_experts} * model.config().n_layers;
    bytes += slot * (expert_limit == 0 ? all : std::min(all, expert_limit / slot));
  }
  return bytes;
}

std::uint64_t scratch_bytes(const model::ModelFile& model, const Kernels& kernels,
                            const graph::FootprintShape& shape) noexcept {
  const model::ModelConfig& config = model.config();
  const std::uint64_t rows = shape.step_tokens, choices = rows * config.n_experts_used;
  std::uint64_t bytes = 0, widest = 0;
  const auto add = [&](std::uint64_t n) { bytes += device::align_up(n); };
  for (const graph::BufferShape& buffer : graph::plan_buffers(config, shape.step_tokens, shape.logit_rows))
    add(buffer.bytes());
  const auto meet = [&](const model::Weight& w) {
    widest = std::max<std::uint64_t>(widest, rows * kernels.activation_bytes(w.type, w.cols));
  };
  each(model, model::is_layer_matrix, meet);
  meet(model.weights().of(WeightRole::output));
  each(model, is_expert, [&](const model::Weight& w) {
    widest = std::max<std::uint64_t>(widest, choices * kernels.activation_bytes(w.type, w.cols));
  });
  for (std::uint64_t i = 0; i < kPreparedSlots; ++i) add(widest);
  add(sizeof(float) * device::rope_tables(config) * rows * config.rope_dim());
  add(sizeof(std::uint32_t) * choices);
  add(sizeof(float) * choices);
  add(sizeof(float) * choices * config.dim);
  return bytes;
}

}  // namespace

graph::MemoryPlan footprint(const model::ModelFile& model, const Kernels& kernels,
                            const graph::FootprintShape& shape) noexcept {
  return graph::with_kv(model.config(), shape, weight_bytes(model, kernels, shape.expert_bytes),
                        scratch_bytes(model, kernels, shape));
}

ExpertBytes expert_bytes(const model::ModelFile& model, const Kernels& kernels) noexcept {
  const std::uint64_t one_layer = model.config().n_experts * slot_bytes(model, kernels);
  return {one_layer * model.config().n_layers, one_layer};
}

}  // namespace flyball::cpu
