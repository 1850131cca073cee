// One simulated run in figures, and the SLOs that its requests are held to.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "tests/bench/simulation/world.hpp"

namespace flyball::simulation {

inline constexpr std::array<double, 3> kSloTtft{1.0, 0.4, 0};  // seconds by AppId; batch has none
inline constexpr double kSloAlone = 3;  // no SLO below so many times its own time alone

// Sets the SLO of each request: its app's, and at least kSloAlone times its TTFT on the machine's fastest
// engine that is loaded, has nothing else to do and has kept no prefix.
void set_slos(const MachineSpec& machine, std::span<SimRequest> requests);

struct Figures {
  std::size_t interactive = 0, within_slo = 0;
  double goodput = 0;                  // interactive requests a second within their SLO
  double ttft_p50 = 0, ttft_p99 = 0;   // seconds, of interactive requests
  double batch_tokens_per_second = 0;  // prompt and output, over the time until the last batch request ended
  double batch_done = 0;               // share of batch requests that ended while requests still arrived
  std::vector<std::size_t> interactive_on, batch_on;  // requests by engine
  std::size_t moved = 0;  // requests of both kinds that changed their engine while they waited
  double share() const noexcept { return interactive == 0 ? 1 : double(within_slo) / double(interactive); }
};
bool within_slo(const SimRequest& request, const Outcome& outcome) noexcept;
double tpot(const Outcome& outcome) noexcept;           // seconds; 0 of one token
double quantile(std::vector<double> values, double q);  // 0 of no values
Figures figures_of(const World& world, double seconds);

}  // namespace flyball::simulation
