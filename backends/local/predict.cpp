#include "backends/local/predict.hpp"

#include <algorithm>

#include "backends/local/engine_kinds.hpp"

namespace flyball::local {
Result<MemoryNeed> predict_memory(const model::ModelFile& model, const LocalBackendOptions& options,
                                  bool own_memory) {
  const model::ModelConfig& config = model.config();
  auto context = graph::serving_context(options.context, config);
  if (!context) return pass(context);
  auto kv_type = graph::kv_type(options.kv_type, config);
  if (!kv_type) return pass(kv_type);
  const graph::KvLayout layout = graph::kv_layout(config, *kv_type);
  const std::uint64_t one = graph::kv_blocks(layout, *context);
  const std::uint64_t blocks = options.kv_blocks != 0 ? options.kv_blocks : one * options.max_sequences;

  graph::FootprintShape shape;
  shape.step_tokens = std::max(options.step_tokens, options.max_sequences);
  shape.logit_rows = options.max_sequences;
  shape.context = *context;
  shape.kv_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, UINT32_MAX));
  shape.kv_type = *kv_type;
  shape.own_memory = own_memory;

  const EngineFunctions* const engine = find_engine(options.backend);
  if (engine == nullptr)
    return fail(ErrorCode::unsupported_value, "There is no engine named '" + options.backend + "'.",
                "backend");
  const graph::MemoryPlan plan = engine->footprint(model, options, shape);
  return MemoryNeed{plan.weight_bytes, plan.scratch_bytes, plan.kv_bytes,
                    std::min(one, blocks) * layout.block_bytes()};
}

}  // namespace flyball::local
