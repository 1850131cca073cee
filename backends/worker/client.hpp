// The daemon's side of a worker process: a Backend whose engine is `flyball engine` behind a socketpair.
// Lives on one io_context; every call and every EventSink::push happens on that context's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "backends/backend.hpp"
#include "backends/memory_need.hpp"
#include "config/engine_kinds.hpp"
#include "config/error.hpp"

namespace flyball::worker {

struct WorkerOptions {
  std::string model_id;
  std::string model_path;  // "" means the embedded demo model
  std::string backend{config::kCpu.id};
  std::vector<std::string> device_ids;  // of kinds with devices: those to open and no others; none: the best GPU
  std::string cache_dir;                // "": none
  std::string kv_type = "f16";          // or q8_0
  std::string kv_spill_dir;             // of KV on disk, of which there is kv_spill_bytes in all; 0: none
  std::uint64_t kv_spill_bytes = 0;
  std::string sha256;  // "" or what the file must hash to
  std::uint32_t threads = 0, context = 0, max_sequences = 8;
  std::int32_t nice = 0;              // of the process
  bool lock_memory = false;           // weights and KV
  bool yields = false;                // hold() stops any step
  bool own_memory = false;            // its devices have memory apart from the machine's
  std::uint64_t memory_capacity = 0;  // of all engines together; 0: what is free decides
  std::uint64_t expert_bytes = 0;     // cpu: for a mixture's experts; 0: three quarters of what is free
  std::string executable = "/proc/self/exe";
  std::chrono::milliseconds ready_timeout{60'000};
  std::chrono::milliseconds heartbeat{1'000}, heartbeat_timeout{10'000};
  // Requests that wait on the engine (not on their own slow reader) and no scheduler step for this long: the
  // engine is wedged and its process is killed. Above any single step of a large model on a small machine.
  std::chrono::milliseconds stall_timeout{120'000};
};

// Which model an engine's process loads, and how, as the words of its command line: of `flyball engine`, and
// of `flyball measure`.
std::vector<std::string> engine_words(const WorkerOptions& options);

class WorkerClient : public Backend {
 public:
  struct Callbacks {
    // Once, before `ready`: it waits for grant(). Absent: whatever it asks for is granted.
    std::function<void(const MemoryNeed&)> needs = {};
    std::function<void()> ready;  // once; info() is valid from here on
    std::function<void(Error)>
        died;  // once, last; every open request has had worker_died (or the real cause)
    // The last request open on it has ended; within a call to it or an event of it.
    std::function<void()> idle = {};
  };
  // Spawns the process and returns at once. model_unavailable: no process could be made.
  // Destruction kills the process and calls nobody back.
  static Result<std::unique_ptr<WorkerClient>> spawn(boost::asio::io_context& io,
                                                     const WorkerOptions& options, Callbacks callbacks);
  // The answer to `needs`: the load begins, and its ready_timeout.
  virtual void grant(std::uint64_t kv_bytes) = 0;
  virtual int pid() const noexcept = 0;
  // Ready and not on its way out. A worker that was given up, or whose socket closed, accepts nothing any
  // more while its process takes its time to end; `died` follows.
  virtual bool accepting() const noexcept = 0;
  // Accepting, and no request has been open on it since then. Absent: neither.
  virtual std::optional<TimePoint> idle_since() const noexcept = 0;
  // How long requests have waited on the engine without a scheduler step; 0 while it makes progress or is
  // idle.
  virtual std::chrono::milliseconds without_progress() const noexcept = 0;
};

}  // namespace flyball::worker
