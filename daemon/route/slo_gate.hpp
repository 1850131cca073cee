// Whether a request gets in although no target is predicted to hold its app's hard SLO. Predictions may be
// wrong, and only a request that runs shows it. Pure; bounded; time comes in.
//
// Each app has a gate for each model. A closed gate lets one request in at a time, a probe, and refuses the
// others. A probe that holds the SLO opens the gate to every fourth request, the second success in a row to
// every other one, the third to all. A request that misses the SLO closes the gate, and the next probe waits
// twice as long as the last one did.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "backends/backend.hpp"

namespace flyball::route {

class SloGate {
 public:
  using Time = std::chrono::milliseconds;
  // Gates that are remembered. The daemon has one for each configured app and model that a hard SLO refused.
  static constexpr std::size_t kMostGates = 1024;
  // A closed gate lets a probe in when its engine has been idle for kIdleWait, so that it delays nobody. An
  // engine that other apps never leave idle is probed kBusyWait after the last probe.
  static constexpr Time kIdleWait{2'000}, kBusyWait{5'000};
  // The longest wait for a probe: one late answer a minute is what a slow host costs an app.
  static constexpr Time kMostWait{60'000};
  // An open gate closes so long after its last success: predictions have learned by then, and one that says
  // no means a new load.
  static constexpr Time kOpenFor{30'000};
  static constexpr std::uint32_t kSuccessesToOpen = 3;

  // The right of one request to run. Its holder says what became of it, by ended().
  struct Pass {
    std::uint64_t episode = 0;  // from one closing of the gate to the next
    bool probe = false;
    std::uint32_t one_in = 1;  // share of the requests that got in with it; 1 of a probe
  };
  struct Refused {
    std::optional<Time> retry_after;  // until the next probe; nullopt: a request under way decides that
  };
  enum class Outcome : std::uint8_t { held, missed, unknown };

  // Asks for a request that is predicted to miss the SLO. `idle_since`: of the engine that comes nearest;
  // nullopt: it is at work. The holder of a pass calls ended().
  std::expected<Pass, Refused> ask(std::string_view app, std::string_view model,
                                   std::optional<TimePoint> idle_since, TimePoint now);
  void ended(std::string_view app, std::string_view model, const Pass& pass, Outcome outcome, TimePoint now);

  std::size_t size() const noexcept { return gates_.size(); }

 private:
  struct Gate {
    std::uint64_t episode = 0;
    TimePoint asked;              // the latest time
    TimePoint waits_from;         // the first refusal, or the end of the last probe
    TimePoint held_at;            // the latest success
    std::uint32_t successes = 0;  // in a row
    std::uint32_t turn = 0;       // requests since the latest success: the first of every `one_in` gets in
    std::uint32_t doublings = 0;  // of the wait for a probe
    bool probing = false;
  };
  using Key = std::pair<std::string, std::string>;  // app and model
  Gate& gate_of(std::string_view app, std::string_view model, TimePoint now);

  std::map<Key, Gate> gates_;
  std::uint64_t episodes_ = 0;
};

// "as a probe", "as one in 4", "as all are after 3 requests held the SLO".
std::string to_text(const SloGate::Pass& pass);

}  // namespace flyball::route
