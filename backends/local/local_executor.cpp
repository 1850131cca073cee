#include "backends/local/local_executor.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/graph/layer_split.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/local/engine_kinds.hpp"
#include "backends/model/embedded_demo.hpp"
#include "backends/model/model_file.hpp"
#include "config/units.hpp"

namespace flyball::local {
namespace {

constexpr std::uint32_t kMaxSequences = 256;
constexpr std::uint32_t kMaxStepTokens = 4096;

Result<std::uint32_t> choose_kv_blocks(const LocalBackendOptions& options, const graph::KvLayout& layout,
                                       std::uint32_t context, const graph::KvRoom& room) {
  if (options.kv_blocks != 0) return options.kv_blocks;
  const std::uint64_t one = graph::kv_blocks(layout, context);
  // What was agreed on with others is of a pool; of several devices' own memory one may have less room.
  const bool limited =
      options.kv_bytes_limit != 0 && !(options.own_memory && room.bytes < options.kv_bytes_limit);
  const auto [limit, device] = limited ? graph::KvRoom{options.kv_bytes_limit, {}} : room;
  const std::uint64_t fits = limit / layout.block_bytes();
  if (fits < one) {
    const auto bytes = config::sizes_to_compare({one * layout.block_bytes(), limit});
    return fail(ErrorCode::insufficient_memory,
                "The KV cache of one sequence of " + std::to_string(context) + " tokens needs " + bytes[0] +
                    "; " + bytes[1] + " are free for it" +
                    (device.empty() ? "" : " by what is left of " + device) + ".",
                "context");
  }
  return static_cast<std::uint32_t>(std::min({fits, one * options.max_sequences, std::uint64_t{UINT32_MAX}}));
}

Result<void> check_options(const LocalBackendOptions& options) {
  const EngineFunctions* const engine = find_engine(options.backend);
  if (engine == nullptr) {
    std::string there;
    for (const std::string& id : config::engine_ids()) there += (there.empty() ? "" : ", ") + id;
    return fail(ErrorCode::unsupported_value,
                "This build has no engine named '" + options.backend + "'; it has: " + there + ".",
                "backend");
  }
  const auto within = [](const char* name, std::uint32_t value, std::uint32_t most) -> Result<void> {
    if (value >= 1 && value <= most) return {};
    return fail(ErrorCode::invalid_value,
                std::string(name) + " is " + std::to_string(value) + "; it must be 1 to " +
                    std::to_string(most) + ".",
                name);
  };
  if (auto ok = within("max_sequences", options.max_sequences, kMaxSequences); !ok) return pass(ok);
  if (auto ok = within("devices", static_cast<std::uint32_t>(options.opencl.size()), kMaxDevices); !ok)
    return pass(ok);
  if (engine->kind.most_devices == 1 && options.opencl.size() > 1)
    return fail(ErrorCode::unsupported_value,
                "The " + std::string(engine->kind.name) + " engine runs on one device; several are named.",
                "device");
  return within("step_tokens", options.step_tokens, kMaxStepTokens);
}

Result<std::unique_ptr<model::ModelFile>> open_file(const LocalBackendOptions& options) {
  if (!options.path.empty()) return model::ModelFile::open(options.path, options.sha256);
  const auto demo = model::embedded_demo_model();
  if (demo.empty())
    return fail(ErrorCode::model_unavailable, "This build has no embedded demo model; name a model file.",
                "path");
  return model::ModelFile::from_bytes(demo);
}

}  // namespace

Result<std::shared_ptr<const model::ModelFile>> open_local_model(const LocalBackendOptions& options) {
  if (auto ok = check_options(options); !ok) return pass(ok);
  auto model = open_file(options);
  if (!model) return pass(model);
  auto context = graph::serving_context(options.context, (*model)->config());
  if (!context) return pass(context);
  (*model)->serve(*context);
  return std::shared_ptr<const model::ModelFile>(std::move(*model));
}

Result<LocalExecutor> open_local_executor(const LocalBackendOptions& options,
                                          std::shared_ptr<const model::ModelFile> model) {
  LocalExecutor out;
  auto context = graph::serving_context(options.context, model->config());
  if (!context) return pass(context);
  auto kv_type = graph::kv_type(options.kv_type, model->config());
  if (!kv_type) return pass(kv_type);
  out.context = *context;
  out.step_tokens = std::max(options.step_tokens, options.max_sequences);
  out.layout = graph::kv_layout(model->config(), *kv_type);
  const std::uint64_t least_blocks =
      options.kv_blocks != 0 ? options.kv_blocks : graph::kv_blocks(out.layout, *context);
  auto device =
      find_engine(options.backend)
          ->open({options, model, out.step_tokens, *context, least_blocks * out.layout.block_bytes()});
  if (!device) return pass(device);
  out.executor = std::move(device->executor);
  out.logit_rows = device->logit_rows;
  // After the weights are in: what is left is what the cache may have.
  auto blocks = choose_kv_blocks(options, out.layout, *context, device->kv_room);
  if (!blocks) return pass(blocks);
  if (auto ok = out.executor->reserve_kv(out.layout, *blocks); !ok) return pass(ok);
  out.kv_blocks = *blocks;
  out.model = std::move(model);
  return out;
}

}  // namespace flyball::local
