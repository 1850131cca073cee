#include "tests/bench/simulation/routers.hpp"

#include <algorithm>

namespace flyball::simulation {

Placement LeastQueue::choose(std::size_t, const World& world) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < world.machine().engines.size(); ++i)
    if (world.open_at(i) < world.open_at(best)) best = i;
  return {best};
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
