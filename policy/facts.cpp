// The catalogue of facts and the set of those known at one moment.
#include "policy/facts.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "policy/fastest.hpp"

namespace flyball::policy {
namespace {

using enum FactType;

constexpr const char* kDerived = "derived";  // source of what follows from other facts

constexpr std::array<std::string_view, 7> kBackends{"cpu",    "vulkan",       "opencl", "vllm",
                                                    "sglang", "tensorrt_llm", "dynamo"};
constexpr std::size_t kLocalBackends = 3;  // the first of kBackends; the others are upstreams

constexpr std::array kFixedFacts{
    FactInfo{"app.id", text, "", "id of the app that asks", ""},
    FactInfo{"app.privacy", text, "", "whether its prompts may leave this machine", "local_only|any"},
    FactInfo{"app.slo.deadline", integer, "ms", "after which an answer is of no use to the app", ""},
    FactInfo{"app.slo.tpot", integer, "ms", "time per output token the app wants", ""},
    FactInfo{"app.slo.ttft", integer, "ms", "time to first token the app wants", ""},
    FactInfo{"engines.fastest", text, "",
             "the available engine that was measured here as the fastest for this model and load; derived",
             "cpu|vulkan|opencl"},
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
    FactInfo{"hardware.gpu.memory_total", integer, "bytes", "memory of all discrete GPUs together", ""},
    FactInfo{"hardware.gpu.memory_used", integer, "bytes",
             "of that, memory of the GPUs that the opencl engine opens", ""},
    FactInfo{"hardware.gpu.name", text, "", "its name as the driver gives it", ""},
    FactInfo{"hardware.gpu.vendor", text, "", "its vendor", "nvidia|amd|intel|apple|arm|qualcomm|other|none"},
    FactInfo{"hardware.memory.available", integer, "bytes",
             "memory that could be taken without swapping when the probe ran", ""},
    FactInfo{"hardware.memory.pressure", number, "%",
             "of the last 10 s, in which somebody waited for the machine's memory", ""},
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
             "its weights fit into the memory of the discrete GPUs that are opened, together; derived", ""},
    FactInfo{"model.fits_memory", boolean, "",
             "its weights fit into the machine's memory, or the GPUs'; derived", ""},
    FactInfo{"model.format", text, "", "format of the file that its weights are in",
             "gguf|mlx|mlc|awq|gptq|exl2|exl3|bitsandbytes|fp8|coreml"},
    FactInfo{"model.id", text, "", "its id in config.yaml", ""},
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
    FactInfo{"workload.modalities", text_list, "", "what its prompts hold", "text|image|audio"},
    FactInfo{"workload.objective", text, "", "what counts most", "latency|throughput|peak|convenience"},
    FactInfo{"workload.output_tokens", integer, "tokens", "typical answer", ""},
    FactInfo{"workload.phase", text, "", "where its time goes: reading prompts or writing answers",
             "prefill|decode"},
    FactInfo{"workload.prompt_tokens", integer, "tokens", "typical prompt", ""},
    FactInfo{"workload.shared_prefix_tokens", integer, "tokens", "what its prompts begin with in common", ""},
    FactInfo{"workload.structured_output", boolean, "", "its answers follow a schema or a grammar", ""},
};

constexpr std::array kBackendFacts{
    FactInfo{".available", boolean, "",
             "it can take requests: built in, a device or upstream is there, not disabled", ""},
    FactInfo{".decode_tps", number, "tokens/s",
             "answers it writes of the request's model, over as many streams as the app has; measured here, "
             "or predicted",
             ""},
    FactInfo{".fits_now", boolean, "",
             "the request's model is in its memory, or its weights fit beside what is there; derived", ""},
    FactInfo{".kv_usage", number, "", "share of its KV cache in use, 0 to 1", ""},
    FactInfo{".load_time", integer, "ms", "to load the request's model; measured here, or predicted", ""},
    FactInfo{".loaded", boolean, "", "the request's model is in its memory", ""},
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
    FactInfo{".ttft", integer, "ms",
             "to the first token behind such a prompt, alone; measured here, or predicted", ""},
    FactInfo{".watts", number, "W", "of the processor while it writes; measured here", ""},
};

// What says whether the model finds room with an engine of this machine as things are.
struct RoomFacts {
  FactId loaded, memory_free, fits_now;
};
const std::vector<RoomFacts>& room_facts() {
  static const auto kTable = [] {
    std::vector<RoomFacts> out;
    for (std::size_t i = 0; i < kLocalBackends; ++i) {
      const std::string prefix = "backend." + std::string(kBackends[i]);
      out.push_back({*find_fact(prefix + ".loaded"), *find_fact(prefix + ".memory_free"),
                     *find_fact(prefix + ".fits_now")});
    }
    return out;
  }();
  return kTable;
}

void derive_room(Facts& facts, std::int64_t weights, FactId weights_fact) {
  for (const RoomFacts& room : room_facts()) {
    if (facts.get(room.fits_now) != nullptr) continue;
    const Fact* loaded = facts.get(room.loaded);
    const Fact* memory = facts.get(room.memory_free);
    if (loaded != nullptr && std::get<bool>(loaded->value))
      facts.set_derived(room.fits_now, true, {room.loaded});
    else if (memory != nullptr && weights > 0)
      facts.set_derived(room.fits_now, weights <= std::get<std::int64_t>(memory->value),
                        {weights_fact, room.memory_free});
  }
}

// Names of backend facts are put together once; the deque keeps them in place.
struct Catalogue {
  std::deque<std::string> names;
  std::vector<FactInfo> facts;

