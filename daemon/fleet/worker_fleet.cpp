// Turns the decisions of Lifecycle into processes: spawns, timers, and answers to those who wait.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/fleet/file_stamp.hpp"
#include "daemon/fleet/fleet_memory.hpp"
#include "daemon/fleet/loans.hpp"
#include "daemon/fleet/pools.hpp"
#include "daemon/fleet/slot.hpp"

namespace flyball::fleet {
namespace {

namespace asio = boost::asio;
using std::chrono::steady_clock;
using worker::WorkerClient;

// Requests that wait for one engine to come up; the gateway's own queue limit is below it.
constexpr std::size_t kMaxWaiters = 65'536;
// Calls that wait for one engine to end. An operator's script that asks again and again must not fill the
// memory.
constexpr std::size_t kMaxUnloads = 64;
// Beside a heartbeat, from the deadline of a drain to its end, whatever the processes do. A worker's client
// kills it 2 s after the deadline and at the next heartbeat; one that does not end then is in the kernel's
// hands (a driver's, a disk's).
constexpr std::chrono::seconds kDrainGrace{5};
// Every model has a slot on it, whether it is loaded or not, and it is preloaded where nobody says on which
// engines.
const std::string kFirstBackend(config::kCpu.id);
class WorkerFleet final : public Fleet {
 public:
  WorkerFleet(asio::io_context& io, const config::Config& config, FleetOptions options)
      : io_(io),
        limits_(config.worker),
        cache_dir_(config.cache_dir),
        kv_spill_(config.kv_spill),
        own_(std::move(options.own_engines)),
        options_(std::move(options)),
        memory_(config.memory, options_, [this] { return processes(); }),
        governor_(memory_.governor()),
        drain_timer_(io),
        look_timer_(io) {
    for (const config::ModelEntry& entry : config.models) add(entry, kFirstBackend);
    // Later, on the loop, because nothing may be called from inside the constructor.
    asio::post(io_, [this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) preload();
    });
  }

  void acquire(const std::string& model, const std::string& backend, Acquired callback,
               const Asker& asker) override {
    asio::post(io_, [this, alive = std::weak_ptr(alive_), model, backend, asker,
                     callback = std::move(callback)]() mutable {
      if (alive.expired()) return;
      acquire_now(model, backend, std::move(callback), asker);
    });
  }

  void unload(const std::string& model, const std::string& backend, Unloaded callback) override {
    asio::post(
        io_, [this, alive = std::weak_ptr(alive_), model, backend, callback = std::move(callback)]() mutable {
          if (!alive.expired()) unload_now(model, backend, std::move(callback));
        });
  }

  void watch(Watcher* watcher) override {
    watcher_ = watcher;
    for (const auto& slot : slots_) slot->opened = false;
    look_soon();
  }

  Backend* open_engine(const std::string& model, const std::string& backend) override {
    const auto slot = find(model, backend);
    if (!slot || !slot->opened || !slot->client || !slot->client->accepting()) return nullptr;
    if (!slot->unused_since) slot->unused_since = slot->client->idle_since();
    return slot->client.get();
  }

  std::vector<KeptPrefixState> kept_prefixes(const std::string& model,
                                             const std::string& backend) const override {
    const auto slot = find(model, backend);
    return slot && slot->client && slot->ready ? slot->client->kept_prefixes()
                                               : std::vector<KeptPrefixState>{};
  }

  std::vector<std::string> preload_engines(const config::ModelEntry& model) override {
    return options_.preload_on ? options_.preload_on(model, memory())
                               : std::vector<std::string>{kFirstBackend};
  }

  Lent lend(const config::ModelEntry& model, const std::string& backend, const MemoryNeed& need,
            std::function<void(const std::string&)> give_back) override {
    if (draining_)
      return std::unexpected(NotLent{{ErrorCode::shutting_down, "The daemon is shutting down.", "", ""}});
    loans_.ask(++last_id_, model, backend, need, std::move(give_back));
    const Governor::Id id = last_id_;
    look();
    return loans_.answer(id);
  }

