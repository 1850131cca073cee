// The engine workers: one process per (model, backend), started on first use, restarted with backoff,
// disabled when they keep dying. Lives on the daemon's io_context thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "backends/backend.hpp"
#include "config/config.hpp"

namespace flyball::fleet {

enum class WorkerState : std::uint8_t { stopped, starting, ready, backoff, disabled };
const char* to_string(WorkerState state) noexcept;

struct WorkerStatus {
  std::string model, backend;
  WorkerState state = WorkerState::stopped;
  int pid = 0;
  std::uint32_t restarts = 0;
  std::string last_error;
  BackendInfo info;  // once it has been ready
  BackendLoad load;
  std::chrono::milliseconds without_progress{0};  // requests wait on it and no step was made for this long
};

// What the router needs of the fleet; tests and the router benchmark put an instant fake engine behind it.
struct Fleet {
  virtual ~Fleet() = default;
  using Acquired = std::function<void(Result<Backend*>)>;
  // The ready backend, started if need be; one load serves a burst of waiters. The callback runs later on the
  // io_context (never inside this call), once: model_invalid and model_unsupported (not loaded
  // again), model_unavailable, insufficient_memory (after idle engines were ended, if there were any, and
  // the load tried again). The pointer is valid until that worker dies (its open requests then get
  // worker_died events first) or the loop goes on without a request open on it.
  virtual void acquire(const std::string& model, const std::string& backend, Acquired callback) = 0;
  virtual std::vector<WorkerStatus> status() const = 0;
  // `drained` is called when every worker has ended, at the latest some seconds after the deadline.
  virtual void drain(TimePoint deadline, std::function<void()> drained) = 0;
  // Models whose entry is unchanged keep their worker; the others' workers finish what runs and end.
  virtual void reload(const config::Config&) {}
};

struct FleetOptions {
  std::string executable = "/proc/self/exe";  // run as `<executable> engine ...`; tests put a scripted engine there
  // Ids of the devices that the probe approved, over which an OpenCL engine splits its model; none: there is
  // no such engine.
  std::vector<std::string> opencl_devices = {};
  std::vector<std::string> vulkan_devices = {};  // one at most
  // Engines whose models lie in devices' own memory alone: the end of one is no room for the others, nor the
  // reverse.
  std::vector<std::string> own_memory = {};
  // The engines that a model with `preload` starts with the daemon; absent: cpu. Asked again at a reload.
  std::function<std::vector<std::string>(const config::ModelEntry&)> preload_on = {};
};
std::unique_ptr<Fleet> make_worker_fleet(boost::asio::io_context& io, const config::Config& config,
                                         FleetOptions options = {});

}  // namespace flyball::fleet
