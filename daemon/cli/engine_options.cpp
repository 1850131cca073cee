#include "daemon/cli/engine_options.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "backends/model/model_config.hpp"
#include "config/engine_settings.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/number_option.hpp"

namespace flyball::cli {

void add_engine_options(CLI::App& command, EngineOptions& options) {
  const auto number = [&](const char* name, auto& into, std::uint64_t least, std::uint64_t most,
                          const char* meaning) {
    command.add_option(name, into, meaning)->check(whole_number(least, most))->capture_default_str();
  };
  local::LocalBackendOptions& backend = options.backend;
  command.add_option("--model-id", backend.model_id, "What config.yaml calls the model");
  command.add_option("--model", options.path, "GGUF file or MLX directory; absent: the embedded demo model");
  command.add_option("--sha256", options.sha256, "What the file must hash to");
  command.add_option("--backend", backend.backend, "Engine kind")->capture_default_str();
  add_devices_option(
      command, "--device-id", backend, &opencl::DeviceOptions::id, &vulkan::DeviceOptions::id,
      "vulkan, opencl: the device to open and no other, as `flyball probe` calls it; given again "
      "(opencl): one more, over which the model's layers are split");
  command.add_option("--cache-dir", options.cache_dir, "For compiled kernels");
  number("--threads", backend.threads, 0, 4096, "0: one per core");
  number("--expert-bytes", backend.expert_bytes, 0, UINT64_MAX,
         "Memory for a mixture's experts; 0: three quarters of what is free");
  number("--context", backend.context, 0, model::kMaxContext, "Tokens per sequence; 0: the model's own");
  number("--max-sequences", backend.max_sequences, 1, 256, "Sequences at once");
  command.add_option("--kv", backend.kv_type, "What the KV cache is kept as: f16 or q8_0")
      ->capture_default_str();
  command.add_option("--kv-spill-dir", options.kv_spill_dir, "For KV of prompts, of this user alone");
  number("--kv-spill-bytes", backend.spill.max_bytes, 0, UINT64_MAX, "Most of it, by all engines; 0: none");
  command
      .add_option("--memory", options.memory,
                  "Where a GPU engine's model lies: machine, or own of its devices")
      ->check(CLI::IsMember({"machine", "own"}))
      ->capture_default_str();
  number("--nice", options.nice, 0, config::kMaxNice, "Niceness of the process; never below the daemon's");
  command.add_flag("--lock-memory", backend.lock_memory,
                   "Lock weights and KV in memory, where the limit allows it");
  command.add_flag("--yields", backend.yields, "Any step may be given up when the daemon holds the engine");
  number("--memory-capacity", backend.memory_capacity, 0, UINT64_MAX,
         "What engines may hold of the machine's memory together; 0: what is free decides");
}

local::LocalBackendOptions settled(const EngineOptions& options) {
  local::LocalBackendOptions backend = options.backend;
  backend.path = options.path;
  backend.sha256 = options.sha256;
  backend.own_memory = options.memory == "own";
  backend.cache_dir = options.cache_dir;
  backend.spill.directory = options.kv_spill_dir;
  return backend;
}

}  // namespace flyball::cli
