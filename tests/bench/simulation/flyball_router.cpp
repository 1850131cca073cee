#include "tests/bench/simulation/flyball_router.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "backends/graph/memory_plan.hpp"
#include "daemon/measure/book.hpp"
#include "daemon/predict/predictor.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/route/dispatcher_impl.hpp"
#include "daemon/route/facts.hpp"
#include "daemon/route/reconsideration.hpp"
#include "policy/decide.hpp"
#include "policy/profile.hpp"
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
    if (config::find_engine_kind(spec.target) == nullptr) continue;  // it has its kind's figures
    engines.push_back({spec.target, "simulated " + spec.id, "1"});
    for (measure::Figure figure : calibrate(spec, ModelSpec{})) {
      figure.measured_at = kUnixSeconds;
      measured.push_back({measure::subject_of(engines.back(), digest, entry), figure});
    }
  }
  return measure::Book(measured, engines, {&entry, 1});
}

// The machine in a report of the probe. It runs the engines of profiles that it names, and no others.
policy::Facts hardware_of(const MachineSpec& machine, const policy::Targets& targets) {
  probe::HardwareReport report;
  report.cpu.cores = report.cpu.threads = machine.cores;
  report.cpu.memory_total = report.cpu.memory_available = machine.pools.front().bytes;
  for (const EngineSpec& engine : machine.engines)
    if (const auto* kind = config::find_engine_kind(engine.target); kind != nullptr && kind->has_devices())
      report.devices[*kind].devices = machine.gpus;
  policy::Facts facts = policy::in_catalogue(probe::facts_of(report, {}), targets);
  for (const policy::TargetInstance& target : targets->instances())
    if (target.is_own_engine() &&
        std::ranges::find(machine.engines, target.id, &EngineSpec::target) == machine.engines.end())
      facts.set(policy::fact_of(target, policy::TargetFact::available), false, "simulation");
  return facts;
}

class FlyballRouter final : public Router {
 public:
  FlyballRouter(const MachineSpec& machine, const policy::Tree& tree,
                std::span<const config::AppManifest> apps)
      : machine_(machine),
        tree_(tree),
        profiles_(route::profiles_of(tree)),
        hardware_(hardware_of(machine, tree.targets)),
        file_(file_of(ModelSpec{})),
        model_(model_entry(ModelSpec{})),
        book_(book_of(machine, model_)),
        apps_(apps.begin(), apps.end()),
        predictor_(KeyedHash(mixed(1), mixed(2)), device_groups_of(machine)) {}

  Placement choose(std::size_t index, const World& world) override {
    asked_.resize(world.requests().size());
    const SimRequest& request = world.requests()[index];
    Asked& asked = asked_[index];
    asked.prompt = std::make_shared<const predict::PromptPrint>(
        predictor_.print_of(TextPrompt{request.text()}, apps_[request.app].id));
    asked.reconsideration = route::Reconsideration(app_of(request).slo);
    const policy::Facts facts = facts_for(index, world);
    policy::decide(tree_, facts, asked.decision);
    if (asked.decision.target == nullptr) bench::die("the policy names no engine that is available");
    decided(asked, route::outlook_of(asked.decision, facts, waited(index, world)));
    return enter(index, world, facts);
  }

  // Follows RunningJob::reconsider().
  Placement look(std::size_t index, const World& world) override {
    Asked& asked = asked_[index];
    const policy::Facts facts = facts_for(index, world);
    const std::chrono::microseconds so_far = waited(index, world);
    const route::Outlook now = route::outlook_of(asked.decision, facts, so_far);
    if (!asked.reconsideration.reason(now)) {
      asked.until_look = asked.reconsideration.until_look(now);
      return world.outcome(index);
    }
    const std::string from = asked.decision.target->backend;
    policy::decide(tree_, facts, deciding_);
    if (deciding_.target != nullptr && !route::stays_against(deciding_, facts, from))
      asked.decision = deciding_;
    decided(asked, route::outlook_of(asked.decision, facts, so_far));
    if (asked.decision.target->backend != from) return enter(index, world, facts);
    Placement placement = world.outcome(index);
    placement.settings = settings_of(*asked.decision.target);
    placement.rule = asked.decision.rule->id;
    asked.place.asks(placement.settings);
    return placement;
  }

  std::optional<double> until_look(std::size_t index) const override {
    const auto& time = asked_[index].until_look;
    return time ? std::optional(std::chrono::duration<double>(*time).count()) : std::nullopt;
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
    policy::Decision decision;
    route::Reconsideration reconsideration{{}};
    std::optional<std::chrono::microseconds> until_look;
  };

  static void decided(Asked& asked, const route::Outlook& outlook) {
    asked.reconsideration.decided(outlook);
    asked.until_look = asked.reconsideration.until_look(outlook);
  }
  static std::chrono::microseconds waited(std::size_t index, const World& world) {
    return std::chrono::microseconds(std::llround((world.now() - world.requests()[index].at) * 1e6));
  }
  // With the SLO of this request.
  const config::AppManifest& app_of(const SimRequest& request) {
    config::AppManifest& app = apps_[request.app];
    app.slo.ttft.reset();
    if (request.slo_ttft > 0) app.slo.ttft = std::chrono::milliseconds(std::llround(request.slo_ttft * 1e3));
    return app;
  }

