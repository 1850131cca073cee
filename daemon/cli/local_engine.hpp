// An engine in this process, for the commands that need no daemon (run, bench): loading with progress, and
// events handed from the engine's thread to ours.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <CLI/App.hpp>

#include "backends/backend.hpp"
#include "backends/local/local_backend.hpp"

namespace flyball::cli {

// `--backend`, `--kv`, `--threads`.
void add_backend_option(CLI::App& command, local::LocalBackendOptions& options);
// The value by which an option that names engines means all of them; the other values are ids.
inline constexpr const char* kAllEngines = "all";
CLI::IsMember engine_or_all();
void add_kv_option(CLI::App& command, local::LocalBackendOptions& options);
void add_threads_option(CLI::App& command, local::LocalBackendOptions& options);
// `--device` of such a command: parts of devices' names, over which the layers are split.
void add_device_option(CLI::App& command, local::LocalBackendOptions& options);
// The same by another name: each time it is given sets a field of one more device. Vulkan has one device:
// with several the engine refuses to start.
void add_devices_option(CLI::App& command, const std::string& flag, local::LocalBackendOptions& options,
                        std::string opencl::DeviceOptions::*opencl_field,
                        std::string vulkan::DeviceOptions::*vulkan_field, const std::string& description);
// options.threads becomes what the cpu engine will run: one per core where 0 was asked for, and never more
// than there are processors, which is said on stderr.
void settle_threads(local::LocalBackendOptions& options);

// Loads the model. While a person watches, the elapsed time and the share of the weights that
// are loaded count up on stderr.
Result<std::unique_ptr<Backend>> load_with_progress(const local::LocalBackendOptions& options, bool quiet);

// "1.1B", "8.4M"
std::string short_count(std::uint64_t n);

// Events of one request, waited for by the thread that reads them.
class EventQueue final : public EventSink {
 public:
  bool push(Event event) noexcept override;
  // The next event, or nullopt after `wait` without one. Resumes the ticket when a pause has been read off.
  std::optional<Event> next(Ticket& ticket, std::chrono::milliseconds wait);

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Event> events_;  // mutex_
  bool paused_ = false;       // mutex_
};

}  // namespace flyball::cli
