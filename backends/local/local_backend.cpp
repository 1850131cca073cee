#include "backends/local/local_backend.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "backends/device/memory.hpp"
#include "backends/engine/build_id.hpp"
#include "backends/engine/engine_backend.hpp"
#include "backends/kv/chain_key.hpp"
#include "backends/local/engine_kinds.hpp"
#include "backends/local/local_executor.hpp"
#include "backends/local/predict.hpp"
#include "backends/local/text_model.hpp"
#include "backends/model/identity.hpp"
#include "kernels/cpu/kernels.hpp"

namespace flyball::local {
namespace {

// All that the bytes of a KV block are a function of, beside the tokens: another engine, device or build
// computes otherwise, and must not go on with what this one has computed.
std::string kv_form(const LocalBackendOptions& options, const engine::EngineParts& parts,
                    const model::ModelFile& model, const graph::KvLayout& layout) {
  std::string form = "flyball " FLYBALL_VERSION " " + engine::build_id() + " " + options.backend + " " +
                     kernels::cpu::to_string(kernels::cpu::best_isa()) + " " + options.kv_type;
  for (const std::uint32_t n : {layout.block_size, layout.n_layers, layout.n_kv_heads, layout.head_dim})
    form += " " + std::to_string(n);
  for (const DeviceShare& share : parts.info.devices)
    form += "\n" + share.device + " " + std::to_string(share.first_layer);
  form += "\n" + parts.executor->arithmetic();
  // LongRoPE rotates by other factors where sequences may be long.
  for (const float factor : model.config().ropes[0].frequency_factors)
    form += " " + std::to_string(std::bit_cast<std::uint32_t>(factor));
  return form + "\n" + model::identity_of(model, options.path);
}

// What cannot be used costs time to first tokens, and nothing else.
void set_up_spill(const LocalBackendOptions& options, const model::ModelFile& model,
                  const graph::KvLayout& layout, engine::EngineParts& parts) {
  const std::uint64_t block_bytes = parts.executor->block_bytes();
  if (options.spill.max_bytes == 0 || block_bytes == 0) return;
  const auto off = [warn = options.warn,
                    directory = options.spill.directory.string()](const std::string& why) {
    if (warn) warn("KV is not spilled to disk from here on: " + why + " (" + directory + ")");
  };
  if (engine::build_id().empty()) return off("this program was linked without a build id.");
  const kv::ChainKey space = kv::space_key(kv_form(options, parts, model, layout));
  auto store = spill::SpillStore::open(
      {options.spill.directory, options.spill.max_bytes, options.spill.interceptor}, space, block_bytes);
  if (!store) return off(store.error().message);
  parts.limits.keyed = kv::Keyed{space, std::max(1U, options.spill.least_tokens / layout.block_size)};
  parts.spill = std::make_unique<spill::KvSpill>(std::move(*store), block_bytes, off);
  parts.spill_after = options.spill.after;
}

// Locks weights and KV in memory; false: it could not. nullopt: that is not wanted.
std::optional<bool> lock_memory(const LocalBackendOptions& options, const device::Executor& executor) {
  if (!options.lock_memory) return std::nullopt;
  const auto off = [&](const std::string& why) {
    if (options.warn) options.warn("memory is not locked, and the engine runs without: " + why);
    return false;
  };
  const auto held = executor.held_memory();
  if (held.empty()) return off("weights and KV of the " + options.backend + " engine lie with its driver");
  if (const auto locked = device::lock_pages(held); !locked) return off(locked.error().message);
  return true;
}

// The options with the limits that were agreed on: what the machine has free when it is loaded changes
// nothing.
Result<LocalBackendOptions> ask_for_memory(const LocalBackendOptions& options,
                                           const model::ModelFile& model) {
  LocalBackendOptions agreed = options;
  if (!options.ask_memory) return agreed;
  agreed.expert_bytes = expert_bytes_limit(model, options);
  auto need = predict_memory(model, agreed, options.own_memory);
  if (!need) return pass(need);
  const std::uint64_t granted = options.ask_memory(*need);
  agreed.kv_bytes_limit = options.kv_bytes_limit == 0 ? granted : std::min(granted, options.kv_bytes_limit);
  return agreed;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_local_backend(const LocalBackendOptions& options) {
  auto opened = open_local_model(options);
  if (!opened) return pass(opened);
  const std::shared_ptr<const model::ModelFile> model = std::move(*opened);
  const model::ModelConfig& config = model->config();
  auto text = load_text_model(*model, options.context);
  if (!text) return pass(text);
  auto admitted = ask_for_memory(options, *model);
  if (!admitted) return pass(admitted);
  auto local = open_local_executor(*admitted, model);
  if (!local) return pass(local);

  engine::EngineParts parts;
  parts.executor = std::move(local->executor);
  parts.limits.max_sequences = options.max_sequences;
  parts.limits.step_tokens = local->step_tokens;
  parts.limits.logit_rows = local->logit_rows;
  parts.limits.max_waiting = options.max_queue;
  parts.limits.kv_blocks = local->kv_blocks;
  parts.limits.block_size = local->layout.block_size;

  parts.info.backend = options.backend;
  parts.info.model = options.model_id;
  parts.info.architecture = config.architecture;
  parts.info.model_name = config.name;
  parts.info.quantization = model->main_quantization();
  parts.info.parameters = model->parameter_count();
  parts.info.token_weight_bytes = model->token_weight_bytes();
  parts.info.mixture_of_experts = config.n_experts > 0;
  parts.info.context_length = local->context;
  parts.info.max_sequences = options.max_sequences;
  const graph::MemoryPlan memory = parts.executor->memory();
  parts.info.weight_bytes = memory.weight_bytes;
  parts.info.kv_bytes = memory.kv_bytes;
  parts.info.kv_type = options.kv_type;
  parts.info.digest = model::digest_of(*model);
  parts.info.scratch_bytes = memory.scratch_bytes;
  parts.info.devices = parts.executor->shares();
  parts.info.memory_locked = lock_memory(options, *parts.executor);
  parts.info.has_chat_template = text->chat_template.has_value();
  if (text->chat_template) parts.info.form = text->chat_template->answer_form();

  parts.logits_per_row = config.vocab_size;
  parts.text = std::move(*text);
  parts.text.context = local->context;
  parts.info.vocab_size = parts.text.vocab_size;
  parts.model = model;
  set_up_spill(options, *model, local->layout, parts);
  parts.observer = options.observer;
  parts.yields = options.yields;
  return engine::make_engine_backend(std::move(parts));
}

}  // namespace flyball::local
