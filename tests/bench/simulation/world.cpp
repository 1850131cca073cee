#include "tests/bench/simulation/world.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "config/engine_kinds.hpp"
#include "tests/bench/program.hpp"
#include "tests/bench/simulation/hash.hpp"

namespace flyball::simulation {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

TimePoint point(double seconds) {
  return TimePoint(std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}
double seconds_of(TimePoint time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

std::vector<fleet::MemoryPool> pools_of(const MachineSpec& machine) {
  std::vector<fleet::MemoryPool> pools;
  for (const PoolSpec& pool : machine.pools) pools.push_back({pool.name, pool.bytes, pools.empty()});
  return pools;
}

}  // namespace

Placement Router::look(std::size_t request, const World& world) {
  return world.outcome(request);
}

World::World(const MachineSpec& machine, std::span<const config::AppManifest> apps,
             std::span<const SimRequest> requests, Router& router, std::optional<std::uint64_t> noise_seed,
             Clients* clients)
    : machine_(machine),
      apps_(apps),
      requests_(requests.begin(), requests.end()),
      router_(router),
      clients_(clients),
      turns_(std::make_shared<route::Turns>([this] { return std::llround(now_ * 1e3); })),
      places_(requests.size()),
      arrivals_(requests.size()),
      people_(std::make_shared<route::People>(
          device_groups_of(machine), [this](const route::People::Kinds& kinds) { hold_yielding(kinds); })),
      answers_(requests.size()),
      governor_(pools_of(machine)),
      workers_(machine.engines.size()),
      open_(machine.engines.size()),
      outcomes_(requests.size()),
      unfinished_(requests.size()) {
  engines_.reserve(machine.engines.size());
  for (std::size_t i = 0; i < machine.engines.size(); ++i)
    engines_.emplace_back(machine.engines[i], model_,
                          noise_seed ? std::optional(mixed(*noise_seed + i) % 4096) : std::nullopt);
  for (std::size_t i = 0; i < requests.size(); ++i) add(Event::Kind::arrival, requests[i].at, i);
  if (std::ranges::any_of(machine.engines, &EngineSpec::yields)) yielding_.emplace();
}

void World::run() {
  while (unfinished_ > 0 && (clients_ == nullptr || !clients_->over())) {
    begin_steps();
    double next = events_.empty() ? kNever : events_.top().at;
    std::size_t ending = engines_.size();
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      if (!engines_[i].stepping()) continue;
      const double at = now_ + std::max(engines_[i].left(), 0.0) * slowed(i);
      if (at < next) {
        next = at;
        ending = i;
      }
    }
    if (next == kNever) bench::die("the simulation stands still with requests open");
    advance(next);
    if (ending < engines_.size()) {
      end_step(ending);
    } else {
      const Event event = events_.top();
      events_.pop();
      happen(event);
    }
    give_turns();
  }
  places_.clear();  // of what is open when clients end the run
  answers_.clear();
  for (const SimEngine& engine : engines_)
    if (!engine.balanced() || (unfinished_ == 0 && engine.open() > 0))
      bench::die("the books of a scheduler do not balance");
  std::uint64_t accounted = 0, held = 0;
  for (const auto& pool : governor_.pools()) accounted += pool.accounted;
  for (const Worker& worker : workers_) held += governor_.bytes(worker.id);
  if (accounted != held) bench::die("the governor's books do not balance");
}

void World::add(Event::Kind kind, double at, std::size_t index) {
  events_.push({kind, at, ++order_, index});
}

void World::happen(const Event& event) {
  switch (event.kind) {
    case Event::Kind::arrival:
      arrive(event.index);
      break;
    case Event::Kind::loaded:
      ready(event.index);
      break;
    case Event::Kind::govern:
      govern();
      break;
    case Event::Kind::look:
      look_at(event.index);
      break;
  }
}

void World::arrive(std::size_t index) {
  outcomes_[index].beside_batch = open_batch_ > 0;
  if (!requests_[index].interactive) ++open_batch_;
  arrivals_[index] = turns_->arrive(1);
  stand_in_line(index, router_.choose(index, *this));
}

void World::follow(std::size_t answered) {
  std::optional<SimRequest> request = clients_->next(answered, *this);
  if (!request) return;
  add(Event::Kind::arrival, request->at, requests_.size());
  requests_.push_back(*std::move(request));
  places_.emplace_back();
  arrivals_.emplace_back();
  answers_.emplace_back();
  outcomes_.emplace_back();
  ++unfinished_;
}

void World::stand_in_line(std::size_t index, const Placement& placement) {
  const SimRequest& request = requests_[index];
  Outcome& outcome = outcomes_[index];
  static_cast<Placement&>(outcome) = placement;
  ++open_[outcome.engine];
  places_[index] =
      turns_->ask({kModelId, machine_.engines[outcome.engine].target, SimEngine::kSlots, app_of(index).id,
                   weight_of(index), static_cast<double>(request.prompt_tokens), false, arrivals_[index],
                   outcome.settings.place == config::QueuePlace::behind},
                  [this, index] { granted_.push_back(index); });
  if (const auto seconds = router_.until_look(index)) add(Event::Kind::look, now_ + *seconds, index);
}

void World::look_at(std::size_t index) {
  Outcome& outcome = outcomes_[index];
  if (outcome.began >= 0) return;
  const Placement placement = router_.look(index, *this);
  if (placement.engine == outcome.engine) {
    static_cast<Placement&>(outcome) = placement;
    if (const auto seconds = router_.until_look(index)) add(Event::Kind::look, now_ + *seconds, index);
    return;
  }
  places_[index].settle(0);
  places_[index] = {};
  std::erase(workers_[outcome.engine].waiting, index);
  --open_[outcome.engine];
  ++outcome.moves;
  stand_in_line(index, placement);
}

std::vector<predict::LineState> World::lines(std::size_t request) const {
  const SimRequest& asked = requests_[request];
  std::vector<predict::LineState> out;
  turns_->forecast(kModelId,
                   {app_of(request).id, weight_of(request), static_cast<double>(asked.prompt_tokens), 1,
                    false, arrivals_[request]},
                   out, /*both_places=*/true);
  return out;
}

void World::give_turns() {
  for (std::size_t i = 0; i < granted_.size(); ++i) acquire(granted_[i]);
  granted_.clear();
}

void World::acquire(std::size_t request) {
  const std::size_t engine = outcomes_[request].engine;
  Worker& worker = workers_[engine];
  if (worker.state == EngineState::ready && !worker.held) return begin(request);
  worker.waiting.push_back(request);
  if (worker.state != EngineState::stopped) return;
  worker.state = EngineState::asking;
  worker.id = ++last_id_;
  const auto a_context = static_cast<std::uint64_t>(model_.kv_bytes_per_token * model_.context);
  worker.claim = {};
  worker.claim.model = kModelId;
  worker.claim.pool = machine_.engines[engine].pool;
  worker.claim.need = {static_cast<std::uint64_t>(model_.weight_bytes), model_.scratch_bytes,
                       SimEngine::kSlots * a_context, a_context};
  // Engines of one pool share it: none takes the KV of every slot where the others would find no room.
  std::size_t sharers = 0;
  for (const EngineSpec& other : machine_.engines)
    if (other.pool == worker.claim.pool) ++sharers;
  worker.claim.most = machine_.pools[worker.claim.pool].bytes / sharers;
  worker.claim.askers = {{app_of(request).id}};
  governor_.ask(worker.id, worker.claim, point(now_));
  govern();
}

void World::begin(std::size_t index) {
  const SimRequest& request = requests_[index];
  Outcome& outcome = outcomes_[index];
  outcome.began = now_;
  const EngineSpec& engine = machine_.engines[outcome.engine];
  if (request.interactive && !engine.yields) answers_[index] = people_->at(engine.target);
  router_.began(index, *this);
  const auto taken = engines_[outcome.engine].submit(index, app_of(index).id, request.tokens(),
                                                     request.output_tokens, outcome.settings);
  if (!taken) bench::die("an engine refused a request: " + taken.error().message);
}

void World::govern() {
  std::vector<fleet::Governor::Use> uses;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].state != EngineState::ready) continue;
    uses.push_back({workers_[i].id, {}});
    if (engines_[i].open() == 0) uses.back().idle_since = point(workers_[i].idle_since);
  }
  const auto step = governor_.decide({point(now_), uses, {}, false});
  for (const fleet::Governor::Action& action : step.actions) {
    const auto at = std::ranges::find(workers_, action.id, &Worker::id);
    const auto engine = static_cast<std::size_t>(at - workers_.begin());
    using Kind = fleet::Governor::Action::Kind;
    switch (action.kind) {
      case Kind::load:
        at->state = EngineState::loading;
        at->kv_bytes = action.kv_bytes;
        add(Event::Kind::loaded, now_ + machine_.engines[engine].load_seconds, engine);
        break;
      case Kind::end:  // without a request on it; its KV is lost
        engines_[engine].unload();
        governor_.gone(at->id);
        at->state = EngineState::stopped;
        at->id = 0;
        break;
      case Kind::hold:
      case Kind::release:
        at->held = action.kind == Kind::hold;
        if (!at->held)
          for (const std::size_t waiting : std::exchange(at->waiting, {})) begin(waiting);
        break;
      case Kind::refuse:
        bench::die("the governor refused " + machine_.engines[engine].id + ": " + action.error->message);
    }
  }
  if (step.look_again) add(Event::Kind::govern, std::max(now_, seconds_of(*step.look_again)), 0);
}

