// Which of a rule's available targets is taken, by what is predicted of each. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "policy/decide.hpp"

namespace flyball::policy {

// Targets whose expected total is within so many percent of the least count as equals, so that near-equals do
// not alternate: a loaded one is taken, then the first listed.
inline constexpr std::int64_t kNearPercent = 10;

// For `considerate`: delays to others that are no more than this above the least, in microseconds, count as
// equal to it, and so do those within kNearPercent. Nobody notices a thousandth of a second.
inline constexpr std::int64_t kNearDelay = 1000;

// Whether the app has a time to first token, per output token or to the end to hold.
bool has_slo(const Facts& facts);

// By the rule's `pick`. `considered`: the rule's targets in order, at least one of them available. An
// available target whose trial is due (`trial_due`) is taken instead of the one that predictions pick, where
// it is listed before it, or where they pick none.
Picked pick(const Rule& rule, std::span<const TargetTrace> considered, const Facts& facts);

// "vulkan: fastest, 412 ms expected in all (cpu 1180 ms; within 10 % nothing else)". `facts` are those the
// decision was taken on.
std::string pick_text(const PickTrace& trace, const Decision& decision, const Facts& facts);

}  // namespace flyball::policy
