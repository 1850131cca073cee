#include "daemon/cli/local_engine.hpp"

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "backends/device/thread_pool.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/terminal.hpp"

namespace flyball::cli {
namespace {

// Unread events before the engine pauses: a terminal is never this far behind, a blocked pipe may be.
constexpr std::size_t kMaxUnread = 1024;

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace

void add_threads_option(CLI::App& command, local::LocalBackendOptions& options) {
  command.add_option("-t,--threads", options.threads, "Of the cpu engine; 0: one per core")
      ->check(whole_number(0, 4096))
      ->capture_default_str();
}

void add_backend_option(CLI::App& command, local::LocalBackendOptions& options) {
  command.add_option("--backend", options.backend, "Engine")
      ->check(CLI::IsMember(config::engine_ids()))
      ->capture_default_str();
}

CLI::IsMember engine_or_all() {
  std::vector<std::string> names = config::engine_ids();
  names.insert(names.begin(), kAllEngines);
  return CLI::IsMember(names);
}

void add_kv_option(CLI::App& command, local::LocalBackendOptions& options) {
  command
      .add_option("--kv", options.kv_type, "What the KV cache is kept as: f16, or q8_0 in half the memory")
      ->check(CLI::IsMember({"f16", "q8_0"}))
      ->capture_default_str();
}

void add_device_option(CLI::App& command, local::LocalBackendOptions& options) {
  add_devices_option(
      command, "--device", options, &opencl::DeviceOptions::name, &vulkan::DeviceOptions::name,
      "vulkan, opencl: part of the device's id (probe); absent: the best GPU. Software devices only when "
      "named. Given again (opencl): one more, over which the model's layers are split");
}

void add_devices_option(CLI::App& command, const std::string& flag, local::LocalBackendOptions& options,
                        std::string opencl::DeviceOptions::*opencl_field,
                        std::string vulkan::DeviceOptions::*vulkan_field, const std::string& description) {
  const auto set = [&options, opencl_field, vulkan_field](const std::vector<std::string>& texts) {
    options.opencl.assign(texts.size(), {});
    for (std::size_t i = 0; i < texts.size(); ++i) options.opencl[i].*opencl_field = texts[i];
    options.vulkan.*vulkan_field = texts.front();
  };
  command.add_option_function<std::vector<std::string>>(flag, set, description)->allow_extra_args(false);
}

void settle_threads(local::LocalBackendOptions& options) {
  if (options.backend != config::kCpu.id) return;
  const std::uint32_t processors = device::usable_processors();
  if (options.threads > processors)
    std::fprintf(stderr, "flyball: %u threads are asked for, there are processors for %u: %u run\n",
                 options.threads, processors, processors);
  if (options.threads == 0 || options.threads > processors) options.threads = processors;
}

Result<std::unique_ptr<Backend>> load_with_progress(const local::LocalBackendOptions& options, bool quiet) {
  const std::string what =
      options.path.empty() ? "the embedded demo model" : options.path.filename().string();
  const bool watch = !quiet && stderr_is_terminal();
  const auto began = std::chrono::steady_clock::now();
  std::atomic<int> percent{-1};  // unknown
  std::mutex mutex;
  std::condition_variable changed;
  bool loaded = false;
  std::thread watcher;
  if (watch) {
    watcher = std::thread([&] {
      std::unique_lock lock(mutex);
      while (!changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return loaded; })) {
        std::fprintf(stderr, "\rloading %s ... %.1f s", what.c_str(), seconds_since(began));
        if (percent >= 0) std::fprintf(stderr, ", %d%%", percent.load());
        std::fflush(stderr);
      }
    });
  }
  local::LocalBackendOptions watched = options;
  watched.progress = [&percent](std::uint64_t done, std::uint64_t total) {
    if (total > 0) percent = static_cast<int>(static_cast<double>(done) * 100 / static_cast<double>(total));
  };
  watched.warn = [](const std::string& warning) { std::fprintf(stderr, "flyball: %s\n", warning.c_str()); };
  auto backend = local::make_local_backend(watched);
  if (watch) {
    {
      const std::lock_guard lock(mutex);
      loaded = true;
    }
    changed.notify_one();
    watcher.join();
    std::fprintf(stderr, "\r\033[K");
  }
  // A place that is the file, or a file of the directory, has named the model already.
  if (!backend && (options.path.empty() || !backend.error().where.starts_with(options.path.string())))
    backend.error().where = what + (backend.error().where.empty() ? "" : ": " + backend.error().where);
  if (backend && !quiet) {
    const BackendInfo& info = (*backend)->info();
    std::fprintf(stderr, "%s: %s %s, %s parameters, context %u, on %s, loaded in %.2f s\n",
                 info.model_name.empty() ? what.c_str() : info.model_name.c_str(), info.architecture.c_str(),
                 info.quantization.c_str(), short_count(info.parameters).c_str(), info.context_length,
                 info.backend.c_str(), seconds_since(began));
    for (const DeviceShare& share : info.devices) std::fprintf(stderr, "on %s\n", to_string(share).c_str());
  }
  return backend;
}

std::string short_count(std::uint64_t n) {
  char text[32];
  if (n >= 1'000'000'000) {
    std::snprintf(text, sizeof text, "%.1fB", static_cast<double>(n) / 1e9);
  } else if (n >= 1'000'000) {
    std::snprintf(text, sizeof text, "%.1fM", static_cast<double>(n) / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(n));
  }
  return text;
}

bool EventQueue::push(Event event) noexcept {
  bool go_on = true;
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    go_on = events_.size() < kMaxUnread;
    paused_ = !go_on;
  }
  arrived_.notify_one();
  return go_on;
}

std::optional<Event> EventQueue::next(Ticket& ticket, std::chrono::milliseconds wait) {
  std::optional<Event> event;
  bool resume = false;
  {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, wait, [this] { return !events_.empty(); })) return std::nullopt;
    event = std::move(events_.front());
    events_.pop_front();
    resume = paused_ && events_.empty();
    if (resume) paused_ = false;
  }
  if (resume) ticket.resume();
  return event;
}

}  // namespace flyball::cli
