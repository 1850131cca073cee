#include "daemon/route/facts.hpp"

#include <algorithm>
#include <utility>

#include "backends/graph/memory_plan.hpp"
#include "config/engine_kinds.hpp"
#include "daemon/probe/hardware_facts.hpp"

namespace flyball::route {
namespace {

using policy::Facts;
using policy::TargetFact;

// Sources, as receipts show them.
constexpr const char* kConfig = "config";
constexpr const char* kManifest = "manifest";
constexpr const char* kDefault = "default";
constexpr const char* kModelFile = "model file";
constexpr const char* kRequest = "request";
constexpr const char* kSupervisor = "supervisor";

using std::chrono::milliseconds;

std::int64_t integer(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

bool stricter(const std::optional<milliseconds>& header, const std::optional<milliseconds>& manifest) {
  return header && (!manifest || *header < *manifest);
}

// app.slo.*: the stricter of manifest and headers. A time from the admission on is what is left of it.
void add_slo(Facts& facts, const config::Slo& slo, const RequestTraits& request) {
  const std::string waited =
      request.waited.count() > 0 ? ", " + std::to_string(request.waited.count()) + " ms waited" : "";
  const auto set = [&](const char* name, const std::optional<milliseconds>& manifest,
                       const std::optional<milliseconds>& header, bool runs) {
    const bool of_header = stricter(header, manifest);
    const auto& wanted = of_header ? header : manifest;
    if (!wanted) return;
    const milliseconds left = runs ? std::max(milliseconds(0), *wanted - request.waited) : *wanted;
    facts.set(name, std::int64_t{left.count()}, (of_header ? kRequest : kManifest) + (runs ? waited : ""));
  };
  set("app.slo.ttft", slo.ttft, request.slo_ttft, true);
  set("app.slo.tpot", slo.tpot, request.slo_tpot, false);
  set("app.slo.deadline", slo.deadline, std::nullopt, true);
}

// app.* and workload.*: what the manifest declares, or a default with that source; the rest stays unknown.
void add_app(Facts& facts, const config::AppManifest& app) {
  const auto set_if = [&](const char* name, const auto& value) {
    if (value) facts.set(name, static_cast<std::int64_t>(*value), kManifest);
  };
  facts.set("app.id", app.id, kManifest);
  facts.set("app.privacy", std::string(to_string(app.privacy.value_or(config::kDefaultPrivacy))),
            app.privacy ? kManifest : kDefault);
  const config::Workload& w = app.workload;
  facts.set("workload.class", std::string(to_string(w.kind.value_or(config::kDefaultClass))),
            w.kind ? kManifest : kDefault);
  if (w.modalities.empty())
    facts.set("workload.modalities", std::vector<std::string>{config::kDefaultModality}, kDefault);
  else
    facts.set("workload.modalities", w.modalities, kManifest);
  facts.set("workload.delivery", w.delivery.empty() ? std::string(config::kDefaultDelivery) : w.delivery,
            w.delivery.empty() ? kDefault : kManifest);
  const auto set_flag = [&](const char* name, const std::optional<bool>& value) {
    if (value) facts.set(name, *value, kManifest);
  };
  const auto set_text = [&](const char* name, const std::string& value) {
    if (!value.empty()) facts.set(name, value, kManifest);
  };
  set_flag("workload.fixed_critical", w.fixed_critical);
  set_flag("workload.structured_output", w.structured_output);
  set_flag("workload.draft_model", w.draft_model);
  set_text("workload.phase", w.phase);
  set_text("workload.objective", w.objective);
  set_if("workload.batch_size", w.batch_size);
  set_if("workload.prompt_tokens", w.prompt_tokens);
  set_if("workload.output_tokens", w.output_tokens);
  set_if("workload.shared_prefix_tokens", w.shared_prefix_tokens);
  set_if("workload.concurrency", w.concurrency);
}

void add_request(Facts& facts, const RequestTraits& request) {
  facts.set("request.operation", request.operation, kRequest);
  facts.set("request.model", request.model_as_asked, kRequest);
  facts.set("request.prompt_bytes", integer(request.prompt_bytes), kRequest);
  if (request.max_tokens > 0) facts.set("request.max_tokens", integer(request.max_tokens), kRequest);
  facts.set("request.n", integer(request.n), kRequest);
  facts.set("request.stream", request.stream, kRequest);
  facts.set("request.has_tools", request.has_tools, kRequest);
  facts.set("request.wants_json", request.wants_json, kRequest);
}

void add_model_file(Facts& facts, const BackendInfo& info) {
  facts.set("model.architecture", info.architecture, kModelFile);
  facts.set("model.quantization", info.quantization, kModelFile);
  facts.set("model.parameters", integer(info.parameters), kModelFile);
  facts.set("model.bytes", integer(info.weight_bytes), kModelFile);
  facts.set("model.context", integer(info.context_length), kModelFile);
  facts.set("model.moe", info.mixture_of_experts, kModelFile);
}

void add_worker(Facts& facts, const fleet::WorkerStatus& worker) {
  const auto set = [&](TargetFact fact, policy::FactValue value) {
    facts.set(facts.targets()->fact_of(worker.backend, fact), std::move(value), kSupervisor);
  };
  const bool ready = worker.state == fleet::WorkerState::ready;
  set(TargetFact::loaded, ready);
  // The memory of an engine that loads is reserved, and memory_free has it no more.
  if (worker.state == fleet::WorkerState::starting && !worker.ending && worker.account_bytes > 0)
    set(TargetFact::fits_now, true);
  set(TargetFact::queue_waiting, integer(worker.load.waiting));
  set(TargetFact::running, integer(worker.load.running));
  if (worker.load.kv_blocks_total > 0)
    set(TargetFact::kv_usage, static_cast<double>(worker.load.kv_blocks_used) / worker.load.kv_blocks_total);
  if (worker.state == fleet::WorkerState::disabled) {
    set(TargetFact::available, false);
    set(TargetFact::reason, worker.last_error.empty() ? std::string("disabled") : worker.last_error);
  }
}

// Memory that pinned engines of other models hold: that of the GPUs that `hardware.gpu.memory_used` is of
// (opencl's, else all) and in the machine's.
void add_promises(Facts& facts, std::string_view model, const LiveState& live) {
  std::uint64_t machine = 0, devices = 0;
  const auto is_of = [](const fleet::PoolStatus& pool, std::string_view backend) {
    return std::ranges::find(pool.backends, backend, &fleet::EngineMemory::backend) != pool.backends.end();
  };
  const bool opened = facts.get("hardware.gpu.memory_used") != nullptr;
  for (const fleet::WorkerStatus& worker : live.workers) {
    if (worker.model == model || !worker.pinned) continue;
    const auto pool = std::ranges::find_if(live.memory.pools, [&](const fleet::PoolStatus& one) {
      return is_of(one, config::kind_of(worker.backend));
    });
    if (pool == live.memory.pools.end() || pool == live.memory.pools.begin())
      machine += worker.account_bytes;
    else if (!opened || is_of(*pool, config::kOpenCl.id))
      devices += worker.account_bytes;
  }
  if (machine > 0) facts.set("hardware.memory.promised", integer(machine), kSupervisor, live.memory.age);
  if (devices > 0) facts.set("hardware.gpu.memory_promised", integer(devices), kSupervisor, live.memory.age);
}

void add_memory(Facts& facts, const fleet::MemoryStatus& memory) {
  if (memory.pressure) facts.set("hardware.memory.pressure", *memory.pressure, kSupervisor, memory.age);
  for (const policy::TargetInstance& target : facts.targets()->instances()) {
    if (target.remote || !facts.is_true(fact_of(target, TargetFact::available)))
      continue;  // it has no memory here
    if (const auto free = memory.free_for(target.id))
      facts.set(fact_of(target, TargetFact::memory_free), integer(*free), kSupervisor, memory.age);
  }
}

}  // namespace

config::Slo wanted_slo(const config::AppManifest& app, const RequestTraits& request) {
  config::Slo out = app.slo;
  if (stricter(request.slo_ttft, out.ttft)) out.ttft = request.slo_ttft;
  if (stricter(request.slo_tpot, out.tpot)) out.tpot = request.slo_tpot;
  return out;
}

bool is_own_slo(const config::AppManifest& app, const RequestTraits& request) {
  return !stricter(request.slo_ttft, app.slo.ttft) && !stricter(request.slo_tpot, app.slo.tpot);
}

measure::CpuThreads cpu_threads(const config::ModelEntry& model, const Facts& facts) {
  const policy::Fact* const known = facts.get("hardware.cpu.threads");
  if (known == nullptr || std::get<std::int64_t>(known->value) < 1) return {};
  const auto usable = static_cast<std::uint32_t>(std::get<std::int64_t>(known->value));
  return {model.threads == 0 ? usable : std::min(model.threads, usable), usable};
}

std::uint32_t served_context(const config::ModelEntry& model, const BackendInfo* file) {
  if (model.context > 0) return model.context;
  return file != nullptr ? std::min(file->context_length, graph::kDefaultContext) : 0;
}

Facts gather(const Facts& hardware, std::chrono::milliseconds probed, const config::AppManifest& app,
             const config::ModelEntry& model, const RequestTraits& request, const LiveState& live,
             const BackendInfo* file, const measure::Book& measured, std::int64_t now) {
  Facts facts = hardware;
  facts.set_age(probe::kProbeSource, probed);
  add_app(facts, app);
  add_slo(facts, app.slo, request);
  add_request(facts, request);
  facts.set("model.id", model.id, kConfig);
  // A directory is MLX's, but to see that takes a look at the disk.
  if (model.embedded || model.path.extension() == ".gguf")
    facts.set("model.format", std::string("gguf"), kConfig);
  if (file) add_model_file(facts, *file);
  if (const std::uint32_t served = served_context(model, file))
    facts.set("model.context", integer(served), model.context > 0 ? kConfig : kModelFile);
  if (const policy::Fact* const context = facts.get("model.context");
      file && file->kv_token_bytes > 0 && context)
    facts.set("model.kv_bytes",
              integer(kv_bytes_of(*file, model.kv_type,
                                  static_cast<std::uint64_t>(std::get<std::int64_t>(context->value)))),
              kModelFile);
  bool known = false;
  add_memory(facts, live.memory);
  add_promises(facts, model.id, live);
  for (const auto& worker : live.workers) {
    if (worker.model != model.id || !facts.targets()->knows(worker.backend)) continue;
    add_worker(facts, worker);
    if (worker.state == fleet::WorkerState::ready && !known) {
      add_model_file(facts, worker.info);
      known = true;
    }
  }
  measured.set_facts(model.id, now, facts, cpu_threads(model, facts));
  derive(facts);
  return facts;
}

void bar_left(std::span<const std::string> left, policy::Facts& facts) {
  const auto set = [&](const policy::TargetInstance& target, std::string why) {
    facts.set(fact_of(target, TargetFact::available), false, kRequest);
    facts.set(fact_of(target, TargetFact::reason), std::move(why), kRequest);
  };
  const auto is = [&](const policy::TargetInstance& target, TargetFact which) {
    return facts.is_true(fact_of(target, which));
  };
  for (const policy::TargetInstance& one : facts.targets()->instances()) {
    if (std::ranges::find(left, one.id) == left.end()) continue;
    if (is(one, TargetFact::available) && is(one, TargetFact::shares_card))
      for (const policy::TargetInstance& other : facts.targets()->instances())
        if (&other != &one && is(other, TargetFact::shares_card) && is(other, TargetFact::available))
          set(other, "it computes on the card of " + one.id + ", which the request left while it waited");
    set(one, "the request left it while it waited");
  }
}

}  // namespace flyball::route
