#include "daemon/fleet/lifecycle.hpp"

#include <algorithm>
#include <string>

#include "config/units.hpp"

namespace flyball::fleet {

const char* to_string(WorkerState state) noexcept {
  switch (state) {
    case WorkerState::stopped:
      return "stopped";
    case WorkerState::starting:
      return "starting";
    case WorkerState::ready:
      return "ready";
    case WorkerState::backoff:
      return "backoff";
    case WorkerState::disabled:
      return "disabled";
  }
  return "?";
}

namespace {

// A failed load is the daemon's trouble, never a mistake in the request that happened to ask first. What a
// client reads tells whether to ask again: not where the file or its entry is at fault (absent, unreadable, a
// context beyond the model's), nor where this engine will never run it.
ErrorCode load_failure(ErrorCode cause) {
  switch (cause) {
    case ErrorCode::insufficient_memory:
      return cause;
    case ErrorCode::model_unsupported:
    case ErrorCode::unsupported_value:
      return ErrorCode::model_unsupported;
    case ErrorCode::model_invalid:
    case ErrorCode::io_error:
    case ErrorCode::invalid_value:
      return ErrorCode::model_invalid;
    default:
      return ErrorCode::model_unavailable;
  }
}

}  // namespace

// A file that cannot be read is looked for again: its disk may come back.
bool Lifecycle::is_final(ErrorCode cause) {
  const ErrorCode code = load_failure(cause);
  return cause != ErrorCode::io_error &&
         (code == ErrorCode::model_invalid || code == ErrorCode::model_unsupported);
}

Lifecycle::Wanted Lifecycle::wanted(TimePoint now) {
  if (invalid_) return {false, last_error_};
  state_ = state(now);
  switch (state_) {
    case WorkerState::stopped:
      state_ = WorkerState::starting;
      if (ran_before_) ++restarts_;
      ran_before_ = true;
      return {true, std::nullopt};
    case WorkerState::starting:
    case WorkerState::ready:
      return {};
    case WorkerState::backoff:
      if (refuse_in_backoff_) return {false, last_error_};
      return {};
    case WorkerState::disabled:
      return {false, last_error_};
  }
  return {};
}

void Lifecycle::ready(TimePoint) {
  state_ = WorkerState::ready;
  was_ready_ = true;
  failed_loads_ = 0;
  room_ = {};
}

std::optional<TimePoint> Lifecycle::wants_room(TimePoint now, const Error& cause) {
  if (state_ != WorkerState::starting || cause.code != ErrorCode::insufficient_memory) return std::nullopt;
  if (now < room_.none_until) return std::nullopt;
  if (!room_.wanted_at) room_.wanted_at = now;
  return room_.wanted_at;
}

Lifecycle::Ended Lifecycle::ended(TimePoint now, const Error& cause, bool deliberate) {
  const bool no_use = room_.made && cause.code == ErrorCode::insufficient_memory;
  room_ = {.none_until = no_use ? now + limits_.disable_window : room_.none_until};
  if (deliberate) {
    state_ = WorkerState::stopped;
    return {};
  }
  const bool was_loading = state_ == WorkerState::starting;
  last_error_ = cause;
  if (was_loading && cause.code != ErrorCode::worker_died)
    last_error_ = Error{load_failure(cause.code), cause.message, "", cause.where};
  if (was_loading && is_final(cause.code)) {
    // No fault of the engine: the router still asks, and gets this error, rather than finding no target.
    state_ = WorkerState::stopped;
    invalid_ = true;
    return {last_error_, std::nullopt};
  }
  // The worker itself said why it cannot load (memory, an absent file): fail fast, look again after a while.
  const bool told = was_loading && cause.code != ErrorCode::worker_died;
  if (!told || cause.code == ErrorCode::device_lost) {
    while (!deaths_.empty() && now - deaths_.front() > limits_.disable_window) deaths_.pop_front();
    deaths_.push_back(now);
    if (deaths_.size() >= limits_.disable_after) {
      state_ = WorkerState::disabled;
      until_ = now + limits_.disable_window;
      last_error_ =
          Error{ErrorCode::model_unavailable,
                "The engine died " + std::to_string(deaths_.size()) + " times within " +
                    config::exact_time_text(std::chrono::microseconds(limits_.disable_window).count()) +
                    " and is disabled. Last: " + cause.message,
                cause.param, cause.where};
      return {last_error_, std::nullopt};
    }
  }
  state_ = WorkerState::backoff;
  refuse_in_backoff_ = told;
  if (told) {
    until_ = now + backoff(++failed_loads_);
    return {last_error_, std::nullopt};
  }
  // The first death is answered at once, for the sake of the streams that were cut; the next ones wait.
  until_ = deaths_.size() == 1 ? now : now + backoff(static_cast<std::uint32_t>(deaths_.size()) - 1);
  return {std::nullopt, until_};
}

void Lifecycle::restart(bool spawning) {
  if (state_ != WorkerState::backoff) return;
  state_ = spawning ? WorkerState::starting : WorkerState::stopped;
  if (spawning) ++restarts_;
}

void Lifecycle::forgive() {
  deaths_.clear();
  failed_loads_ = 0;
  invalid_ = was_ready_ = false;
  room_ = {};
  // A backoff after a crash goes on: its timer is set and requests wait for it.
  if (state_ == WorkerState::disabled || (state_ == WorkerState::backoff && refuse_in_backoff_)) {
    state_ = WorkerState::stopped;
  }
}

WorkerState Lifecycle::state(TimePoint now) const noexcept {
  const bool over = now >= until_ && (state_ == WorkerState::disabled ||
                                      (state_ == WorkerState::backoff && refuse_in_backoff_));
  return over ? WorkerState::stopped : state_;
}

std::chrono::milliseconds Lifecycle::pause(TimePoint now) const noexcept {
  const WorkerState is = state(now);
  if ((is != WorkerState::backoff && is != WorkerState::disabled) || now >= until_) return {};
  return std::chrono::ceil<std::chrono::milliseconds>(until_ - now);
}

std::chrono::milliseconds Lifecycle::backoff(std::uint32_t failures) const {
  const std::uint32_t doublings = std::min<std::uint32_t>(failures - 1, 20);
  return std::min(limits_.backoff_max, limits_.backoff_min * (1U << doublings));
}

}  // namespace flyball::fleet
