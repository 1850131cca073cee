#include "tests/bench/simulation/routers.hpp"

#include <algorithm>
#include <utility>

namespace flyball::simulation {

Placement LeastQueue::choose(std::size_t, const World& world) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < world.machine().engines.size(); ++i)
    if (world.open_at(i) < world.open_at(best)) best = i;
  return {best};
}

std::uint32_t PrefixAndLoad::Engine::uncached(const SimRequest& request) const {
  std::uint32_t cached = 0;
  while (cached + kPromptBlock <= request.prompt_tokens &&
         used_at.contains(request.block(cached / kPromptBlock)))
    cached += kPromptBlock;
  return request.prompt_tokens - cached;
}

void PrefixAndLoad::Engine::keep(const SimRequest& request, double now, std::uint64_t kv_tokens) {
  for (std::uint32_t n = 0; n < request.prompt_tokens / kPromptBlock; ++n) used_at[request.block(n)] = now;
  // Later blocks of a prompt go first: without its beginning a prefix is of no use.
  while (used_at.size() * kPromptBlock > kv_tokens)
    used_at.erase(std::ranges::min_element(
        used_at, {}, [](const auto& block) { return std::pair(block.second, ~block.first); }));
}

Placement PrefixAndLoad::choose(std::size_t request, const World& world) {
  const SimRequest& asked = world.requests()[request];
  engines_.resize(world.machine().engines.size());
  to_compute_.resize(world.requests().size());
  const auto best = std::ranges::min_element(engines_, {}, [&](const Engine& engine) {
    return engine.to_compute + engine.uncached(asked) + engine.open + asked.prompt_tokens;
  });
  to_compute_[request] = best->uncached(asked);
  best->to_compute += to_compute_[request];
  best->open += asked.prompt_tokens;
  return {static_cast<std::size_t>(best - engines_.begin())};
}

void PrefixAndLoad::token(std::size_t request, const World& world) {
  const Outcome& outcome = world.outcome(request);
  Engine& engine = engines_[outcome.engine];
  ++engine.open;
  if (outcome.output_tokens > 1) return;
  engine.to_compute -= to_compute_[request];
  engine.keep(world.requests()[request], world.now(), world.kv_tokens(outcome.engine));
}

void PrefixAndLoad::done(std::size_t request, const World& world) {
  const Outcome& outcome = world.outcome(request);
  engines_[outcome.engine].open -= world.requests()[request].prompt_tokens + outcome.output_tokens;
}

double true_work(const EngineSpec& engine, const ModelSpec& model, const SimRequest& request) {
  engine::StepPlan prompt;
  prompt.sequences.push_back({1, 0, request.prompt_tokens, true});
  prompt.work = engine::StepWork::of(0, request.prompt_tokens);
  engine::StepPlan token;
  token.sequences.push_back({1, request.prompt_tokens, 1, true});
  token.work = engine::StepWork::of(request.prompt_tokens, 1);
  // Several streams share a decode step: each takes about a third of it.
  constexpr double kStepsShared = 3;
  return step_seconds(engine, model, prompt) +
         request.output_tokens * step_seconds(engine, model, token) / kStepsShared;
}

Placement LeastTrueWork::choose(std::size_t request, const World& world) {
  const auto& engines = world.machine().engines;
  work_.resize(engines.size());
  request_.resize(world.requests().size());
  std::size_t best = 0;
  double least = 0;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    const double own = true_work(engines[i], world.model(), world.requests()[request]);
    if (i == 0 || work_[i] + own < least) {
      best = i;
      least = work_[i] + own;
      request_[request] = own;
    }
  }
  work_[best] += request_[request];
  return {best};
}

void LeastTrueWork::done(std::size_t request, const World& world) {
  work_[world.outcome(request).engine] -= request_[request];
}

}  // namespace flyball::simulation
