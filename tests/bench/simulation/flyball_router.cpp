#include "tests/bench/simulation/flyball_router.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "backends/graph/memory_plan.hpp"
#include "daemon/measure/book.hpp"
#include "daemon/predict/predictor.hpp"
#include "daemon/route/facts.hpp"
#include "policy/decide.hpp"
#include "tests/bench/program.hpp"
#include "tests/bench/simulation/calibration.hpp"
#include "tests/bench/simulation/hash.hpp"

namespace flyball::simulation {
namespace {

constexpr std::int64_t kUnixSeconds =
    1'800'000'000;  // the simulation's date: measurements never expire in it

TimePoint point(double seconds) {
  return TimePoint(std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}

config::ModelEntry model_entry(const ModelSpec& model) {
  config::ModelEntry entry;
  entry.id = kModelId;
  entry.embedded = true;  // it has a digest without a file
  entry.context = model.context;
  entry.max_sequences = SimEngine::kSlots;
  return entry;
}

// As `flyball calibrate` would have measured the machine's engines, one after the other.
measure::Book book_of(const MachineSpec& machine, const config::ModelEntry& entry) {
  std::vector<measure::Engine> engines;
  std::vector<measure::Measured> measured;
  const std::string digest = measure::model_digest(entry);
  for (const EngineSpec& spec : machine.engines) {
    engines.push_back({spec.target, "simulated " + spec.id, "1"});
    for (measure::Figure figure : calibrate(spec, ModelSpec{})) {
      figure.measured_at = kUnixSeconds;
      measured.push_back({measure::subject_of(engines.back(), digest, entry), figure});
    }
  }
  return measure::Book(measured, engines, {&entry, 1});
}

policy::Facts hardware_of(const MachineSpec& machine) {
  policy::Facts facts;
  for (const std::string_view name : policy::default_targets()->names())
    facts.set(facts.targets()->fact_of(name, policy::TargetFact::available), false, "probe");
  for (const EngineSpec& engine : machine.engines)
    facts.set(facts.targets()->fact_of(engine.target, policy::TargetFact::available), true, "probe");
  facts.set("hardware.gpu.discrete_count", std::int64_t{machine.has_gpu ? 1 : 0}, "probe");
  facts.set("hardware.memory.unified", !machine.has_gpu, "probe");
  return facts;
}

// The machine has one GPU, which all its engines with devices open.
predict::DeviceGroups device_groups_of(const MachineSpec& machine) {
  if (!machine.has_gpu) return {};
  return {config::engine_ids(config::KindFilter::with_devices)};
}

class FlyballRouter final : public Router {
 public:
  explicit FlyballRouter(const MachineSpec& machine)
      : machine_(machine),
        tree_(bench::expect(policy::parse_policy(policy_of(machine), "policy.yaml"))),
        hardware_(hardware_of(machine)),
        model_(model_entry(ModelSpec{})),
        book_(book_of(machine, model_)),
        predictor_(KeyedHash(mixed(1), mixed(2)), device_groups_of(machine)) {
    for (const AppId app : {AppId::chat, AppId::code, AppId::batch}) {
      config::AppManifest& manifest = apps_[static_cast<std::size_t>(app)];
      manifest.id = name_of(app);
      manifest.workload.kind =
          app == AppId::batch ? config::WorkloadClass::batch : config::WorkloadClass::chat;
    }
  }

  std::size_t choose(std::size_t index, const World& world) override {
    asked_.resize(world.requests().size());
    const SimRequest& request = world.requests()[index];
    Asked& asked = asked_[index];
    config::AppManifest& app = apps_[static_cast<std::size_t>(request.app)];
    app.slo.ttft.reset();
    // The SLO of this request, which a client would give in x-slo-ttft-ms.
    if (request.slo_ttft > 0) app.slo.ttft = std::chrono::milliseconds(std::llround(request.slo_ttft * 1e3));
    asked.prompt =
        std::make_shared<const predict::PromptPrint>(predictor_.print_of(TextPrompt{request.text()}, app.id));
    route::RequestTraits traits;
    traits.operation = "completion";
    traits.prompt_bytes = asked.prompt->bytes;
    traits.stream = true;
    const route::LiveState live{world.status(), world.memory()};
    policy::Facts facts = route::gather(hardware_, std::chrono::milliseconds(0), app, model_, traits, live,
                                        nullptr, book_, kUnixSeconds);
    predict::Query query = query_of(index, world);
    std::vector<predict::EngineState> engines;
    for (const fleet::WorkerStatus& worker : live.workers) engines.push_back(state_of(worker));
    query.engines = engines;
    const std::vector<predict::LineState> lines = world.lines(index);
    query.lines = lines;
    predictor_.predict(query, facts);
    policy::decide(tree_, facts, decision_);
    if (decision_.target == nullptr) bench::die("the policy names no engine that is available");
    const auto at = std::ranges::find(machine_.engines, decision_.target->backend, &EngineSpec::target);
    asked.place = predictor_.enter({query, at->target, facts});
    return static_cast<std::size_t>(at - machine_.engines.begin());
  }

  void began(std::size_t request, const World& world) override {
    asked_[request].place.began(point(world.now()));
  }

  void token(std::size_t request, const World& world) override {
    const Outcome& outcome = world.outcome(request);
    Delta delta;
    delta.tokens = {1};
    if (outcome.output_tokens == 1) {
      delta.prompt_tokens = world.requests()[request].prompt_tokens;
      delta.cached_tokens = outcome.cached_tokens;
    }
    asked_[request].place.received(delta, point(world.now()));
  }

  void done(std::size_t index, const World& world) override {
    const Outcome& outcome = world.outcome(index);
    const auto us = [](double seconds) { return static_cast<std::uint64_t>(std::llround(seconds * 1e6)); };
    Timings timings;
    timings.queue_us = us(outcome.first_step - outcome.began);
    timings.prefill_us = us(outcome.first_token - outcome.first_step);
    timings.decode_us = us(outcome.done - outcome.first_token);
    Asked& asked = asked_[index];
    asked.place.finished(
        {world.requests()[index].prompt_tokens, outcome.output_tokens, outcome.cached_tokens}, timings,
        point(world.now()));
    asked = {};
  }

 private:
  struct Asked {
    std::shared_ptr<const predict::PromptPrint> prompt;
    predict::Predictor::Place place;
  };

  predict::Query query_of(std::size_t index, const World& world) const {
    predict::Query query;
    query.app = name_of(world.requests()[index].app);
    query.model = kModelId;
    query.prompt = asked_[index].prompt;
    query.slots = model_.max_sequences;
    query.book = &book_;
    query.unix_seconds = kUnixSeconds;
    query.now = point(world.now());
    query.request = index + 1;
    return query;
  }
  static predict::EngineState state_of(const fleet::WorkerStatus& worker) {
    const std::uint64_t block = graph::KvLayout{}.block_size;
    return {worker.backend,
            worker.state == fleet::WorkerState::ready,
            1,
            block * worker.load.kv_blocks_total,
            block * worker.load.kv_blocks_used,
            false};
  }

  const MachineSpec& machine_;
  const policy::Tree tree_;
  const policy::Facts hardware_;
  const config::ModelEntry model_;
  const measure::Book book_;
  std::array<config::AppManifest, 3> apps_;
  predict::Predictor predictor_;
  std::vector<Asked> asked_;  // by request; their places go before the predictor
  policy::Decision decision_;
};

}  // namespace

std::string policy_of(const MachineSpec& machine) {
  std::string all;
  for (const EngineSpec& engine : machine.engines) all += (all.empty() ? "" : ", ") + engine.target;
  return "schema: flyball.policy/v1\n"
         "rules:\n"
         "  - id: interactive\n"
         "    because: a person waits for the first token\n"
         "    when: {fact: app.slo.ttft, exists: true}\n"
         "    use: [" +
         all +
         "]\n"
         "    pick: meets_slo\n"
         "    on_slo_miss: fastest\n"
         "default:\n"
         "  because: nobody waits for batch work, so it leaves the faster engines to people\n"
         "  use: [" +
         machine.engines.back().target + "]\n";
}

std::unique_ptr<Router> make_flyball_router(const MachineSpec& machine) {
  return std::make_unique<FlyballRouter>(machine);
}

}  // namespace flyball::simulation