void World::ready(std::size_t engine) {
  Worker& worker = workers_[engine];
  worker.state = EngineState::ready;
  worker.idle_since = now_;
  engines_[engine].load(worker.kv_bytes);
  const fleet::MemoryClaim& claim = worker.claim;
  governor_.ready(worker.id, claim, claim.need.weight_bytes + claim.need.scratch_bytes + worker.kv_bytes,
                  point(now_));
  for (const std::size_t waiting : std::exchange(worker.waiting, {})) begin(waiting);
  govern();
}

void World::end_step(std::size_t engine) {
  const std::uint64_t steps = engines_[engine].steps();
  const std::vector<Produced> produced = engines_[engine].end_step(now_);
  if (machine_.engines[engine].yields) {
    const double seconds = std::exchange(in_step_, 0);
    if (engines_[engine].steps() > steps) yielding_->used += seconds;  // else the step was given up
  }
  for (const Produced& token : produced) {
    Outcome& outcome = outcomes_[token.request];
    route::Turns::Place& place = places_[token.request];
    place.generated(1);
    outcome.output_tokens = token.output_tokens;
    if (token.first) {
      outcome.first_step = token.first_step;
      outcome.first_token = now_;
      outcome.cached_tokens = token.cached_tokens;
    }
    router_.token(token.request, *this);
    if (!token.last) continue;
    outcome.done = now_;
    place.settle(requests_[token.request].prompt_tokens - token.cached_tokens);
    place = {};
    answers_[token.request] = {};
    --open_[engine];
    --unfinished_;
    if (!requests_[token.request].interactive) --open_batch_;
    router_.done(token.request, *this);
    if (clients_ != nullptr) follow(token.request);
  }
  if (engines_[engine].open() == 0) workers_[engine].idle_since = now_;
}