  predict::Query query_of(std::size_t index, const World& world) const {
    const SimRequest& request = world.requests()[index];
    predict::Query query;
    query.app = apps_[request.app].id;
    query.model = kModelId;
    query.prompt = asked_[index].prompt;
    query.declared_output = *apps_[request.app].workload.output_tokens;
    query.slots = model_.max_sequences;
    query.book = &book_;
    query.unix_seconds = kUnixSeconds;
    query.now = point(world.now());
    query.request = index + 1;
    const config::AppManifest& app = apps_[static_cast<std::size_t>(world.requests()[index].app)];
    query.interactive = app.is_interactive(app.slo);
    return query;
  }
  policy::Facts facts_for(std::size_t index, const World& world) {
    const Asked& asked = asked_[index];
    route::RequestTraits traits;
    traits.operation = "completion";
    traits.prompt_bytes = asked.prompt->bytes;
    traits.stream = true;
    traits.waited = std::chrono::duration_cast<std::chrono::milliseconds>(waited(index, world));
    const std::vector<predict::LineState> lines = world.lines(index);
    route::LiveState live{world.status(), world.memory()};
    for (fleet::WorkerStatus& worker : live.workers) {
      const auto line = std::ranges::find(lines, worker.backend, &predict::LineState::backend);
      const bool own = asked.place && asked.decision.target->backend == worker.backend && line != lines.end();
      worker.load.waiting +=
          own ? line->turn.before : static_cast<std::uint32_t>(world.waiting_in_line(worker.backend));
    }
    policy::Facts facts =
        route::gather(hardware_, std::chrono::milliseconds(0), app_of(world.requests()[index]), model_,
                      traits, live, &file_, book_, kUnixSeconds);
    const std::vector<std::string>& gave_up = asked.reconsideration.left();
    if (!gave_up.empty()) policy::forget_derived(facts);
    for (const std::string& backend : gave_up)
      facts.set(facts.targets()->fact_of(backend, policy::TargetFact::available), false, "request");
    std::vector<predict::EngineState> engines;
    for (const fleet::WorkerStatus& worker : live.workers) engines.push_back(state_of(worker));
    predict::Query query = query_of(index, world);
    query.profiles = profiles_;
    query.engines = engines;
    query.lines = lines;
    query.asks_delay_to_others = tree_.program.asks_delay_to_others;
    predictor_.predict(query, facts);
    if (!gave_up.empty()) policy::derive(facts);
    return facts;
  }
  // The predictor counts the request among those at the decision's target.
  Placement enter(std::size_t index, const World& world, const policy::Facts& facts) {
    const policy::Target& target = *asked_[index].decision.target;
    const auto at = std::ranges::find(machine_.engines, target.backend, &EngineSpec::target);
    if (at == machine_.engines.end()) bench::die("the machine has no engine " + target.backend);
    const std::vector<predict::LineState> lines = world.lines(index);
    predict::Query query = query_of(index, world);
    query.settings = settings_of(target);
    query.lines = lines;
    const bool moved = static_cast<bool>(asked_[index].place);
    asked_[index].place = {};
    asked_[index].place = predictor_.enter({query, at->target, facts, true, false, moved});
    return {static_cast<std::size_t>(at - machine_.engines.begin()), query.settings,
            asked_[index].decision.rule->id};
  }
  config::RequestSettings settings_of(const policy::Target& target) const {
    const config::RequestSettings* const settings = policy::settings_of(tree_, target);
    return settings == nullptr ? config::RequestSettings{} : *settings;
  }
  static predict::EngineState state_of(const fleet::WorkerStatus& worker) {
    const std::uint64_t block = graph::KvLayout{}.block_size;
    return {worker.backend,
            worker.state == fleet::WorkerState::ready,
            1,
            block * worker.load.kv_blocks_total,
            block * worker.load.kv_blocks_used,
            worker.load.spills,
            worker.info.digest,
            worker.state == fleet::WorkerState::starting && worker.account_bytes > 0};
  }

  const MachineSpec& machine_;
  const policy::Tree& tree_;
  const std::vector<predict::ProfileTarget> profiles_;
  const policy::Facts hardware_;
  const BackendInfo file_;
  const config::ModelEntry model_;
  const measure::Book book_;
  std::vector<config::AppManifest> apps_;
  predict::Predictor predictor_;
  std::vector<Asked> asked_;  // by request; their places go before the predictor
  policy::Decision deciding_;  // storage for decide()
};

}  // namespace

std::unique_ptr<Router> make_flyball_router(const MachineSpec& machine, const policy::Tree& tree,
                                            std::span<const config::AppManifest> apps) {
  return std::make_unique<FlyballRouter>(machine, tree, apps);
}

}  // namespace flyball::simulation