  Catalogue() {
    facts.assign(kFixedFacts.begin(), kFixedFacts.end());
    for (const std::string_view backend : kBackends)
      for (FactInfo fact : kBackendFacts) {
        names.push_back("backend." + std::string(backend) + std::string(fact.name));
        fact.name = names.back();
        facts.push_back(fact);
      }
    std::ranges::sort(facts, {}, &FactInfo::name);
  }
};

const Catalogue& catalogue() {
  static const Catalogue instance;
  return instance;
}

[[noreturn]] void broken(std::string_view what, std::string_view name) {
  std::fprintf(stderr, "policy facts: %.*s: \"%.*s\"\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(name.size()), name.data());
  std::abort();
}

}  // namespace

std::string_view to_string(FactType type) noexcept {
  constexpr std::array<std::string_view, 5> kNames{"boolean", "integer", "number", "text", "text list"};
  return kNames[static_cast<std::size_t>(type)];
}

std::span<const FactInfo> fact_catalogue() {
  return catalogue().facts;
}

std::span<const std::string_view> known_backends() {
  return kBackends;
}

bool is_remote(std::string_view backend) {
  return std::find(kBackends.begin() + kLocalBackends, kBackends.end(), backend) != kBackends.end();
}

std::optional<FactId> find_fact(std::string_view name) {
  const auto& facts = catalogue().facts;
  const auto it = std::ranges::lower_bound(facts, name, {}, &FactInfo::name);
  if (it == facts.end() || it->name != name) return std::nullopt;
  return static_cast<FactId>(it - facts.begin());
}

AvailabilityFacts availability_facts(std::string_view backend) {
  static const auto kTable = [] {
    std::array<AvailabilityFacts, kBackends.size()> table{};
    for (std::size_t i = 0; i < kBackends.size(); ++i) {
      const std::string prefix = "backend." + std::string(kBackends[i]);
      table[i] = {*find_fact(prefix + ".available"), *find_fact(prefix + ".reason")};
    }
    return table;
  }();
  for (std::size_t i = 0; i < kBackends.size(); ++i)
    if (kBackends[i] == backend) return kTable[i];
  broken("no such backend", backend);
}

Facts::Facts() : facts_(fact_catalogue().size()), known_(fact_catalogue().size()) {}

void Facts::set(std::string_view name, FactValue value, std::string source, std::chrono::milliseconds age) {
  const auto id = find_fact(name);
  if (!id) broken("not in the catalogue", name);
  set(*id, std::move(value), std::move(source), age);
}

void Facts::forget(FactId id) {
  facts_[id] = {};
  known_[id] = false;
}

void Facts::set_age(std::string_view source, std::chrono::milliseconds age) {
  for (Fact& fact : facts_)
    if (fact.source == source) fact.age = age;  // what is unknown has no source
}

void Facts::set(FactId id, FactValue value, std::string source, std::chrono::milliseconds age) {
  if (id >= facts_.size()) broken("no such id", std::to_string(id));
  if (value.index() != static_cast<std::size_t>(fact_catalogue()[id].type))
    broken("a value of another type", fact_catalogue()[id].name);
  facts_[id] = Fact{std::move(value), std::move(source), age};
  known_[id] = true;
}

void Facts::set_derived(FactId id, FactValue value, std::vector<FactId> from) {
  std::chrono::milliseconds age{0};
  for (const FactId source : from)
    if (const Fact* fact = get(source)) age = std::max(age, fact->age);
  set(id, std::move(value), kDerived, age);
  facts_[id].from = std::move(from);
}

const Fact* Facts::get(std::string_view name) const noexcept {
  const auto id = find_fact(name);
  return id ? get(*id) : nullptr;
}

void derive(Facts& facts) {
  derive_fastest(facts);
  const auto integer_of = [&](std::string_view name) -> std::int64_t {
    const Fact* fact = facts.get(name);
    return fact ? std::get<std::int64_t>(fact->value) : 0;
  };
  const std::int64_t weights = integer_of("model.bytes");
  derive_room(facts, weights, *find_fact("model.bytes"));
  if (weights <= 0) return;
  const bool opened = facts.get("hardware.gpu.memory_used") != nullptr;
  const std::int64_t gpus = integer_of(opened ? "hardware.gpu.memory_used" : "hardware.gpu.memory_total");
  const std::int64_t memory = integer_of("hardware.memory.total");
  if (gpus > 0 && !facts.get("model.fits_gpu")) facts.set("model.fits_gpu", weights <= gpus, kDerived);
  if (memory > 0 && !facts.get("model.fits_memory"))
    facts.set("model.fits_memory", weights <= std::max(memory, gpus), kDerived);
}

void forget_derived(Facts& facts) {
  for (FactId id = 0; id < fact_catalogue().size(); ++id)
    if (const Fact* fact = facts.get(id); fact != nullptr && fact->source == kDerived) facts.forget(id);
}

}  // namespace flyball::policy