void World::begin_steps() {
  for (SimEngine& engine : engines_) engine.begin_step(now_);
}

void World::hold_yielding(const route::People::Kinds& kinds) {
  for (std::size_t i = 0; i < engines_.size(); ++i)
    if (const EngineSpec& engine = machine_.engines[i]; engine.yields)
      engines_[i].hold(std::ranges::find(kinds, config::kind_of(engine.target)) != kinds.end());
}

void World::advance(double until) {
  const double seconds = until - now_;
  for (std::size_t i = 0; i < engines_.size(); ++i)
    if (machine_.engines[i].yields && open_batch_ > 0) count_yielding(i, seconds);
  for (std::size_t i = 0; i < engines_.size(); ++i)
    if (engines_[i].stepping()) engines_[i].work(seconds / slowed(i));
  now_ = until;
}

void World::count_yielding(std::size_t engine, double seconds) {
  if (engines_[engine].held() && engines_[engine].open() > 0) yielding_->held += seconds;
  for (std::size_t i = 0; i < engines_.size(); ++i)
    if (i != engine && machine_.engines[i].pool == machine_.engines[engine].pool && engines_[i].stepping())
      return;
  yielding_->idle += seconds;
  if (engines_[engine].stepping()) in_step_ += seconds;
}

// Whatever else is in a step now takes its share of the same cores and memory.
double World::slowed(std::size_t engine) const {
  double times = 1;
  for (std::size_t other = 0; other < engines_.size(); ++other)
    if (other != engine && engines_[other].stepping()) times *= machine_.slowed[engine][other];
  return times;
}

std::vector<fleet::WorkerStatus> World::status() const {
  std::vector<fleet::WorkerStatus> out;
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    const Worker& worker = workers_[i];
    fleet::WorkerStatus status;
    status.model = kModelId;
    status.backend = machine_.engines[i].target;
    status.state = worker.state == EngineState::ready     ? fleet::WorkerState::ready
                   : worker.state == EngineState::stopped ? fleet::WorkerState::stopped
                                                          : fleet::WorkerState::starting;
    status.load.running = engines_[i].running();
    status.load.waiting = engines_[i].open() - std::min(engines_[i].open(), status.load.running);
    status.load.kv_blocks_total = engines_[i].kv_blocks();
    status.load.kv_blocks_used = engines_[i].kv_blocks_used();
    status.load.steps = engines_[i].steps();
    status.account_bytes = governor_.bytes(worker.id);
    status.info = file_of(model_);
    status.info.backend = status.backend;
    status.info.model = kModelId;
    status.info.max_sequences = SimEngine::kSlots;
    status.info.kv_bytes = worker.kv_bytes;
    status.info.kv_token_bytes = 0;  // of one that is ready, as the daemon has it
    out.push_back(std::move(status));
  }
  return out;
}

fleet::MemoryStatus World::memory() const {
  fleet::MemoryStatus status;
  const auto pools = governor_.pools();
  for (std::size_t i = 0; i < pools.size(); ++i) {
    fleet::PoolStatus pool;
    pool.name = pools[i].name;
    pool.capacity = pools[i].capacity;
    pool.accounted = pools[i].accounted;
    pool.free = governor_.free_for_engines(i, fleet::Governor::kUnknown);
    pool.engines = pools[i].engines;
    pool.waiting = pools[i].waiting;
    if (i > 0)
      for (const EngineSpec& engine : machine_.engines)
        if (engine.pool == i) pool.backends.push_back({engine.target, pool.capacity});
    status.pools.push_back(std::move(pool));
  }
  return status;
}

std::uint64_t World::steps() const {
  std::uint64_t sum = 0;
  for (const SimEngine& engine : engines_) sum += engine.steps();
  return sum;
}

}  // namespace flyball::simulation