  MemoryStatus memory() override { return memory_.status(steady_clock::now()); }

  std::vector<WorkerStatus> status() const override {
    std::vector<WorkerStatus> all;
    const auto now = steady_clock::now();
    for (const auto& slot : slots_) {
      WorkerStatus s = status_of(*slot, now);
      if (slot->client) {
        s.account_bytes = governor_.bytes(slot->id);
        s.waits_for_memory = governor_.waits(slot->id);
        s.ending |= slot->ready && (governor_.held(slot->id) || governor_.is_unwanted(slot->id));
      }
      all.push_back(std::move(s));
    }
    return all;
  }

  std::vector<std::string> engines() const override {
    std::vector<std::string> out;
    for (const config::EngineKind& kind : config::kEngineKinds)
      if (!kind.has_devices() || !options_.devices[kind].empty()) out.emplace_back(kind.id);
    return out;
  }

  void set_own_engines(config::OwnEngines own) override { own_ = std::move(own); }

  void hold_yielding(const std::vector<std::string>& kinds) override {
    held_kinds_ = kinds;
    for (const auto* slots : {&slots_, &retired_})
      for (const auto& slot : *slots) hold(*slot);
  }

  std::vector<std::string> own_engines() const override {
    std::vector<std::string> out;
    for (const auto& [id, settings] : own_)
      if (const auto* devices = devices_of(id); devices == nullptr || !devices->empty()) out.push_back(id);
    return out;
  }

