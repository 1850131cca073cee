// Past requests decided again by another policy: what would move, and what is known of the place it would
// move to. Pure; the past comes in, in the order in which it happened.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "policy/decide.hpp"

namespace flyball::policy {

struct PastRequest {
  std::string_view app, model, rule;
  std::string_view target;     // "vulkan:latency"; "" where none was chosen
  std::string_view served_by;  // the engine that alone served it to its end; "" where there is none such
  double ttft_ms = -1;         // as its client saw it; -1: it had no token
  const Facts& facts;          // workload.class names the class of the app
};

class Simulation {
 public:
  explicit Simulation(const Tree& tree) : tree_(tree) {}  // the tree outlives it

  void add(const PastRequest& past);
  // Adds the request's TTFT to the medians over all apps, and decides nothing. For a request of an app that
  // the simulation leaves out.
  void add_ttft(const PastRequest& past);

  struct Totals {
    std::uint64_t requests = 0, moved = 0, lost = 0;  // lost: had a target, would have none; also moved
    double moved_percent() const noexcept {
      return requests == 0 ? 0 : 100.0 * static_cast<double>(moved) / static_cast<double>(requests);
    }
  };
  const Totals& totals() const noexcept { return totals_; }

  // flyball.simulation/v1: the totals; `moves` by app, class (null: unknown) and model, from (target, rule)
  // and to (target, rule and outcome: chosen, queued, denied or unavailable), with a median TTFT for either
  // engine; `rules`: same target, another rule; `switches`: by model, how often two neighbours in time were
  // meant for different engines. A median is over the requests for that model on that engine. `of` says whose
  // requests: "app" for those of this app and class, "all" for those of all apps, because this app and class
  // had none there. The median is null if nobody had any.
  nlohmann::json report() const;

 private:
  struct Switches {
    std::string before, after;  // the engine that the last one was meant for
    std::uint64_t recorded = 0, simulated = 0;
  };
  struct AppClass {
    std::string app, kind;  // kind: the class; "": unknown
    auto operator<=>(const AppClass&) const = default;
  };
  struct Move {
    AppClass app_class;
    std::string model, target, rule, new_target, new_rule, outcome;
    auto operator<=>(const Move&) const = default;
  };
  static AppClass app_class_of(const PastRequest& past);
  nlohmann::json ttft(const AppClass& app_class, const std::string& model, const std::string& target) const;

  const Tree& tree_;
  Decision decision_;
  Totals totals_;
  std::map<Move, std::uint64_t> moves_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> other_rule_;
  // By model and engine, then by app and class.
  std::map<std::pair<std::string, std::string>, std::map<AppClass, std::vector<double>>> ttft_ms_;
  std::map<std::string, Switches> switches_;  // by model
};

// The report for a terminal.
std::string simulation_text(const nlohmann::json& report);

}  // namespace flyball::policy
