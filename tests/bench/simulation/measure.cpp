#include "tests/bench/simulation/measure.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "tests/bench/simulation/calibration.hpp"

namespace flyball::simulation {

void set_slos(const MachineSpec& machine, std::span<SimRequest> requests) {
  const ModelSpec model;
  // Between lengths that are an eighth apart the time grows about as the length does.
  std::map<std::uint32_t, double> known;
  const auto alone = [&](std::uint32_t tokens) {
    const std::uint32_t length = std::max(64U, (tokens + 63) / 64 * 64);
    const auto at = known.find(length);
    if (at != known.end()) return at->second;
    double least = std::numeric_limits<double>::infinity();
    for (const EngineSpec& engine : machine.engines)
      least = std::min(least, ttft_alone(engine, model, length));
    return known[length] = least;
  };
  for (SimRequest& request : requests) {
    const double slo = kSloTtft[request.app];
    request.slo_ttft = slo == 0 ? 0 : std::max(slo, kSloAlone * alone(request.prompt_tokens));
  }
}

double tpot(const Outcome& outcome) noexcept {
  return outcome.output_tokens < 2 ? 0 : (outcome.done - outcome.first_token) / (outcome.output_tokens - 1);
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size()))) - 1;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return values[at];
}

bool within_slo(const SimRequest& request, const Outcome& outcome) noexcept {
  return outcome.first_token >= 0 && outcome.first_token - request.at <= request.slo_ttft;
}

Figures figures_of(const World& world, double seconds) {
  Figures out;
  out.interactive_on.resize(world.machine().engines.size());
  out.batch_on.resize(world.machine().engines.size());
  std::vector<double> ttft;
  double batch_tokens = 0, batch_seconds = 0;
  std::size_t batch = 0, in_time = 0;
  for (std::size_t i = 0; i < world.requests().size(); ++i) {
    const SimRequest& request = world.requests()[i];
    const Outcome& outcome = world.outcome(i);
    if (outcome.moves > 0) ++out.moved;
    if (request.interactive) {
      ++out.interactive;
      if (outcome.done >= 0) ++out.interactive_on[outcome.engine];
      if (within_slo(request, outcome)) ++out.within_slo;
      ttft.push_back(outcome.first_token - request.at);
      continue;
    }
    ++batch;
    if (outcome.done >= 0) ++out.batch_on[outcome.engine];
    batch_tokens += request.prompt_tokens + outcome.output_tokens;
    batch_seconds = std::max(batch_seconds, outcome.done);
    if (outcome.done <= seconds) ++in_time;
  }
  out.goodput = static_cast<double>(out.within_slo) / seconds;
  out.ttft_p50 = quantile(ttft, 0.5);
  out.ttft_p99 = quantile(ttft, 0.99);
  if (batch > 0) {
    out.batch_tokens_per_second = batch_tokens / batch_seconds;
    out.batch_done = static_cast<double>(in_time) / static_cast<double>(batch);
  }
  return out;
}

}  // namespace flyball::simulation
