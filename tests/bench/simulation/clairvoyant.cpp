#include "tests/bench/simulation/clairvoyant.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "tests/bench/simulation/routers.hpp"

namespace flyball::simulation {
namespace {

struct Tried {
  std::vector<Placement> plan;
  Figures figures;
  std::vector<std::size_t> missed;  // interactive requests beyond their SLO
};

bool better(const Figures& left, const Figures& right) {
  if (left.within_slo != right.within_slo) return left.within_slo > right.within_slo;
  return left.batch_tokens_per_second > right.batch_tokens_per_second;
}

}  // namespace

Figures clairvoyant(const MachineSpec& machine, std::span<const SimRequest> requests, double seconds,
                    const std::vector<std::vector<Placement>>& starts, std::uint64_t noise_seed,
                    const SearchOptions& options) {
  const auto simulate = [&](std::vector<Placement> plan) {
    Planned router(plan);
    World world(machine, trace_apps(), requests, router, noise_seed);
    world.run();
    Tried tried{std::move(plan), figures_of(world, seconds), {}};
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (requests[i].interactive && !within_slo(requests[i], world.outcome(i))) tried.missed.push_back(i);
    return tried;
  };
  Tried best = simulate(starts.front());
  for (std::size_t i = 1; i < starts.size(); ++i)
    if (Tried tried = simulate(starts[i]); better(tried.figures, best.figures)) best = std::move(tried);
  if (machine.engines.size() < 2) return best.figures;

  std::mt19937_64 random(options.seed);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  const auto another = [&](std::size_t engine) {
    return (engine + 1 + below(machine.engines.size() - 1)) % machine.engines.size();
  };
  for (std::uint32_t n = 0; n < options.simulations && !best.missed.empty(); ++n) {
    std::vector<Placement> plan = best.plan;
    // Moves away what was late, or what came just before it to the same engine and made it late.
    const std::size_t moves = 1 + below(std::max<std::size_t>(1, best.missed.size() / 4));
    for (std::size_t move = 0; move < moves; ++move) {
      std::size_t request = best.missed[below(best.missed.size())];
      if (below(2) == 0) {
        std::size_t before = request;
        for (std::size_t steps = 1 + below(6); before > 0 && steps > 0; --steps) --before;
        if (plan[before].engine == plan[request].engine) request = before;
      }
      plan[request].engine = another(plan[request].engine);
    }
    // Batch work next to it, too: a part of one engine's goes to another.
    if (below(4) == 0) {
      const std::size_t from = below(machine.engines.size()), to = another(from);
      for (std::size_t i = 0; i < requests.size(); ++i)
        if (!requests[i].interactive && plan[i].engine == from && below(4) == 0) plan[i].engine = to;
    }
    if (Tried tried = simulate(std::move(plan)); better(tried.figures, best.figures)) best = std::move(tried);
  }
  return best.figures;
}

}  // namespace flyball::simulation
