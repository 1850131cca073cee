// `flyball engine`: the worker process that `flyball serve` starts. Not for hands.
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <spdlog/spdlog.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "backends/model/model_config.hpp"
#include "backends/worker/server.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/systemd/logging.hpp"

namespace flyball::cli {
namespace {

struct EngineOptions {
  int fd = 3;
  std::string path, sha256, cache_dir, kv_spill_dir, memory = "machine";
  engine::LocalBackendOptions backend;
};

bool is_stream_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

}  // namespace

void add_engine_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<EngineOptions>();
  CLI::App* command =
      app.add_subcommand("engine", "Serve one model on one backend to a daemon (started by serve)");
  command->add_option("--fd", options->fd, "The connected socket to the daemon")
      ->required()
      ->check(whole_number(0, 1 << 20));
  command->add_option("--model-id", options->backend.model_id, "What config.yaml calls the model")
      ->required();
  command->add_option("--model", options->path,
                      "GGUF file or MLX directory; absent: the embedded demo model");
  command->add_option("--sha256", options->sha256, "What the file must hash to");
  command->add_option("--backend", options->backend.backend, "Engine: cpu, vulkan or opencl")
      ->capture_default_str();
  add_devices_option(
      *command, "--device-id", options->backend, &opencl::DeviceOptions::id, &vulkan::DeviceOptions::id,
      "vulkan, opencl: the device to open and no other, as `flyball probe` calls it; given again "
      "(opencl): one more, over which the model's layers are split");
  command->add_option("--cache-dir", options->cache_dir, "For compiled kernels");
  command->add_option("--threads", options->backend.threads, "0: one per core")
      ->check(whole_number(0, 4096))
      ->capture_default_str();
  command
      ->add_option("--expert-bytes", options->backend.expert_bytes,
                   "Memory for a mixture's experts; 0: three quarters of what is free")
      ->check(whole_number(0, UINT64_MAX))
      ->capture_default_str();
  command->add_option("--context", options->backend.context, "Tokens per sequence; 0: the model's own")
      ->check(whole_number(0, model::kMaxContext))
      ->capture_default_str();
  command->add_option("--max-sequences", options->backend.max_sequences, "Sequences at once")
      ->check(whole_number(1, 256))
      ->capture_default_str();
  command->add_option("--kv", options->backend.kv_type, "What the KV cache is kept as: f16 or q8_0")
      ->capture_default_str();
  command->add_option("--kv-spill-dir", options->kv_spill_dir, "For KV of prompts, of this user alone");
  command
      ->add_option("--kv-spill-bytes", options->backend.spill.max_bytes,
                   "Most of it, by all engines; 0: none")
      ->check(whole_number(0, UINT64_MAX))
      ->capture_default_str();
  command
      ->add_option("--memory", options->memory,
                   "Where a GPU engine's model lies: machine, or own of its devices")
      ->check(CLI::IsMember({"machine", "own"}))
      ->capture_default_str();
  command
      ->add_option("--memory-capacity", options->backend.memory_capacity,
                   "What engines may hold of the machine's memory together; 0: what is free decides")
      ->check(whole_number(0, UINT64_MAX))
      ->capture_default_str();
  command->callback([options, &exit_code] {
    if (!is_stream_socket(options->fd)) {
      std::fprintf(stderr, "flyball: --fd %d is no connected socket\n", options->fd);
      exit_code = kUsage;
      return;
    }
    systemd::set_up_logging("info");
    options->backend.path = options->path;
    options->backend.own_memory = options->memory == "own";
    options->backend.cache_dir = options->cache_dir;
    options->backend.spill.directory = options->kv_spill_dir;
    options->backend.warn = [](const std::string& what) { spdlog::warn("{}", what); };
    exit_code = worker::serve_worker(options->fd, options->backend, options->sha256);
    // A load that was cut off may still run in a thread; its memory is the kernel's business now.
    std::_Exit(exit_code);
  });
}

}  // namespace flyball::cli