  void drain(TimePoint deadline, std::function<void()> drained) override {
    draining_ = true;
    look_timer_.cancel();
    drained_ = std::move(drained);
    for (const auto& slot : slots_) stop(*slot, deadline);
    drain_timer_.expires_at(deadline + limits_.heartbeat + kDrainGrace);
    drain_timer_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code error) {
      if (!error && !alive.expired()) give_up_drain();
    });
    asio::post(io_, [this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) report_drained();
    });
  }

  void reload(const config::Config& config, const FileStamps& files) override {
    limits_ = config.worker;
    // Whoever switches it off wants no prompt on the disk from here on.
    const bool spills_alike =
        kv_spill_.directory == config.kv_spill.directory && kv_spill_.max_bytes == config.kv_spill.max_bytes;
    kv_spill_ = config.kv_spill;
    memory_.set(config.memory);
    const auto deadline = steady_clock::now() + config.drain_timeout;
    std::vector<std::shared_ptr<Slot>> kept;
    std::vector<std::shared_ptr<Slot>> next;  // engines that requests wait for now
    for (auto& slot : std::exchange(slots_, {})) {
      auto entry = std::ranges::find(config.models, slot->entry.id, &config::ModelEntry::id);
      if (is_gone(slot->backend)) entry = config.models.end();
      if (entry != config.models.end() && spills_alike && same_engine(*entry, slot->entry) &&
          slot->own == settings_of(slot->backend) && !is_replaced(*slot, files)) {
        slot->entry = *entry;
        slot->lifecycle.set_limits(limits_);
        slot->lifecycle.forgive();
        kept.push_back(std::move(slot));
        continue;
      }
      if (entry != config.models.end() && !slot->waiters.empty()) next.push_back(successor(*entry, *slot));
      stop(*slot, slot->ready ? deadline : steady_clock::now());  // no request wants the load of what was
      if (slot->client) retired_.push_back(std::move(slot));
    }
    slots_ = std::move(kept);
    slots_.insert(slots_.end(), next.begin(), next.end());
    for (const config::ModelEntry& entry : config.models) {
      if (find(entry.id, kFirstBackend) == nullptr) add(entry, kFirstBackend);
    }
    for (const auto& slot : next)
      if (slot->lifecycle.wanted(steady_clock::now()).spawn) spawn(slot);
    preload();
    for (const auto& slot : slots_) memory_.keep(*slot);
    look_soon();
  }

 private:
  std::shared_ptr<Slot> find(const std::string& model, const std::string& backend) const {
    const auto it = std::ranges::find_if(
        slots_, [&](const auto& s) { return s->entry.id == model && s->backend == backend; });
    return it == slots_.end() ? nullptr : *it;
  }
  // The settings of a profile's engine; absent: the engine is shared.
  std::optional<config::EngineSettings> settings_of(const std::string& backend) const {
    const auto own = own_.find(backend);
    return own == own_.end() ? std::nullopt : std::optional(own->second);
  }
  // It is called after a profile, and no profile wants it.
  bool is_gone(const std::string& backend) const {
    return config::kind_of(backend) != backend && !own_.contains(backend);
  }
  std::shared_ptr<Slot> make(const config::ModelEntry& entry, const std::string& backend) {
    return std::make_shared<Slot>(io_, entry, backend, settings_of(backend), memory_.has_own_memory(backend),
                                  limits_);
  }
  std::shared_ptr<Slot> add(const config::ModelEntry& entry, const std::string& backend) {
    return slots_.emplace_back(make(entry, backend));
  }
  // A slot that takes over the requests which wait for this slot's load.
  std::shared_ptr<Slot> successor(const config::ModelEntry& entry, Slot& slot) {
    auto next = make(entry, slot.backend);
    next->waiters = std::exchange(slot.waiters, {});
    next->askers = std::exchange(slot.askers, {});
    next->unload_next = slot.unload_next || slot.unloaded;
    return next;
  }
  // Whether a process has loaded, or loads, another file than the one that is there now.
  static bool is_replaced(const Slot& slot, const FileStamps& files) {
    const auto now = files.find(slot.entry.id);
    if (!slot.client || now == files.end() || now->second == slot.stamp) return false;
    if (slot.entry.sha256.empty())
      spdlog::info(
          "model file replaced, the engine ends when its answers have ended or after drain_timeout: {} | "
          "model={} backend={}",
          slot.entry.path.string(), slot.entry.id, slot.backend);
    else
      spdlog::warn(
          "model file replaced, the engine goes on with the bytes that sha256 names: {} | model={} "
          "backend={}",
          slot.entry.path.string(), slot.entry.id, slot.backend);
    return slot.entry.sha256.empty();
  }
  void preload() {
    std::vector<config::ModelEntry> models;
    for (const auto& slot : slots_) {
      slot->preloaded = slot->kept = false;
      if (slot->backend == kFirstBackend) models.push_back(slot->entry);
    }
    for (const config::ModelEntry& model : models) {
      auto engines = model.preload ? preload_engines(model) : std::vector<std::string>{};
      if (options_.critical_on)
        for (std::string& engine : options_.critical_on(model, memory()))
          if (std::ranges::find(engines, engine) == engines.end()) engines.push_back(std::move(engine));
      for (const std::string& backend : engines) {
        if (const auto slot = find(model.id, backend)) slot->unloaded = false;
        acquire_now(model.id, backend, {}, {});
        if (const auto slot = find(model.id, backend)) slot->preloaded = true;
      }
    }
  }

  // That an engine is to open; nullptr: it has no devices.
  const std::vector<std::string>* devices_of(const std::string& backend) const {
    const config::EngineKind* const kind = config::find_engine_kind(config::kind_of(backend));
    return kind != nullptr && kind->has_devices() ? &options_.devices[*kind] : nullptr;
  }

  void acquire_now(const std::string& model, const std::string& backend, Acquired callback,
                   const Asker& asker) {
    if (draining_) return answer(callback, fail(ErrorCode::shutting_down, "The daemon is shutting down."));
    if (is_gone(backend))
      return answer(callback, fail(ErrorCode::model_unavailable,
                                   "There is no engine " + backend +
                                       ": no profile of the policy in force has it (`engine: own`).",
                                   "backend"));
    if (const auto* devices = devices_of(backend); devices != nullptr && devices->empty())
      return answer(callback,
                    fail(ErrorCode::model_unavailable,
                         "No " + std::string(config::find_engine_kind(config::kind_of(backend))->name) +
                             " device ran the probe's kernel.",
                         "backend"));
    std::shared_ptr<Slot> slot = find(model, backend);
    if (!slot) {
      const auto any = std::ranges::find_if(slots_, [&](const auto& s) { return s->entry.id == model; });
      if (any == slots_.end()) {
        return answer(callback,
                      fail(ErrorCode::model_not_found, "There is no model " + model + ".", "model"));
      }
      slot = add((*any)->entry, backend);
    }
    if (!asker.background && std::exchange(slot->background, false)) {
      governor_.join(slot->id, asker);
      memory_.keep(*slot);
    }
    // One that is ending is waited for: its successor, or the decision to start none, answers.
    if (!asker.background && !std::exchange(slot->kept, true) && slot->client) memory_.keep(*slot);
    const bool held = governor_.held(slot->id) || governor_.is_unwanted(slot->id);
    if (slot->ready && slot->client->accepting() && !held) {
      if (!asker.background) slot->unused_since.reset();
      return answer(callback, slot->client.get());
    }
    if (slot->lifecycle.invalid() && slot->stamp != file_stamp(slot->entry.path)) slot->lifecycle.forgive();
    if (asker.background &&
        (slot->unloaded || slot->lifecycle.state(steady_clock::now()) != WorkerState::stopped))
      return answer(callback, fail(ErrorCode::model_unavailable, "The engine does not stand still."));
    const Lifecycle::Wanted wanted = slot->lifecycle.wanted(steady_clock::now());
    if (wanted.refuse) return answer(callback, std::unexpected(*wanted.refuse));
    if (slot->waiters.size() >= kMaxWaiters) {
      return answer(callback,
                    fail(ErrorCode::overloaded,
                         std::to_string(kMaxWaiters) + " requests wait for model " + model + " to load."));
    }
    if (callback) slot->waiters.push_back(std::move(callback));
    if (join(slot->askers, asker) && slot->client) {
      governor_.join(slot->id, asker);
      look_soon();
    }
    if (wanted.spawn) spawn(slot);
  }
  void unload_now(const std::string& model, const std::string& backend, Unloaded callback) {
    if (draining_) return callback(fail(ErrorCode::shutting_down, "The daemon is shutting down."));
    if (find(model, kFirstBackend) == nullptr)
      return callback(fail(ErrorCode::model_not_found, "There is no model " + model + ".", "model"));
    struct Unloading {
      std::vector<std::string> engines;
      std::size_t left = 0;
      Unloaded callback;
    };
    const auto unloading = std::make_shared<Unloading>(Unloading{{}, 0, std::move(callback)});
    bool refused = false;
    for (const auto& slot : slots_) {
      if (slot->entry.id != model || (!backend.empty() && slot->backend != backend)) continue;
      slot->unloaded = true;
      if (!slot->client) {
        unload_before_it_starts(*slot);
        continue;
      }
      if (slot->when_ended.size() >= kMaxUnloads) {
        refused = true;
        continue;
      }
      unloading->engines.push_back(slot->backend);
      ++unloading->left;
      slot->when_ended.emplace_back([unloading] {
        if (--unloading->left == 0) unloading->callback(std::move(unloading->engines));
      });
      governor_.unload(slot->id);
      close(*slot);
      if (!slot->ready && (slot->waiters.empty() || slot->background))
        stop(*slot, steady_clock::now());  // no request wants this load
    }
    if (refused && unloading->left == 0)
      return unloading->callback(
          fail(ErrorCode::overloaded,
               std::to_string(kMaxUnloads) + " unloads of model " + model + " wait for its end."));
    if (unloading->left == 0) return unloading->callback(std::vector<std::string>{});
    look_soon();
  }
  // Its load failed, and is about to be tried again after a pause, or when another engine has ended.
  void unload_before_it_starts(Slot& slot) {
    if (!slot.waiters.empty()) {
      slot.unload_next = true;
    } else if (const auto room = std::exchange(slot.room, std::nullopt)) {
      slot.timer.cancel();
      slot.lifecycle.ended(steady_clock::now(), room->cause, true);
    }
  }
  bool ends(const Slot& slot) const {
    return slot.draining || governor_.held(slot.id) || governor_.is_unwanted(slot.id);
  }
  // One that has to end finishes what it has: others wait for its memory.
  void hold(Slot& slot) const {
    if (!slot.client || !slot.own || !slot.own->yields) return;
    slot.held =
        !ends(slot) && std::ranges::find(held_kinds_, config::kind_of(slot.backend)) != held_kinds_.end();
    slot.client->hold(slot.held);
  }
  static void answer(const Acquired& callback, Result<Backend*> result) {
    if (callback) callback(std::move(result));
  }
  static void answer_all(Slot& slot, const Result<Backend*>& result) {
    slot.askers.clear();
    for (const Acquired& callback : std::exchange(slot.waiters, {})) answer(callback, result);
  }

  void spawn(const std::shared_ptr<Slot>& slot) {
    const config::ModelEntry& entry = slot->entry;
    worker::WorkerOptions options = worker_options(*slot, devices_of(slot->backend), limits_, kv_spill_);
    options.memory_capacity = governor_.most_for_one(kMachinePool);
    options.cache_dir = cache_dir_.string();
    options.executable = options_.executable;
    slot->stamp = file_stamp(entry.path);
    slot->draining = false;
    slot->unloaded = false;
    slot->opened = false;
    slot->unused_since.reset();
    slot->background =
        !slot->preloaded && !slot->askers.empty() && std::ranges::all_of(slot->askers, &Asker::background);
    slot->began = steady_clock::now();
    const std::weak_ptr<Slot> weak = slot;
    slot->id = ++last_id_;
    if (std::exchange(slot->unload_next, false)) governor_.unload(slot->id);
    const auto with_slot = [weak](auto use) {
      if (const auto s = weak.lock()) use(s);
    };
    auto client = WorkerClient::spawn(
        io_, options,
        {.needs = [this, with_slot](
                      const MemoryNeed& need) { with_slot([&](const auto& s) { on_need(*s, need); }); },
         .ready = [this, with_slot] { with_slot([&](const auto& s) { on_ready(*s); }); },
         .died = [this,
                  with_slot](const Error& cause) { with_slot([&](const auto& s) { on_died(s, cause); }); },
         .idle = [this] { look_soon(); }});
    if (!client) {
      spdlog::error("engine cannot be started: {} | model={} backend={}", client.error().message, entry.id,
                    slot->backend);
      // The machine's trouble (too many processes or open files), not the model's.
      return on_died(slot, {ErrorCode::model_unavailable, client.error().message, "", client.error().where});
    }
    slot->client = std::move(*client);
    hold(*slot);
    spdlog::info("engine starting, pid {} | model={} backend={}", slot->client->pid(), entry.id,
                 slot->backend);
  }

  void on_need(Slot& slot, const MemoryNeed& need) {
    slot.asked = steady_clock::now();
    memory_.ask(slot, need, steady_clock::now());
    look_soon();
  }

  void on_ready(Slot& slot) {
    slot.lifecycle.ready(steady_clock::now());
    slot.ready = true;
    const BackendInfo& info = slot.client->info();
    const auto report = memory_.ready(slot, info, steady_clock::now());
    if (report && options_.on_loaded) options_.on_loaded(*report);
    log_ready(slot);
    answer_all(slot, slot.client.get());
    look_soon();
  }

  void on_died(const std::shared_ptr<Slot>& slot, const Error& cause) {
    // The client is in the middle of calling us: it goes when it has returned.
    if (slot->client) asio::post(io_, [dead = std::shared_ptr<WorkerClient>(std::move(slot->client))] {});
    slot->ready = false;
    close(*slot);
    const bool was_background = std::exchange(slot->background, false);
    governor_.gone(slot->id);
    look_soon();
    const auto refused = std::exchange(slot->refused, std::nullopt);
    if (refused && !slot->draining) {
      on_refused(slot, *refused);
    } else if (slot->draining) {
      slot->lifecycle.ended(steady_clock::now(), cause, true);
      if (!draining_) follow(slot);
    } else if (was_background) {
      on_background_failed(slot, cause);
    } else if (!make_room(slot, cause)) {
      on_failed(slot, cause);
    }
    for (const auto& ended : std::exchange(slot->when_ended, {})) ended();
    std::erase(retired_, slot);
    report_drained();
  }

  // What one app may not have is no failure that others meet for a while, too.
  void on_refused(const std::shared_ptr<Slot>& slot, const Slot::Refusal& refused) {
    if (refused.of.empty()) return on_failed(slot, refused.error);
    slot->lifecycle.ended(steady_clock::now(), refused.error, true);
    if (slot->load_for() == refused.of) return answer_all(*slot, std::unexpected(refused.error));
    if (slot->lifecycle.wanted(steady_clock::now()).spawn) spawn(slot);
  }

  // No request waited for the engine, so none is to meet its failure: it is not started again, and leaves
  // neither a death nor a backoff. A final error stays, since each load would end with it.
  void on_background_failed(const std::shared_ptr<Slot>& slot, const Error& cause) {
    spdlog::warn("engine failed in the background: {}{} | model={} backend={} code={}", cause.message,
                 cause.where.empty() ? "" : " (" + cause.where + ")", slot->entry.id, slot->backend,
                 to_string(cause.code));
    slot->lifecycle.ended(steady_clock::now(), cause, !Lifecycle::is_final(cause.code));
    answer_all(*slot, std::unexpected(cause));
  }

  // Of a load or of an engine, and no room is made for it.
  void on_failed(const std::shared_ptr<Slot>& slot, const Error& cause) {
    const auto now = steady_clock::now();
    const Lifecycle::Ended ended = slot->lifecycle.ended(now, cause, false);
    spdlog::error("{}{} | model={} backend={} code={}", cause.message,
                  cause.where.empty() ? "" : " (" + cause.where + ")", slot->entry.id, slot->backend,
                  to_string(cause.code));
    if (slot->lifecycle.state(now) == WorkerState::disabled)
      spdlog::error("engine disabled | model={} backend={}", slot->entry.id, slot->backend);
    if (ended.fail_waiters) answer_all(*slot, std::unexpected(*ended.fail_waiters));
    if (ended.restart_at) arm(slot, *ended.restart_at, &WorkerFleet::restart);
  }

  // A load failed for want of memory, and another engine ends so that it can be tried again. False: it is not
  // tried again.
  bool make_room(const std::shared_ptr<Slot>& slot, const Error& cause) {
    const auto now = steady_clock::now();
    const auto wanted_at = slot->lifecycle.wants_room(now, cause);
    if (draining_ || !wanted_at) return false;
    auto eviction = memory_.make_room(*slot, *wanted_at, uses(), now);
    if (!eviction) return false;
    spdlog::info("load failed, it is tried again with more room: {} | model={} backend={}", cause.message,
                 slot->entry.id, slot->backend);
    slot->lifecycle.room_made();
    slot->room = Slot::Room{*std::ranges::find(slots_, eviction->id, id_of), cause};
    arm(slot, now + limits_.heartbeat + kDrainGrace, &WorkerFleet::give_up_room);
    act(*eviction);
    return true;
  }
  void give_up_room(const std::shared_ptr<Slot>& slot) {
    const auto room = std::exchange(slot->room, std::nullopt);
    if (!room) return;
    if (const auto from = room->from.lock(); from && from->client) tell_left_behind(*from);
    on_failed(slot, room->cause);
  }
  // An engine ended because it was told to: whose load waited for its memory loads again, and so does it, if
  // it was asked for meanwhile.
  void follow(const std::shared_ptr<Slot>& ended) {
    const auto waits =
        std::ranges::find_if(slots_, [&](const auto& s) { return s->room && s->room->from.lock() == ended; });
    if (waits != slots_.end()) {
      const auto slot = *waits;
      slot->room.reset();
      slot->timer.cancel();
      spawn(slot);
    }
    const bool kept =
        ended->preloaded && !ended->unloaded && std::ranges::find(slots_, ended) != slots_.end();
    if ((kept || !ended->waiters.empty()) && ended->lifecycle.wanted(steady_clock::now()).spawn) spawn(ended);
  }

  void restart(const std::shared_ptr<Slot>& slot) {
    if (slot->lifecycle.state(steady_clock::now()) != WorkerState::backoff) return;
    const bool wanted = !slot->waiters.empty() || (slot->preloaded && !slot->unloaded);
    slot->lifecycle.restart(wanted);
    if (wanted) spawn(slot);
  }
  void arm(const std::shared_ptr<Slot>& slot, TimePoint when,
           void (WorkerFleet::*then)(const std::shared_ptr<Slot>&)) {
    slot->timer.expires_at(when);
    slot->timer.async_wait([this, then, when, weak = std::weak_ptr(slot)](boost::system::error_code error) {
      const auto s = weak.lock();
      if (!error && s && !draining_ && s->timer.expiry() == when) (this->*then)(s);
    });
  }

  // ---- memory ---------------------------------------------------------------------------------------------
  // Only engines without devices: the system cannot attribute a GPU driver's pages to a process.
  std::vector<std::pair<Governor::Id, int>> processes() const {
    std::vector<std::pair<Governor::Id, int>> out;
    for (const auto* slots : {&slots_, &retired_})
      for (const auto& slot : *slots)
        if (slot->client && devices_of(slot->backend) == nullptr)
          out.emplace_back(slot->id, slot->client->pid());
    return out;
  }
  // From the loop: who calls may be in the middle of a client's event.
  void look_soon() {
    if (std::exchange(look_posted_, true)) return;
    asio::post(io_, [this, alive = std::weak_ptr(alive_)] {
      if (alive.expired()) return;
      look_posted_ = false;
      look();
    });
  }
  void look() {
    if (draining_) return;
    Governor::Step step = memory_.decide(steady_clock::now(), uses());
    for (Governor::Action& action : step.actions) act(action);
    open_or_close();
    if (!step.actions.empty()) look_soon();
    if (!step.look_again) {
      look_timer_.cancel();
      return;
    }
    look_timer_.expires_at(*step.look_again);
    look_timer_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code error) {
      if (!error && !alive.expired()) look();
    });
  }
  // Engines are open to the watcher while nobody waits for memory that they could give. Those that yield are
  // held for people unless they have to end.
  void open_or_close() {
    for (const auto& slot : slots_) hold(*slot);
    if (watcher_ == nullptr) return;
    const bool wanted = governor_.anybody_waits();
    for (const auto& slot : slots_) {
      if (!slot->client || !slot->ready) continue;
      if (wanted && !slot->is_pinned()) {
        close(*slot);
        continue;
      }
      if (slot->opened || ends(*slot) || !slot->client->accepting()) continue;
      slot->opened = true;
      watcher_->engine_opens(slot->entry.id, slot->backend, slot->id);
    }
  }
  void close(Slot& slot) {
    if (std::exchange(slot.opened, false) && watcher_ != nullptr)
      watcher_->engine_closes(slot.entry.id, slot.backend);
  }
  static Governor::Id id_of(const std::shared_ptr<Slot>& slot) { return slot->id; }
  std::vector<Governor::Use> uses() const {
    std::vector<Governor::Use> out;
    for (const auto& slot : slots_)
      if (slot->client && slot->ready) out.push_back({slot->id, idle_since(*slot)});
    return out;
  }
  void act(Governor::Action& action) {
    if (loans_.act(action)) return;
    const auto at = std::ranges::find(slots_, action.id, id_of);
    if (at == slots_.end() || !(*at)->client) return;  // its end is under way
    Slot& slot = **at;
    switch (action.kind) {
      case Governor::Action::Kind::load:
        slot.granted = steady_clock::now();
        return slot.client->grant(action.kv_bytes);
      case Governor::Action::Kind::refuse:
        // A request that comes before the process has ended asks anew after a background load's refusal.
        slot.refused =
            Slot::Refusal{std::move(*action.error),
                          action.of_asker || slot.background ? slot.load_for() : std::vector<Asker>{}};
        return slot.client->drain(steady_clock::now());
      case Governor::Action::Kind::end:
        spdlog::info("engine ends: {} | model={} backend={}", action.why, slot.entry.id, slot.backend);
        slot.draining = true;
        close(slot);
        if (slot.background)  // else follow() would start it again for them
          answer_all(slot, fail(ErrorCode::insufficient_memory, "The load gave way: " + action.why + "."));
        return slot.client->drain(steady_clock::now());
      case Governor::Action::Kind::hold:
        spdlog::info("engine ends after its answers: {} | model={} backend={}", action.why, slot.entry.id,
                     slot.backend);
        close(slot);
        return;
      case Governor::Action::Kind::release:
        if (!slot.waiters.empty()) slot.unused_since.reset();
        if (slot.ready && slot.client->accepting()) answer_all(slot, slot.client.get());
        return;
    }
  }

  void stop(Slot& slot, TimePoint deadline) {
    governor_.ending(slot.id, steady_clock::now(), deadline);
    slot.draining = true;
    hold(slot);
    close(slot);
    slot.timer.cancel();
    slot.room.reset();
    answer_all(slot, fail(ErrorCode::shutting_down, "The engine is shutting down."));
    if (slot.client) slot.client->drain(deadline);
  }
  void report_drained() {
    if (!drained_ || !retired_.empty()) return;
    if (std::ranges::any_of(slots_, [](const auto& s) { return s->client != nullptr; })) return;
    drain_timer_.cancel();
    std::exchange(drained_, {})();
  }
  void give_up_drain() {
    if (!drained_) return;
    for (const auto* slots : {&slots_, &retired_})
      for (const auto& slot : *slots)
        if (slot->client) tell_left_behind(*slot);
    std::exchange(drained_, {})();
  }

  asio::io_context& io_;
  config::WorkerLimits limits_;
  const std::filesystem::path cache_dir_;  // as the daemon started
  config::KvSpill kv_spill_;               // of engines that start from now on
  config::OwnEngines own_;                 // by id
  std::vector<std::string> held_kinds_;    // as hold_yielding() had them
  const FleetOptions options_;
  FleetMemory memory_;
  Governor& governor_;  // memory_'s
  Loans loans_{memory_, [this] { look_soon(); }, options_.on_loaded};
  Governor::Id last_id_ = 0;
  bool look_posted_ = false;
  std::vector<std::shared_ptr<Slot>> slots_;
  std::vector<std::shared_ptr<Slot>> retired_;  // of models that a reload changed, until their workers ended
  bool draining_ = false;
  std::function<void()> drained_;
  Watcher* watcher_ = nullptr;
  asio::steady_timer drain_timer_, look_timer_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<Fleet> make_worker_fleet(asio::io_context& io, const config::Config& config,
                                         FleetOptions options) {
  return std::make_unique<WorkerFleet>(io, config, std::move(options));
}

}  // namespace flyball::fleet
