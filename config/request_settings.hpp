// How an engine computes one request beside others: what a profile of the policy sets, and what travels with
// the request to the engine. Absent: as the engine does without a profile.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace flyball::config {

// Among prompts that wait at one engine, for a slot and for a place in a step.
enum class QueuePlace : std::uint8_t { usual, ahead, behind };

inline constexpr std::chrono::milliseconds kMaxStepBudget{10'000};  // the least is 1 ms

struct RequestSettings {
  std::optional<std::chrono::milliseconds> step_budget = {};  // longest step that may hold it
  QueuePlace place = QueuePlace::usual;

  bool operator==(const RequestSettings&) const = default;
};

}  // namespace flyball::config
