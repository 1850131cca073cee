#include "daemon/fleet/slot.hpp"

#include <spdlog/spdlog.h>

#include "config/capabilities.hpp"
#include "config/engine_kinds.hpp"
#include "config/units.hpp"

namespace flyball::fleet {
namespace {

constexpr std::size_t kShownDigest = 12;  // hexadecimal digits, as `flyball check` shows

}  // namespace

std::optional<TimePoint> idle_since(const Slot& slot) {
  return slot.client->accepting() && slot.unused_since ? slot.unused_since : slot.client->idle_since();
}

WorkerStatus status_of(const Slot& slot, TimePoint now) {
  WorkerStatus s;
  s.model = slot.entry.id;
  s.group = slot.entry.group;
  s.backend = slot.backend;
  s.state = slot.lifecycle.state(now);
  s.restarts = slot.lifecycle.restarts();
  s.pause = slot.lifecycle.pause(now);
  s.load_refused = slot.lifecycle.load_refused();
  s.invalid = slot.lifecycle.invalid();
  s.was_ready = slot.lifecycle.was_ready();
  s.unloaded = slot.unloaded;
  s.pinned = slot.is_pinned();
  s.spare = slot.background;
  if (slot.lifecycle.last_error()) s.last_error = slot.lifecycle.last_error()->message;
  if (!slot.client) return s;
  s.pid = slot.client->pid();
  if (!slot.ready) return s;
  s.info = slot.client->info();
  s.load = slot.client->load();
  s.without_progress = slot.client->without_progress();
  s.ending = slot.draining;
  s.held = slot.held;
  if (const auto since = idle_since(slot))
    s.idle = std::chrono::duration_cast<std::chrono::milliseconds>(now - *since);
  return s;
}

bool same_engine(const config::ModelEntry& a, const config::ModelEntry& b) {
  return a.path == b.path && a.embedded == b.embedded && a.sha256 == b.sha256 && a.context == b.context &&
         a.max_sequences == b.max_sequences && a.threads == b.threads && a.kv_type == b.kv_type &&
         a.expert_bytes == b.expert_bytes && a.group == b.group;
}

worker::WorkerOptions engine_options(const config::ModelEntry& entry) {
  worker::WorkerOptions options;
  options.model_id = entry.id;
  options.model_path = entry.embedded ? "" : entry.path.string();
  options.sha256 = entry.sha256;
  options.threads = entry.threads;
  options.expert_bytes = entry.expert_bytes;
  options.context = entry.context;
  options.max_sequences = entry.max_sequences;
  options.kv_type = entry.kv_type;
  return options;
}

worker::WorkerOptions worker_options(const Slot& slot, const std::vector<std::string>* device_ids,
                                     const config::WorkerLimits& limits, const config::KvSpill& kv_spill) {
  worker::WorkerOptions options = engine_options(slot.entry);
  options.backend = config::kind_of(slot.backend);
  if (slot.own) {
    if (slot.own->threads) options.threads = *slot.own->threads;
    options.nice = slot.own->nice;
    options.lock_memory = slot.own->lock_memory;
    options.yields = slot.own->yields;
  }
  if (device_ids != nullptr) options.device_ids = *device_ids;
  options.kv_spill_dir = kv_spill.directory.string();
  options.kv_spill_bytes = kv_spill.max_bytes;
  options.own_memory = slot.own_memory;
  options.ready_timeout = limits.ready_timeout;
  options.heartbeat = limits.heartbeat;
  options.heartbeat_timeout = limits.heartbeat_timeout;
  return options;
}

MemoryClaim claim_of(const Slot& slot, std::size_t pool, const MemoryNeed& need,
                     std::chrono::milliseconds idle_unload) {
  MemoryClaim claim;
  claim.model = slot.entry.id;
  claim.pool = pool;
  claim.need = need;
  claim.group = slot.entry.group;
  claim.spare = slot.background;
  claim.pinned = slot.is_pinned();
  claim.askers = slot.load_for();
  if (const auto keep = slot.entry.idle_unload.value_or(idle_unload); keep.count() > 0) claim.keep = keep;
  return claim;
}

void log_ready(const Slot& slot) {
  const BackendInfo& info = slot.client->info();
  const auto since =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - slot.began);
  spdlog::info(
      "engine ready in {}: {} {}, {} parameters, context {}, {}, of it {} KV as {} | "
      "model={} backend={} digest={}",
      config::time_text(since.count()), info.model_name, info.quantization, info.parameters,
      info.context_length, config::size_text(info.weight_bytes + info.kv_bytes + info.scratch_bytes),
      config::size_text(info.kv_bytes), info.kv_type, slot.entry.id, slot.backend,
      info.digest.substr(0, kShownDigest));
  const config::EngineKind* const kind = config::find_engine_kind(config::kind_of(slot.backend));
  if (info.mixture_of_experts && kind != nullptr && kind->memory == config::EngineKind::Memory::device)
    spdlog::warn("this engine {} | model={} backend={}", config::mixture_of_experts(kind->id), slot.entry.id,
                 slot.backend);
  for (const DeviceShare& share : info.devices)
    spdlog::info("engine on {} | model={} backend={}", to_string(share), slot.entry.id, slot.backend);
}

void tell_left_behind(const Slot& slot) {
  spdlog::error("engine does not end although it was killed, pid {}; it is left behind | model={} backend={}",
                slot.client->pid(), slot.entry.id, slot.backend);
}

}  // namespace flyball::fleet
