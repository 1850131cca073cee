// When a worker is started, started again, or given up. A state machine without clock or I/O: the fleet feeds
// it events with the time and does what it answers.
//   stopped -> starting -> ready
//   a death -> backoff -> starting
//   too many deaths -> disabled, for one window
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "backends/backend.hpp"
#include "config/config.hpp"
#include "config/error.hpp"
#include "daemon/fleet/fleet.hpp"

namespace flyball::fleet {

class Lifecycle {
 public:
  explicit Lifecycle(const config::WorkerLimits& limits) : limits_(limits) {}

  // Somebody wants the engine.
  struct Wanted {
    bool spawn = false;           // start the process now
    std::optional<Error> refuse;  // fail at once; otherwise wait: ready, or a later decision, answers
  };
  Wanted wanted(TimePoint now);

  void ready(TimePoint now);

  // A load failed. If it was for memory: engines idle since this moment or longer may end for it, one after
  // another, and each time it is tried again (`room_made`). For one disable_window after it failed even so
  // nobody ends for it.
  std::optional<TimePoint> wants_room(TimePoint now, const Error& cause);
  void room_made() { room_.made = true; }

  // The process ended (or could not be made), and its load is not tried again at once. `deliberate`: it was
  // told to; whoever asked for it meanwhile is `wanted` anew.
  struct Ended {
    std::optional<Error> fail_waiters;    // those waiting are answered with this
    std::optional<TimePoint> restart_at;  // if anybody still waits (or the model is preloaded): start then
  };
  Ended ended(TimePoint now, const Error& cause, bool deliberate);

  // Only a changed file or entry of the model helps after this failure of a load.
  static bool is_final(ErrorCode cause);

  // The restart moment has come (or passed unused).
  void restart(bool spawning);
  // After a reload; what has happened is judged by the new ones from the next event on.
  void set_limits(const config::WorkerLimits& limits) { limits_ = limits; }
  // The model's file or entry changed: the past says nothing any more.
  void forgive();

  WorkerState state(TimePoint now) const noexcept;
  std::uint32_t restarts() const noexcept { return restarts_; }
  const std::optional<Error>& last_error() const noexcept { return last_error_; }
  // The file itself is bad, or not for this engine: only a changed file helps.
  bool invalid() const noexcept { return invalid_; }
  // The engine has loaded the model's file as it now is, at least once.
  bool was_ready() const noexcept { return was_ready_; }
  // Until backoff or disabled ends; and whether the backoff is that of a failed load, which nobody tries
  // again unasked.
  std::chrono::milliseconds pause(TimePoint now) const noexcept;
  bool load_refused() const noexcept { return refuse_in_backoff_; }

 private:
  std::chrono::milliseconds backoff(std::uint32_t failures) const;

  config::WorkerLimits limits_;
  WorkerState state_ = WorkerState::stopped;
  bool invalid_ = false;
  bool ran_before_ = false, was_ready_ = false;
  std::deque<TimePoint> deaths_;    // within disable_window; of a process, or of its device at a load
  std::uint32_t failed_loads_ = 0;  // in a row: the worker said why
  std::uint32_t restarts_ = 0;
  TimePoint until_{};  // of backoff and disabled
  std::optional<Error> last_error_;
  struct Room {
    std::optional<TimePoint> wanted_at = {};  // the load under way first found too little memory
    bool made = false;                        // for the load under way
    TimePoint none_until{};
  } room_;
  bool refuse_in_backoff_ = false;  // a failed load: no use in waiting
};

}  // namespace flyball::fleet
