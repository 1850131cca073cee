// Ways to choose an engine that Flyball is compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
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

// Batch work to one engine, all else to a router of people's requests.
class BatchTo final : public Router {
 public:
  BatchTo(std::size_t engine, std::unique_ptr<Router> people) : engine_(engine), people_(std::move(people)) {}
  Placement choose(std::size_t request, const World& world) override {
    if (world.requests()[request].interactive) return people_->choose(request, world);
    batch_.insert(request);
    return {engine_};
  }
  Placement look(std::size_t request, const World& world) override { return people_->look(request, world); }
  std::optional<double> until_look(std::size_t request) const override {
    return batch_.contains(request) ? std::nullopt : people_->until_look(request);
  }
  void began(std::size_t request, const World& world) override {
    if (!batch_.contains(request)) people_->began(request, world);
  }
  void token(std::size_t request, const World& world) override {
    if (!batch_.contains(request)) people_->token(request, world);
  }
  void done(std::size_t request, const World& world) override {
    if (!batch_.contains(request)) people_->done(request, world);
  }

 private:
  std::size_t engine_;
  std::unique_ptr<Router> people_;
  std::unordered_set<std::size_t> batch_;
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

// The field's usual heuristic, prefix cache and load together, by the rule of NVIDIA Dynamo's KV router with
// its defaults, overlap weight 1 and temperature 0 (docs/design_docs/router_design.md, "Cost Calculation"):
//   cost = prefill blocks + decode blocks
// The engine of least cost takes the request; of equal ones the fastest. Prefill blocks are those of prompts
// that the engine has to compute, this one's included, each without the prefix that its cache holds; decode
// blocks are those of its open requests, this one's included. Counted in tokens here. The router knows an
// engine's cache as blocks of kPromptBlock tokens, of which the KV has room for the latest used.
class PrefixAndLoad final : public Router {
 public:
  Placement choose(std::size_t request, const World& world) override;
  void token(std::size_t request, const World& world) override;
  void done(std::size_t request, const World& world) override;

 private:
  struct Engine {
    std::uint64_t to_compute = 0, open = 0;             // tokens
    std::unordered_map<std::uint64_t, double> used_at;  // of blocks in its cache
    std::uint32_t uncached(const SimRequest& request) const;
    void keep(const SimRequest& request, double now, std::uint64_t kv_tokens);
  };
  std::vector<Engine> engines_;
  std::vector<std::uint32_t> to_compute_;  // tokens of each request's prompt, where it is
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

// Every request of an app to the app's engine, with the app's settings.
class FixedByApp final : public Router {
 public:
  explicit FixedByApp(std::vector<Placement> by_app) : by_app_(std::move(by_app)) {}
  Placement choose(std::size_t request, const World& world) override {
    return by_app_[world.requests()[request].app];
  }

 private:
  std::vector<Placement> by_app_;
};

// Seconds that a request takes of an engine among other requests, by the true costs.
double true_work(const EngineSpec& engine, const ModelSpec& model, const SimRequest& request);

}  // namespace flyball::simulation
