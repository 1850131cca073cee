// Lets some requests in although no target is predicted to hold their app's hard SLO. Predictions may be
// wrong, and only a request that runs shows it. Pure; bounded; time comes in.
//
// Each app has a gate for each model. A closed gate lets one request in at a time, a probe, and refuses the
// others. A probe that holds the SLO opens the gate to one request in four, the second success in a row to
// one in two, the third to all. Each success counts the shares anew, so the request after it gets in. A
// request that misses the SLO closes the gate, and the next probe waits twice as long as the last one did.
//
// A success says nothing of requests that are predicted to be far later. An open gate refuses those.
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
  // engine that other apps never leave idle is probed after kBusyWait. Both count from the first refusal or
  // the end of the last probe, and kIdleWait from the end of the engine's work if that is later.
  static constexpr Time kIdleWait{2'000}, kBusyWait{5'000};
  // The longest wait for a probe: one late answer a minute is what a slow host costs an app. A probe whose
  // outcome takes longer blocks the next probe no more.
  static constexpr Time kMostWait{60'000};
  // An open gate closes so long after its last success if no request that it let in still runs: predictions
  // have learned by then, and one that says no means a new load.
  static constexpr Time kOpenFor{30'000};
  static constexpr std::uint32_t kSuccessesToOpen = 3;
  // An open gate lets requests in whose predicted times are at most this much beyond those of its successes:
  // predictions of like requests differ by less.
  static constexpr double kBeyondSuccesses = 1.25;

  // The right of one request to run. Its holder says what became of it, by ended().
  struct Pass {
    std::uint64_t id = 0;
    std::uint64_t episode = 0;  // from one closing of the gate to the next
    bool probe = false;
    std::uint32_t one_in = 1;  // share of the requests that got in with it; 1 of a probe
    double ratio = 1;          // of the request's predicted time to its SLO
    bool counted = false;      // as a success
  };
  struct Refused {
    std::optional<Time> retry_after;  // until the next probe; nullopt: a request under way decides that
  };
  enum class Outcome : std::uint8_t { held, missed, unknown };

  // Asks for a request that is predicted to miss the SLO. `idle_since`: of the engine that it would go to;
  // nullopt: it is at work. `ratio`: of its predicted time there to its SLO. The holder of a pass calls
  // ended().
  std::expected<Pass, Refused> ask(std::string_view app, std::string_view model,
                                   std::optional<TimePoint> idle_since, double ratio, TimePoint now);
  // Counts a request that still runs as a success. It may miss the SLO yet.
  void held_so_far(std::string_view app, std::string_view model, Pass& pass, TimePoint now);
  void ended(std::string_view app, std::string_view model, Pass pass, Outcome outcome, TimePoint now);

  std::size_t size() const noexcept { return gates_.size(); }

 private:
  struct Gate {
    std::uint64_t episode = 0;
    TimePoint asked;              // the latest time
    TimePoint waits_from;         // the first refusal, or the end of the last probe
    TimePoint held_at;            // the latest success
    std::uint32_t successes = 0;  // in a row
    double held_ratio = 0;        // the largest ratio of those successes
    std::uint32_t turn = 0;       // requests since the latest success: the first of every `one_in` gets in
    std::uint32_t doublings = 0;  // of the wait for a probe
    std::uint32_t running = 0;    // requests that got in during this episode and have not ended
    std::uint64_t probe = 0;      // the id of the latest probe while its outcome is unknown; 0: none
    TimePoint probed_at;          // when that probe got in
  };
  using Key = std::pair<std::string, std::string>;  // app and model
  Gate& gate_of(std::string_view app, std::string_view model, TimePoint now);
  // nullptr: a request that got in before the gate closed says nothing of the host since then.
  Gate* gate_of(std::string_view app, std::string_view model, const Pass& pass);
  Pass let_in(Gate& gate, bool probe, std::uint32_t one_in, double ratio);
  void close(Gate& gate);
  static void count_success(Gate& gate, Pass& pass, TimePoint now);
  static void end_probe(Gate& gate, const Pass& pass, TimePoint now);

  std::map<Key, Gate> gates_;
  std::uint64_t episodes_ = 0, passes_ = 0;
};

// "as a probe", "as one in 4", "as all are after 3 requests held the SLO".
std::string to_text(const SloGate::Pass& pass);

}  // namespace flyball::route
