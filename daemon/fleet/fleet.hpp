// The engine workers: one process per (model, backend), where a backend is an engine kind ("cpu") or an
// engine of its own that a profile of the policy wants ("cpu:night"). Started on first use, restarted with
// backoff, disabled when they keep dying. Lives on the daemon's io_context thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "backends/backend.hpp"
#include "backends/memory_need.hpp"
#include "config/config.hpp"
#include "config/engine_settings.hpp"
#include "daemon/fleet/asker.hpp"
#include "daemon/fleet/file_stamp.hpp"

namespace flyball::fleet {

enum class WorkerState : std::uint8_t { stopped, starting, ready, backoff, disabled };
const char* to_string(WorkerState state) noexcept;

struct WorkerStatus {
  std::string model, backend;
  std::string group = {};  // of the model's entry: one model of it may be loaded
  WorkerState state = WorkerState::stopped;
  int pid = 0;
  std::uint32_t restarts = 0;
  std::string last_error;
  BackendInfo info;  // once it has been ready
  BackendLoad load;
  std::chrono::milliseconds without_progress{0};  // requests wait on it and no step was made for this long
  std::uint64_t account_bytes = 0;  // of the memory it lies in: predicted while it loads, then what it holds
  bool waits_for_memory = false;    // its process is there, and others have its memory
  std::chrono::milliseconds pause{0};  // until backoff or disabled ends
  bool load_refused = false;           // the backoff is of a load that failed: the next request tries again
  bool invalid = false;                // the model's file or entry is wrong: only a change of it helps
  bool was_ready = false;              // it has loaded the model's file as it now is
  std::optional<std::chrono::milliseconds> idle;  // ready, and without work for so long
  bool ending = false;    // it gets no new requests, and ends when its answers have ended
  bool held = false;      // it computes nothing while people's answers are computed on its cores or cards
  bool pinned = false;    // no other engine's load ends it
  bool spare = false;  // it was loaded in the background, and nobody has used it: its memory counts as free
  bool unloaded = false;  // the operator unloaded it, and nobody has asked for it since
};

// What one engine could ever have of a memory.
struct EngineMemory {
  std::string backend;
  std::uint64_t bytes = 0;  // 0: unknown
};

// What engines hold together of one memory.
struct PoolStatus {
  std::string name;
  std::uint64_t capacity = 0, accounted = 0;  // bytes
  std::uint64_t free = 0;                     // for engines, now: what others use is not
  std::size_t engines = 0, waiting = 0;
  std::vector<EngineMemory> backends = {};  // that draw from it alone; of the machine's: all that others lack
  std::uint64_t most_for_one = 0;           // for an engine, if all others but the pinned ones ended
};
struct MemoryStatus {
  std::vector<PoolStatus> pools;  // the machine's first
  std::uint64_t loads = 0, evictions = 0, idle_unloads = 0, pressure_unloads = 0, unloads = 0, waits = 0,
                refusals = 0;
  // Percent of the last 10 s in which somebody waited for the machine's memory. Absent: the system does not
  // say.
  std::optional<double> pressure;
  std::chrono::milliseconds age{0};  // since the system was asked what is free
  // What such an engine could be given now; absent: nothing is known of its memory.
  std::optional<std::uint64_t> free_for(const std::string& backend) const;
};

// Memory that was lent; with it goes what was taken of it.
struct Loan {
  virtual ~Loan() = default;  // it is given back
  virtual std::uint64_t kv_bytes() const = 0;
  virtual void holds(std::uint64_t bytes) = 0;  // loaded, in fact
};
struct NotLent {
  Error why;
  bool for_good = false;  // while PoolStatus::most_for_one of its pool stays as it is
};
using Lent = std::expected<std::unique_ptr<Loan>, NotLent>;

// What the router needs of the fleet; tests and the router benchmark put an instant fake engine behind it.
struct Fleet {
  virtual ~Fleet() = default;
  using Acquired = std::function<void(Result<Backend*>)>;
  // The ready backend, started if need be; one load serves a burst of waiters. The callback runs later on the
  // io_context (never inside this call), once: model_invalid and model_unsupported (not loaded
  // again), model_unavailable, insufficient_memory (after idle engines were ended, if there were any, and
  // the load tried again). The pointer is valid until that worker dies (its open requests then get
  // worker_died events first) or the loop goes on without a request open on it.
  // Where it has to be loaded, other models' engines end for it, those at work once they have had their turn
  // and their answers have ended; until then it waits.
  // A background asker delays, evicts and refuses nobody: it joins no other load, its load is answered with
  // insufficient_memory where the memory is not free or another load needs it, and its failures leave no
  // backoff, unless the model is invalid. The engine gives way to every load until a request uses it.
  virtual void acquire(const std::string& model, const std::string& backend, Acquired callback,
                       const Asker& asker = {}) = 0;
  // Ends the engines of a model on the operator's word (of `backend` alone unless it is ""), pinned ones,
  // too: an engine at work gets no new requests and ends when its answers have ended, one that loads once it
  // has answered the requests that wait for it. New requests load the model again. The callback runs later on
  // the io_context, once, when all of these have ended: with the engine kinds that did, none if the model was
  // not loaded. model_not_found; shutting_down.
  using Unloaded = std::function<void(Result<std::vector<std::string>>)>;
  virtual void unload(const std::string& model, const std::string& backend, Unloaded callback) = 0;
  // Hears which engines may be given work that must be in nobody's way. Called on the io_context, never
  // within the watcher's own calls to the fleet.
  struct Watcher {
    virtual ~Watcher() = default;
    // A loaded engine takes such work from now on. Another process has nothing of what an earlier one held.
    virtual void engine_opens(const std::string& model, const std::string& backend,
                              std::uint64_t process) = 0;
    // It takes none any more: it has died, is to end, or others wait for its memory. The watcher destroys its
    // tickets there before it returns.
    virtual void engine_closes(const std::string& model, const std::string& backend) = 0;
  };
  virtual void watch(Watcher*) {}  // one at most; it outlives the fleet, or watch(nullptr) is called
  // An engine that is open to the watcher; nullptr: it is not. Work that the watcher starts there is no use
  // of the engine: it stays spare if it is, and counts as idle since its last request of anybody else.
  virtual Backend* open_engine(const std::string& /*model*/, const std::string& /*backend*/) {
    return nullptr;
  }
  // The prefixes that a loaded engine keeps (Backend::kept_prefixes).
  virtual std::vector<KeptPrefixState> kept_prefixes(const std::string& /*model*/,
                                                     const std::string& /*backend*/) const {
    return {};
  }
  // The engine kinds on which `preload` loads the model.
  virtual std::vector<std::string> preload_engines(const config::ModelEntry& model) = 0;
  virtual MemoryStatus memory() { return {}; }  // asks the system once a second at most
  // For a process that loads a model beside the engines, to measure it: of what is free now, and nobody ends
  // for it. `give_back` is called, once at most and from the loop, when it is to end at once: somebody asked
  // for memory, or there is too little. insufficient_memory: it is not free.
  virtual Lent lend(const config::ModelEntry&, const std::string& /*backend*/, const MemoryNeed&,
                    std::function<void(const std::string& why)> /*give_back*/) {
    return std::unexpected(
        NotLent{{ErrorCode::insufficient_memory, "This fleet lends no memory.", "", ""}, true});
  }
  virtual std::vector<WorkerStatus> status() const = 0;
  // The engine kinds that this machine has, by id.
  virtual std::vector<std::string> engines() const { return {}; }
  // The engines of their own that profiles of the policy want, from the next reload() on: an engine with
  // other settings, or that no profile wants any more, ends there as one of a changed model does.
  virtual void set_own_engines(config::OwnEngines) {}
  // The ids of the profiles' engines whose kind this machine has.
  virtual std::vector<std::string> own_engines() const { return {}; }
  // Answers that people wait for are computed on the cores or cards of these engine kinds: engines of their
  // own that yield compute nothing there until it is called again.
  virtual void hold_yielding(const std::vector<std::string>& /*kinds*/) {}
  // `drained` is called when every worker has ended, at the latest some seconds after the deadline.
  virtual void drain(TimePoint deadline, std::function<void()> drained) = 0;
  // Models keep their worker whose entry is unchanged and whose file, where `files` has its stamp, is the one
  // that was loaded (or has a pinned digest: no other file can be loaded). The others' workers finish what
  // runs and end; requests that wait for one wait for the next.
  virtual void reload(const config::Config&, const FileStamps& /*files*/) {}
};

// Memory that is not the machine's.
struct DeviceMemory {
  std::string name;
  std::uint64_t bytes = 0;             // of all its devices; 0: unknown
  std::vector<EngineMemory> backends;  // whose models lie there alone, each on the devices that it opens
};

// What the system says of its memory.
struct MachineMemory {
  std::uint64_t total = 0, available = 0;  // bytes; 0: it does not say
  std::optional<double> pressure = {};     // MemoryStatus::pressure
  bool short_of_memory = false;
};

// A load that ended well, of an engine or of what is measured: what the governor granted by prediction, and
// what its process then reports.
struct LoadReport {
  std::string model, backend;
  std::uint64_t predicted_bytes = 0, actual_bytes = 0;  // predicted: without the margin
  std::chrono::duration<double, std::milli> took{0};  // from its process's start, without its wait for memory
};

struct FleetOptions {
  std::string executable =
      "/proc/self/exe";  // run as `<executable> engine ...`; tests put a scripted engine there
  // Ids of the devices that the probe approved, over which an engine of a kind with devices splits its model;
  // none: there is no such engine.
  config::PerKind<std::vector<std::string>> devices = {};
  std::vector<DeviceMemory> device_memory = {};
  std::function<MachineMemory()> machine_memory = {};  // absent: this machine's; asked now and then
  // Bytes that a CPU engine's process has taken of the machine's memory and that the system could not have
  // back; absent: what the system says of it.
  std::function<std::optional<std::uint64_t>(int pid)> touched_memory = {};
  // The engines that a model with `preload` starts with the daemon; absent: the CPU engine. Asked again at a
  // reload.
  std::function<std::vector<std::string>(const config::ModelEntry&, const MemoryStatus&)> preload_on = {};
  // Engines of any model that start with the daemon, too, such as those that profiles keep loaded for an app;
  // absent: none. Asked again at a reload.
  std::function<std::vector<std::string>(const config::ModelEntry&, const MemoryStatus&)> critical_on = {};
  // Share of the bytes predicted of a model on this engine that is asked for beside them; absent: none.
  std::function<double(const std::string& backend)> margin = {};
  std::function<void(const LoadReport&)> on_loaded = {};
  config::OwnEngines own_engines = {};  // that profiles of the policy want
};
std::unique_ptr<Fleet> make_worker_fleet(boost::asio::io_context& io, const config::Config& config,
                                         FleetOptions options = {});

}  // namespace flyball::fleet
