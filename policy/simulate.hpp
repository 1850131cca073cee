// Past requests decided again by another policy: what would move, and what is known of the place it would
// move to. Pure; the past comes in, in the order in which it happened.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "policy/decide.hpp"

namespace flyball::policy {

struct PastRequest {
  std::string_view app, model, rule;
  std::string_view target;     // "vulkan:latency"; "" where none was chosen
  std::string_view served_by;  // the engine that alone served it to its end; "" where there is none such
  double ttft_ms = -1;         // as its client saw it; -1: it had no token
  const Facts& facts;
};

class Simulation {
 public:
  explicit Simulation(const Tree& tree) : tree_(tree) {}  // the tree outlives it

  void add(const PastRequest& past);

  struct Totals {
    std::uint64_t requests = 0, moved = 0, lost = 0;  // lost: had a target, would have none; also moved
    double moved_percent() const noexcept {
      return requests == 0 ? 0 : 100.0 * static_cast<double>(moved) / static_cast<double>(requests);
    }
  };
  const Totals& totals() const noexcept { return totals_; }

  // flyball.simulation/v1: the totals; `moves` by app, class and model, from (target, rule) and to (target,
  // rule and outcome: chosen, queued, denied or unavailable); `rules`: same target, another rule; `switches`:
  // by model, how often two neighbours in time were meant for different engines.
  //
  // A move is that of one app and workload class. Either side has the median TTFT that their requests of the
  // model had on the engine (`of`: "app"); where they had none there, that of all apps' requests ("all");
  // null where nobody had one.
  nlohmann::json report() const;

 private:
  struct Switches {
    std::string before, after;  // the engine that the last one was meant for
    std::uint64_t recorded = 0, simulated = 0;
  };
  struct Workload {
    std::string app, workload_class, model;
    auto operator<=>(const Workload&) const = default;
  };
  struct Move {
    Workload of;
    std::string target, rule, new_target, new_rule, outcome;
    auto operator<=>(const Move&) const = default;
  };
  nlohmann::json ttft(const Workload& of, const std::string& target) const;

  const Tree& tree_;
  Decision decision_;
  Totals totals_;
  std::map<Move, std::uint64_t> moves_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> other_rule_;
  std::map<std::pair<Workload, std::string>, std::vector<double>>
      ttft_ms_;  // by engine; all apps': by model alone
  std::map<std::string, Switches> switches_;                                    // by model
};

// The report for a terminal.
std::string simulation_text(const nlohmann::json& report);

}  // namespace flyball::policy
