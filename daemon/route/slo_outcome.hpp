// Says whether a request held its SLO, by the times that it took. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "config/app_manifest.hpp"

namespace flyball::route {

// So many tokens of an answer tell what its TPOT will be: the noise of single steps is averaged out.
inline constexpr std::uint32_t kTokensThatTell = 16;

// The times of one request, since its admission.
struct TimesTaken {
  std::optional<std::chrono::microseconds> ttft = {};  // nullopt: no token yet
  std::chrono::microseconds tpot{0};                   // the slowest of its complete answers
  // The slowest mean of the first kTokensThatTell tokens of its answers. nullopt: no answer has so many.
  std::optional<std::chrono::microseconds> early_tpot = {};
  std::chrono::microseconds total{0};  // so far
  bool complete = false;               // every answer has ended well
};

// The tokens of one answer as they come. `now` counts from the request's admission.
class AnswerTimes {
 public:
  void received(std::size_t tokens, std::chrono::microseconds now, TimesTaken& times) {
    if (!first_) first_ = now;
    const bool told = tokens_ >= kTokensThatTell;
    tokens_ += tokens;
    if (!told && tokens_ >= kTokensThatTell)
      times.early_tpot =
          std::max(times.early_tpot.value_or(std::chrono::microseconds(0)), mean(tokens_, now));
  }
  void ended(std::size_t tokens, std::chrono::microseconds now, TimesTaken& times) const {
    if (first_ && tokens > 1) times.tpot = std::max(times.tpot, mean(tokens, now));
  }

 private:
  std::chrono::microseconds mean(std::size_t tokens, std::chrono::microseconds now) const {
    return (now - *first_) / static_cast<std::int64_t>(tokens - 1);
  }
  std::optional<std::chrono::microseconds> first_;
  std::size_t tokens_ = 0;
};

// nullopt: the times do not say it yet. They never will if the request is over.
inline std::optional<bool> slo_held(const config::Slo& slo, const TimesTaken& times) {
  if (slo.ttft && times.ttft.value_or(times.total) > *slo.ttft) return false;
  if (slo.deadline && times.total > *slo.deadline) return false;
  if (slo.tpot && times.tpot > *slo.tpot) return false;
  const bool only_ttft = slo.ttft && !slo.tpot && !slo.deadline;
  return times.complete || (only_ttft && times.ttft) ? std::optional(true) : std::nullopt;
}

// True: a request that still runs counts as a success. Its first token came in time, and the next ones come
// fast enough. Only the end of the answer tells of a deadline.
inline bool slo_held_so_far(const config::Slo& slo, const TimesTaken& times) {
  return slo.tpot && !slo.deadline && times.ttft && slo_held(slo, times) != false && times.early_tpot &&
         *times.early_tpot <= *slo.tpot;
}

}  // namespace flyball::route
