#include "policy/target_catalogue.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "config/engine_kinds.hpp"
#include "config/name_list.hpp"

namespace flyball::policy {
namespace {

using enum FactType;

// Kinds of upstreams that policies may name although none is configured.
constexpr std::array<std::string_view, 4> kV1Upstreams{"vllm", "sglang", "tensorrt_llm", "dynamo"};
// Words that stand for something else where a target may stand.
constexpr std::array<std::string_view, 2> kReserved{kRemote, "advice"};

constexpr std::array kFixedFacts{
    FactInfo{"app.id", text, "", "id of the app that asks", ""},
    FactInfo{"app.privacy", text, "", "whether its prompts may leave this machine", "local_only|any"},
    FactInfo{"app.slo.deadline", integer, "ms", "after which an answer is of no use to the app", ""},
    FactInfo{"app.slo.tpot", integer, "ms", "time per output token the app wants", ""},
    FactInfo{"app.slo.ttft", integer, "ms", "time to first token the app wants", ""},
    FactInfo{"engines.fastest", text, "",
             "the available engine that was measured here as the fastest for this model and load; derived",
             ""},  // the catalogue fills in the ids of the engine kinds
    FactInfo{"hardware.cluster.nodes", integer, "", "machines that serve together; 1: this one alone", ""},
    FactInfo{"hardware.cpu.bandwidth", number, "GB/s",
             "memory read bandwidth of all threads together, measured", ""},
    FactInfo{"hardware.cpu.bandwidth_1t", number, "GB/s", "memory read bandwidth of one thread, measured",
             ""},
    FactInfo{"hardware.cpu.cores", integer, "", "physical cores", ""},
    FactInfo{"hardware.cpu.isa", text, "", "best instruction set the cpu engine has kernels for",
             "scalar|avx2|avx512|neon"},
    FactInfo{"hardware.cpu.model", text, "", "name of the processor", ""},
    FactInfo{"hardware.cpu.threads", integer, "",
             "threads this process may run at once, by affinity and cgroup", ""},
    FactInfo{"hardware.gpu.count", integer, "",
             "GPUs that ran the probe's kernel; software drivers do not count", ""},
    FactInfo{"hardware.gpu.discrete_count", integer, "", "of these, those with memory of their own", ""},
    FactInfo{"hardware.gpu.integrated_count", integer, "",
             "of these, those that share the processor's memory", ""},
    FactInfo{"hardware.gpu.kind", text, "", "kind of the GPU with the most memory of its own",
             "discrete|integrated|software|none"},
    FactInfo{"hardware.gpu.memory", integer, "bytes", "memory of that GPU", ""},
    FactInfo{"hardware.gpu.memory_promised", integer, "bytes",
             "GPU memory that pinned or preloaded engines of other models hold", ""},
    FactInfo{"hardware.gpu.memory_total", integer, "bytes", "memory of all discrete GPUs together", ""},
    FactInfo{"hardware.gpu.memory_used", integer, "bytes",
             "of that, memory of the GPUs that the opencl engine opens", ""},
    FactInfo{"hardware.gpu.name", text, "", "its name as the driver gives it", ""},
    FactInfo{"hardware.gpu.vendor", text, "", "its vendor", "nvidia|amd|intel|apple|arm|qualcomm|other|none"},
    FactInfo{"hardware.memory.available", integer, "bytes",
             "memory that could be taken without swapping when the probe ran", ""},
    FactInfo{"hardware.memory.pressure", number, "%",
             "of the last 10 s, in which somebody waited for the machine's memory", ""},
    FactInfo{"hardware.memory.promised", integer, "bytes",
             "machine memory that pinned or preloaded engines of other models hold", ""},
    FactInfo{"hardware.memory.total", integer, "bytes",
             "memory of the machine, or what a cgroup allows of it", ""},
    FactInfo{"hardware.memory.unified", boolean, "", "processor and GPU work in one memory: no discrete GPU",
             ""},
    FactInfo{"hardware.os", text, "", "operating system", "linux|macos|windows|android|ios"},
    FactInfo{"hardware.rented", boolean, "", "a provider's machine, by the hour", ""},
    FactInfo{"model.architecture", text, "", "architecture the model file names", ""},
    FactInfo{"model.bytes", integer, "bytes", "weights of the model", ""},
    FactInfo{"model.context", integer, "tokens", "context the model is served with", ""},
    FactInfo{"model.fits_gpu", boolean, "",
             "its weights and KV fit into what is not promised of the memory of the discrete GPUs that are "
             "opened, together; derived",
             ""},
    FactInfo{
        "model.fits_memory", boolean, "",
        "its weights and KV fit into what is not promised of the machine's memory, or of the GPUs'; derived",
        ""},
    FactInfo{"model.format", text, "", "format of the file that its weights are in",
             "gguf|mlx|mlc|awq|gptq|exl2|exl3|bitsandbytes|fp8|coreml"},
    FactInfo{"model.id", text, "", "its id in config.yaml", ""},
    FactInfo{"model.kv_bytes", integer, "bytes", "KV of one sequence of `model.context` tokens", ""},
    FactInfo{"model.moe", boolean, "", "mixture of experts", ""},
    FactInfo{"model.parameters", integer, "", "weights, counted", ""},
    FactInfo{"model.quantization", text, "", "format of most of its bytes, such as Q4_0", ""},
    FactInfo{"request.has_tools", boolean, "", "the request offers tools", ""},
    FactInfo{"request.max_tokens", integer, "tokens", "longest answer asked for", ""},
    FactInfo{"request.model", text, "", "model name as the client wrote it", ""},
    FactInfo{"request.n", integer, "", "answers asked for at once", ""},
    FactInfo{"request.operation", text, "", "which endpoint", "chat|completion"},
    FactInfo{"request.prompt_bytes", integer, "bytes", "length of the prompt before tokenization", ""},
    FactInfo{"request.stream", boolean, "", "the answer is streamed", ""},
    FactInfo{"request.wants_json", boolean, "", "the answer must be JSON", ""},
    FactInfo{"workload.batch_size", integer, "", "prompts that it hands in to be answered together", ""},
    FactInfo{"workload.class", text, "", "what kind of work the app does",
             "chat|agent|rag|batch|completion|classification|summarization|extraction|embedding|fine_tuning"},
    FactInfo{"workload.concurrency", integer, "", "requests the app has open at once when busy", ""},
    FactInfo{"workload.delivery", text, "", "where the engine runs that the app needs",
             "service|desktop_app|in_process|single_file|cross_platform|browser"},
    FactInfo{"workload.draft_model", boolean, "", "a small model may draft for it (speculative decoding)",
             ""},
    FactInfo{"workload.fixed_critical", boolean, "", "one model, always, and it matters", ""},
    FactInfo{"workload.interactive", boolean, "",
             "people wait for its answers: of any class but batch, and of summarization, extraction and "
             "classification with an SLO of TTFT or TPOT or the objective latency; derived",
             ""},
    FactInfo{"workload.modalities", text_list, "", "what its prompts hold", "text|image|audio"},
    FactInfo{"workload.objective", text, "", "what counts most", "latency|throughput|peak|convenience"},
    FactInfo{"workload.output_tokens", integer, "tokens", "typical answer", ""},
    FactInfo{"workload.phase", text, "", "where its time goes: reading prompts or writing answers",
             "prefill|decode"},
    FactInfo{"workload.prompt_tokens", integer, "tokens", "typical prompt", ""},
    FactInfo{"workload.shared_prefix_tokens", integer, "tokens", "what its prompts begin with in common", ""},
    FactInfo{"workload.structured_output", boolean, "", "its answers follow a schema or a grammar", ""},
};

constexpr std::array kTargetFactInfos{
    FactInfo{".available", boolean, "",
             "it can take requests: built in, a device or upstream is there, not disabled", ""},
    FactInfo{".cached_tokens", integer, "tokens",
             "of the request's prompt, those whose KV it should hold for this app", ""},
    FactInfo{".decode_tps", number, "tokens/s",
             "answers it writes of the request's model, over as many streams as the app has; measured here, "
             "or predicted",
             ""},
    FactInfo{".expected_delay_to_others", integer, "us",
             "that this request would add there to the answers that people wait for, all of them together; "
             "predicted",
             ""},
    FactInfo{
        ".expected_total", integer, "us",
        "to the end of this request's last answer, if it went there now; predicted, half of such take longer",
        ""},
    FactInfo{".expected_total_p90", integer, "us", "in which nine in ten such answers end; predicted", ""},
    FactInfo{".expected_tpot", integer, "us",
             "for each further token of its answer in the batch that it would join; predicted", ""},
    FactInfo{".expected_tpot_p90", integer, "us", "that nine in ten such answers keep; predicted", ""},
    FactInfo{".expected_ttft", integer, "us",
             "to the first token of its answer, if it went there now: queue, load, prefill; predicted", ""},
    FactInfo{".expected_ttft_p90", integer, "us", "in which nine in ten such answers begin; predicted", ""},
    FactInfo{".fits_now", boolean, "",
             "the request's model is in its memory, or its weights and KV fit beside what is there, twice "
             "for an engine that is kept loaded beside a shared one that has not loaded it; derived",
             ""},
    FactInfo{".kv_room", integer, "tokens", "that its KV cache has free blocks for", ""},
    FactInfo{".kv_usage", number, "", "share of its KV cache in use, 0 to 1", ""},
    FactInfo{".load_time", integer, "ms", "to load the request's model; measured here, or predicted", ""},
    FactInfo{".loaded", boolean, "", "the request's model is in its memory", ""},
    FactInfo{".meets_slo", boolean, "",
             "nine in ten requests such as this one should hold the app's SLO there; predicted", ""},
    FactInfo{".memory_free", integer, "bytes",
             "of the memory that its models lie in: what it could be given without another engine's end", ""},
    FactInfo{".outpaced", boolean, "",
             "another available engine was measured here to be a tenth faster and more for this model and "
             "load; derived",
             ""},
    FactInfo{".prefill_tps", number, "tokens/s",
             "prompt it reads of the request's model, one as long as the app's; measured here, or predicted",
             ""},
    FactInfo{".queue_waiting", integer, "", "requests that wait for it", ""},
    FactInfo{".reason", text, "", "why it is not available", ""},
    FactInfo{".running", integer, "", "requests it works on", ""},
    FactInfo{".shares_card", boolean, "",
             "another engine of this machine computes on the discrete GPU that it computes on, too", ""},
    FactInfo{".trial_due", boolean, "",
             "its speed with the request's model is not measured nor yet seen, and one request may find it "
             "out now",
             ""},
    FactInfo{".ttft", integer, "ms",
             "to the first token behind such a prompt, alone; measured here, or predicted", ""},
    FactInfo{".watts", number, "W", "of the processor while it writes; measured here", ""},
};
static_assert(kTargetFactInfos.size() == kTargetFacts);
static_assert(std::ranges::is_sorted(kTargetFactInfos, {}, &FactInfo::name));

bool is_v1(std::string_view name) {
  return config::find_engine_kind(name) != nullptr ||
         std::ranges::find(kV1Upstreams, name) != kV1Upstreams.end();
}

// Facts of one target under `backend.<name>`; their names are kept in `texts`.
void add_facts_of(std::string_view name, std::deque<std::string>& texts, std::vector<FactInfo>& facts) {
  for (FactInfo fact : kTargetFactInfos) {
    fact.name = texts.emplace_back("backend." + std::string(name) + std::string(fact.name));
    facts.push_back(fact);
  }
}

struct CommonFacts {
  std::deque<std::string> texts;  // names and values that are put together; the deque keeps them in place
  std::vector<FactInfo> facts;    // sorted by name

