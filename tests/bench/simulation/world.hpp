// A discrete-event simulation of one machine under one load.
//
// Real code, as the daemon runs it: Turns with their FairQueue (who goes next at an engine), the Governor
// (memory for loads, evictions), People (when an engine that yields is held), and in each SimEngine the
// Scheduler with its KV books and prefix index, the StepCostFit and the step budget. A Router decides; the
// one that is Flyball runs gather(), the Predictor and policy::decide() (flyball_router.hpp).
//
// Simulated: time, the steps' durations, loads, and what ties the parts together (the Dispatcher and the
// worker fleet run on sockets and timers). Prompts are tokens already: nothing is prepared.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/app_manifest.hpp"
#include "config/request_settings.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/fleet/governor.hpp"
#include "daemon/route/people.hpp"
#include "daemon/route/turns.hpp"
#include "tests/bench/simulation/engine.hpp"
#include "tests/bench/simulation/machine.hpp"
#include "tests/bench/simulation/workload.hpp"

namespace flyball::simulation {

inline constexpr const char* kModelId = "m";

// The engine that a request goes to, with the settings of its target's profile.
struct Placement {
  std::size_t engine = 0;
  config::RequestSettings settings = {};
  std::string rule = {};  // whose target it is; "": no policy chose
};

// The end of one request. Times are seconds since the simulation began; below 0: never.
struct Outcome : Placement {
  bool beside_batch = false;  // batch requests were open when it came
  double began = -1, first_step = -1, first_token = -1, done = -1;
  std::uint32_t cached_tokens = 0, output_tokens = 0;
  std::uint32_t moves = 0;  // to another engine, while it waited
};

class World;

// Chooses an engine of the machine for each request.
class Router {
 public:
  virtual ~Router() = default;
  virtual Placement choose(std::size_t request, const World& world) = 0;
  // The new placement of a request that waited until this look: it stays, or gives up its place in line.
  virtual Placement look(std::size_t request, const World& world);
  // Seconds until the next look at the request, asked after each of the two; nullopt: there is none.
  virtual std::optional<double> until_look(std::size_t /*request*/) const { return std::nullopt; }
  // Whatever the daemon sees of a request later: the engine takes it, gives a token, has given the last one.
  virtual void began(std::size_t /*request*/, const World&) {}
  virtual void token(std::size_t /*request*/, const World&) {}
  virtual void done(std::size_t /*request*/, const World&) {}
};

// Clients that send a request after an answer.
class Clients {
 public:
  virtual ~Clients() = default;
  // The request that follows the one that has just been answered; its time is not before now.
  virtual std::optional<SimRequest> next(std::size_t answered, const World& world) = 0;
  // The run ends, whatever is open.
  virtual bool over() const = 0;
};

class World {
 public:
  // `machine`, `apps`, `router` and `clients` outlive it. Steps replay the recorded noise from a place that
  // the seed names; nullopt: steps have none. Without clients `requests` are all that come.
  World(const MachineSpec& machine, std::span<const config::AppManifest> apps,
        std::span<const SimRequest> requests, Router& router, std::optional<std::uint64_t> noise_seed,
        Clients* clients = nullptr);

  // Until every request is answered, or the clients end it. Once. Aborts when the books of a part do not
  // balance.
  void run();

  double now() const noexcept { return now_; }
  const MachineSpec& machine() const noexcept { return machine_; }
  const ModelSpec& model() const noexcept { return model_; }
  std::span<const config::AppManifest> apps() const noexcept { return apps_; }
  std::span<const SimRequest> requests() const noexcept { return requests_; }
  const Outcome& outcome(std::size_t request) const { return outcomes_[request]; }
  std::span<const Outcome> outcomes() const noexcept { return outcomes_; }
  // The engines as Fleet::status() has them.
  std::vector<fleet::WorkerStatus> status() const;
  std::size_t waiting_in_line(std::string_view target) const {
    return turns_->waiting(kModelId, std::string(target));
  }
  fleet::MemoryStatus memory() const;
  // The request's turn in the line of each engine: its own, or if it came now.
  std::vector<predict::LineState> lines(std::size_t request) const;
  std::uint64_t kv_tokens(std::size_t engine) const {
    return std::uint64_t{engines_[engine].kv_blocks()} * engine::SchedulerLimits{}.block_size;
  }
  // Requests that were sent to an engine and are not over.
  std::uint32_t open_at(std::size_t engine) const { return open_[engine]; }
  std::uint64_t steps() const;
  // The time of the engine that yields while batch requests were open.
  struct Yielding {
    double idle = 0;  // seconds in which nothing else computed where it does
    double used = 0;  // of these, its own in steps that were not given up
    double held = 0;  // seconds in which it had work and was held
  };
  // nullopt: the machine has no such engine.
  const std::optional<Yielding>& yielding() const noexcept { return yielding_; }

 private:
  struct Event {
    enum class Kind : std::uint8_t { arrival, loaded, govern, look } kind;
    double at = 0;
    std::uint64_t order = 0;
    std::size_t index = 0;  // of a request, or of an engine
    bool operator>(const Event& other) const noexcept {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  enum class EngineState : std::uint8_t { stopped, asking, loading, ready };
  struct Worker {
    EngineState state = EngineState::stopped;
    fleet::Governor::Id id = 0;
    fleet::MemoryClaim claim;
    std::uint64_t kv_bytes = 0;
    bool held = false;
    double idle_since = 0;
    std::vector<std::size_t> waiting;  // requests whose turn has come
  };

  void add(Event::Kind kind, double at, std::size_t index);
  void happen(const Event& event);
  void arrive(std::size_t request);
  void follow(std::size_t answered);
  void stand_in_line(std::size_t request, const Placement& placement);
  void look_at(std::size_t request);
  void give_turns();
  void acquire(std::size_t request);
  const config::AppManifest& app_of(std::size_t request) const { return apps_[requests_[request].app]; }
  double weight_of(std::size_t request) const { return app_of(request).weight() / 100.0; }
  void begin(std::size_t request);
  void govern();
  void ready(std::size_t engine);
  void end_step(std::size_t engine);
  void begin_steps();
  void hold_yielding(const route::People::Kinds& kinds);
  void advance(double until);
  void count_yielding(std::size_t engine, double seconds);
  double slowed(std::size_t engine) const;
  std::uint64_t least_bytes() const;

  const MachineSpec& machine_;
  const ModelSpec model_;
  const std::span<const config::AppManifest> apps_;
  std::vector<SimRequest> requests_;
  Router& router_;
  Clients* const clients_;
  double now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::shared_ptr<route::Turns> turns_;
  std::vector<route::Turns::Place> places_;
  std::vector<route::FairQueue::Id> arrivals_;
  std::vector<std::size_t> granted_;  // whose turn has just come
  std::shared_ptr<route::People> people_;
  std::vector<route::People::Place> answers_;  // that people wait for, by request
  fleet::Governor governor_;
  fleet::Governor::Id last_id_ = 0;
  std::vector<Worker> workers_;
  std::vector<SimEngine> engines_;
  std::vector<std::uint32_t> open_;
  std::vector<Outcome> outcomes_;
  std::size_t unfinished_ = 0, open_batch_ = 0;
  std::optional<Yielding> yielding_;
  double in_step_ = 0;  // of Yielding::used: seconds of the step in flight
};

}  // namespace flyball::simulation
