// Ways to choose an engine that Flyball is compared with.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/simulation/world.hpp"

namespace flyball::simulation {

// Every request to one engine.
class OneEngine final : public Router {
 public:
  explicit OneEngine(std::size_t engine) : engine_(engine) {}
  Placement choose(std::size_t, const World&) override { return {engine_}; }

 private:
  std::size_t engine_;
};

class RoundRobinRouter final : public Router {
 public:
  Placement choose(std::size_t, const World& world) override {
    return {next_++ % world.machine().engines.size()};
  }

 private:
  std::size_t next_ = 0;
};

// The engine with the fewest open requests; of equal ones the fastest.
class LeastQueue final : public Router {
 public:
  Placement choose(std::size_t, const World& world) override;
};

// The engine that would have done its open work and this request first, by the true costs and output lengths.
// Only a start for the clairvoyant search: no daemon knows them.
class LeastTrueWork final : public Router {
 public:
  Placement choose(std::size_t request, const World& world) override;
  void done(std::size_t request, const World& world) override;

 private:
  std::vector<double> work_;     // seconds of open requests, by engine
  std::vector<double> request_;  // of each request where it is
};

// As somebody has planned it.
class Planned final : public Router {
 public:
  explicit Planned(std::vector<Placement> plan) : plan_(std::move(plan)) {}
  Placement choose(std::size_t request, const World&) override { return plan_[request]; }

 private:
  std::vector<Placement> plan_;
};

// Seconds that a request takes of an engine among other requests, by the true costs.
double true_work(const EngineSpec& engine, const ModelSpec& model, const SimRequest& request);

}  // namespace flyball::simulation
