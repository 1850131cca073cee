// Whether the daemon does its work: what feeds the watchdog. Pure; the caller brings the observations and the
// time. A loop that turns is not enough: requests in flight and none of them moving, or an engine that holds
// requests and makes no step, is a wedge that a restart ends.
#pragma once

#include <chrono>
#include <cstdint>

#include "config/error.hpp"

namespace flyball::systemd {

struct Observation {
  std::uint64_t finished = 0;      // requests, since start
  std::uint64_t engine_steps = 0;  // scheduler steps and tokens of all engines; any change is progress
  bool waiting = false;            // some request waits on us or on an engine, not on its own slow reader
  std::chrono::milliseconds worst_engine{
      0};  // the longest that one engine made no step while requests wait on it
};

class ProgressJudge {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  explicit ProgressJudge(std::chrono::milliseconds patience) : patience_(patience) {}
  // Whether the watchdog may be fed now.
  bool healthy(const Observation& seen, TimePoint now);

 private:
  std::chrono::milliseconds patience_;
  Observation last_;
  TimePoint moved_{};
  bool first_ = true;
};

}  // namespace flyball::systemd