  CommonFacts() {
    facts.assign(kFixedFacts.begin(), kFixedFacts.end());
    std::string engines;
    for (const config::EngineKind& kind : config::kEngineKinds) {
      engines += (engines.empty() ? "" : "|") + std::string(kind.id);
      add_facts_of(kind.id, texts, facts);
    }
    std::ranges::find(facts, "engines.fastest", &FactInfo::name)->values =
        texts.emplace_back(std::move(engines));
    for (const std::string_view kind : kV1Upstreams) add_facts_of(kind, texts, facts);
    std::ranges::sort(facts, {}, &FactInfo::name);
  }
};

// Facts that every catalogue has.
const CommonFacts& common() {
  static const CommonFacts instance;
  return instance;
}

std::optional<FactId> find_in(std::span<const FactInfo> sorted, std::string_view name) {
  const auto it = std::ranges::lower_bound(sorted, name, {}, &FactInfo::name);
  if (it == sorted.end() || it->name != name) return std::nullopt;
  return static_cast<FactId>(it - sorted.begin());
}

bool is_target_id(std::string_view id) {
  return !id.empty() && id.size() <= TargetCatalogue::kMaxIdBytes && std::ranges::all_of(id, [](char c) {
    return c == '_' || c == '-' || std::isalnum(static_cast<unsigned char>(c));
  });
}

// The mistake in the i-th of these upstreams, "" if there is none.
std::string mistake_in(std::span<const TargetInstance> upstreams, std::size_t i) {
  const TargetInstance& one = upstreams[i];
  if (!is_target_id(one.id))
    return "an upstream's id is 1 to " + std::to_string(TargetCatalogue::kMaxIdBytes) +
           " letters, digits, - and _, got " + config::quoted(one.id);
  if (!is_target_id(one.kind) || config::find_engine_kind(one.kind) != nullptr ||
      std::ranges::find(kReserved, one.kind) != kReserved.end())
    return "upstream " + config::quoted(one.id) + ": " + config::quoted(one.kind) + " is no kind of upstream";
  if (std::ranges::find(kReserved, one.id) != kReserved.end())
    return "no upstream may be called " + config::quoted(one.id) +
           ", which stands for something else in policies";
  if (one.id != one.kind && is_v1(one.id))
    return "upstream " + config::quoted(one.id) + " is of the kind " + config::quoted(one.kind) +
           " and has the name of another kind";
  for (std::size_t other = 0; other < upstreams.size(); ++other) {
    if (other == i) continue;
    if (other < i && upstreams[other].id == one.id)
      return "two upstreams are called " + config::quoted(one.id);
    if (upstreams[other].kind == one.id)
      return one.kind == one.id
                 ? "upstream " + config::quoted(one.id) +
                       " has the name of its kind, of which there are others: give it a name of its own"
                 : "upstream " + config::quoted(one.id) + " has the name of the kind of " +
                       config::quoted(upstreams[other].id);
  }
  return {};
}

}  // namespace

std::string_view to_string(FactType type) noexcept {
  constexpr std::array<std::string_view, 5> kNames{"boolean", "integer", "number", "text", "text list"};
  return kNames[static_cast<std::size_t>(type)];
}

Result<Targets> TargetCatalogue::make(std::vector<TargetInstance> upstreams) {
  if (upstreams.size() > kMaxUpstreams)
    return fail(ErrorCode::config_invalid, std::to_string(upstreams.size()) + " upstreams, the limit is " +
                                               std::to_string(kMaxUpstreams));
  std::vector<TargetInstance> instances;
  for (const config::EngineKind& kind : config::kEngineKinds)
    instances.push_back({std::string(kind.id), std::string(kind.id), false, true, 0});
  for (std::size_t i = 0; i < upstreams.size(); ++i) {
    if (std::string wrong = mistake_in(upstreams, i); !wrong.empty())
      return fail(ErrorCode::config_invalid, std::move(wrong), upstreams[i].id);
    instances.push_back({upstreams[i].id, upstreams[i].kind, true, true, 0});
  }
  for (const std::string_view kind : kV1Upstreams)
    if (std::ranges::find(upstreams, kind, &TargetInstance::kind) == upstreams.end())
      instances.push_back({std::string(kind), std::string(kind), true, false, 0});
  return Targets(new TargetCatalogue(std::move(instances)));
}

Targets TargetCatalogue::with_own_engines(const Targets& base, std::span<const OwnEngine> engines) {
  if (engines.empty()) return base;
  std::vector<TargetInstance> instances = base->instances_;
  for (const OwnEngine& engine : engines)
    instances.push_back({engine.id(), engine.kind, false, true, 0, engine.profile, engine.settings});
  return Targets(new TargetCatalogue(std::move(instances)));
}

TargetCatalogue::TargetCatalogue(std::vector<TargetInstance> instances)
    : instances_(std::move(instances)), facts_(common().facts) {
  for (const TargetInstance& instance : instances_)
    if (instance.id != instance.kind && !instance.is_own_engine() &&
        std::ranges::find(derived_kinds_, instance.kind) == derived_kinds_.end())
      derived_kinds_.push_back(instance.kind);
  for (const TargetInstance& instance : instances_) names_.emplace_back(instance.id);
  for (const std::string& kind : derived_kinds_) names_.emplace_back(kind);
  for (const std::string_view name : names_)
    if (!is_v1(name)) add_facts_of(name, texts_, facts_);
  std::ranges::sort(facts_.begin() + static_cast<std::ptrdiff_t>(common().facts.size()), facts_.end(), {},
                    &FactInfo::name);
  for (const std::string_view name : names_)
    facts_of_.push_back(
        {name, *find_fact("backend." + std::string(name) + std::string(kTargetFactInfos.front().name))});
  for (std::size_t i = 0; i < instances_.size(); ++i) instances_[i].first_fact = facts_of_[i].first;
}

const TargetInstance* TargetCatalogue::find(std::string_view id) const noexcept {
  const auto it = std::ranges::find(instances_, id, &TargetInstance::id);
  return it == instances_.end() ? nullptr : &*it;
}

bool TargetCatalogue::is_remote(std::string_view id) const noexcept {
  const TargetInstance* const instance = find(id);
  return instance != nullptr && instance->remote;
}

bool TargetCatalogue::knows(std::string_view name) const noexcept {
  return std::ranges::find(names_, name) != names_.end();
}

bool TargetCatalogue::has_names_of(const TargetCatalogue& other) const noexcept {
  return names_ == other.names_;
}

std::vector<const TargetInstance*> TargetCatalogue::denied_by(std::string_view name) const {
  std::vector<const TargetInstance*> out;
  for (const TargetInstance& instance : instances_)
    if (instance.id == name || instance.kind == name || (name == kRemote && instance.remote))
      out.push_back(&instance);
  return out;
}

std::vector<const TargetInstance*> TargetCatalogue::meant_by(std::string_view name) const {
  std::vector<const TargetInstance*> out = denied_by(name);
  std::erase_if(out, [&](const TargetInstance* one) { return one->is_own_engine() && one->id != name; });
  return out;
}

std::optional<FactId> TargetCatalogue::find_fact(std::string_view name) const noexcept {
  const std::span all(facts_);
  const std::size_t n = common().facts.size();
  if (const auto id = find_in(all.first(n), name)) return id;
  const auto id = find_in(all.subspan(n), name);
  return id ? std::optional(static_cast<FactId>(n + *id)) : std::nullopt;
}

FactId TargetCatalogue::fact_of(std::string_view name, TargetFact fact) const {
  const auto it = std::ranges::find(facts_of_, name, &FactsOf::name);
  if (it == facts_of_.end()) {
    std::fprintf(stderr, "policy targets: no such target: \"%.*s\"\n", static_cast<int>(name.size()),
                 name.data());
    std::abort();
  }
  return static_cast<FactId>(it->first + static_cast<FactId>(fact));
}

config::OwnEngines own_engines_of(const TargetCatalogue& targets) {
  config::OwnEngines out;
  for (const TargetInstance& instance : targets.instances())
    if (instance.is_own_engine()) out.emplace(instance.id, instance.settings);
  return out;
}

const Targets& default_targets() {
  static const Targets targets = TargetCatalogue::make({}).value();
  return targets;
}

std::optional<FactId> find_fact(std::string_view name) {
  return find_in(common().facts, name);
}

}  // namespace flyball::policy
