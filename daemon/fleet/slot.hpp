// One engine that the fleet may run: its entry of the configuration, its process and who waits for it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "backends/worker/client.hpp"
#include "config/engine_settings.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/fleet/governor.hpp"
#include "daemon/fleet/lifecycle.hpp"

namespace flyball::fleet {

// One (model, engine): the shared engine of a kind, or one of its own for a profile.
struct Slot {
  Slot(boost::asio::io_context& io, config::ModelEntry e, std::string b,
       std::optional<config::EngineSettings> settings, bool device_memory, const config::WorkerLimits& limits)
      : entry(std::move(e)),
        backend(std::move(b)),
        own(std::move(settings)),
        own_memory(device_memory),
        lifecycle(limits),
        timer(io) {}
  config::ModelEntry entry;
  std::string backend;                        // "cpu", or "cpu:night"
  std::optional<config::EngineSettings> own;  // of an engine of its own; absent: it is shared
  bool own_memory;  // its model lies in a device's own memory, not in the machine's
  Lifecycle lifecycle;
  std::uint64_t stamp = 0;  // of the file, or the directory, when it was last loaded
  std::unique_ptr<worker::WorkerClient> client;
  Governor::Id id = 0;             // of its process, the latest
  std::uint64_t margin_bytes = 0;  // asked for beside what it is predicted to hold
  TimePoint began{}, asked{};      // when its process was started, and when that asked for memory
  TimePoint granted{};             // when it was told to load
  bool ready = false;
  bool draining = false;
  bool preloaded = false;  // started, and started again, without a request
  bool background = false;  // its process was started in the background, and no request has come since
  bool kept = false;        // it was asked for since the latest reload: a profile may keep it loaded
  bool held = false;        // it yields to people
  bool unloaded = false;   // by the operator, and not started since
  bool opened = false;     // to the fleet's watcher
  // No request has been handed to the engine since then; what the watcher started there is none. Absent: the
  // client's idle_since() says it.
  std::optional<TimePoint> unused_since;
  bool unload_next = false;  // the next process ends when it has answered the requests that wait for it
  std::vector<std::function<void()>> when_ended;  // of the process that is there
  std::vector<Fleet::Acquired> waiters;
  std::vector<Asker> askers;  // who wait for this load
  // For whom it is loaded: them; without anybody, or to be there always, everybody.
  std::vector<Asker> load_for() const { return preloaded || askers.empty() ? std::vector<Asker>{{}} : askers; }
  // No other engine's load ends it, nor want of work.
  bool is_pinned() const noexcept {
    return !background && (preloaded || entry.pin || (own && own->keep_loaded && kept));
  }
  struct Refusal {
    Error error;
    std::vector<Asker> of = {};  // others would not be refused; empty: everybody would
  };
  std::optional<Refusal> refused;   // by the governor; its process ends
  boost::asio::steady_timer timer;  // of a restart, or of the room that is made
  struct Room {
    std::weak_ptr<Slot> from;  // ends; then this one loads again
    Error cause;               // of the load that failed: the answer if it does not end
  };
  std::optional<Room> room;  // absent: no load waits for another engine's end
};

// Precondition: the slot has a client. Absent: the engine takes no requests, or one is open on it.
std::optional<TimePoint> idle_since(const Slot& slot);
// As it is now, but for its account.
WorkerStatus status_of(const Slot& slot, TimePoint now);
// The process that is there loads the same, the same way.
bool same_engine(const config::ModelEntry& a, const config::ModelEntry& b);
// What an engine of this model is told of it; which engine, and where its model lies, is not settled by that.
worker::WorkerOptions engine_options(const config::ModelEntry& entry);
// device_ids: of a GPU engine those to open; null: another kind of engine.
worker::WorkerOptions worker_options(const Slot& slot, const std::vector<std::string>* device_ids,
                                     const config::WorkerLimits& limits, const config::KvSpill& kv_spill);
// need: {} of one that did not ask. idle_unload: of models that say nothing of it; 0: never.
MemoryClaim claim_of(const Slot& slot, std::size_t pool, const MemoryNeed& need,
                     std::chrono::milliseconds idle_unload);

// Precondition of both: the slot has a client.
void log_ready(const Slot& slot);
void tell_left_behind(const Slot& slot);

}  // namespace flyball::fleet
