// What predictions say of a request's SLO: whether any target can hold it, and when to look at a waiting
// request again. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "config/error.hpp"
#include "policy/decide.hpp"
#include "policy/facts.hpp"

namespace flyball::route {

// A waiting request is decided again at most so often.
inline constexpr std::size_t kMaxRedecisions = 2;

// One decision taken again while its request waited, because its target was about to miss the SLO.
struct Redecision {
  double after_ms = 0;   // since the admission
  std::string from, to;  // targets; the same where the request stayed
  std::string why;       // "400.0 ms waited and 180.0 ms expected at cpu pass the 500 ms to the first token"
};

// slo_unattainable with the best prediction, where every target that the decision may use has a known
// `meets_slo` that is false. nullopt: one may hold the SLO, or there is no such target. `facts` are those the
// decision was taken on.
std::optional<Error> slo_refusal(const policy::Decision& decision, const policy::Facts& facts);

// `to` is `from` until it is decided.
Redecision redecision_of(const policy::Target& at, std::chrono::microseconds slo,
                         std::chrono::microseconds waited, std::chrono::microseconds expected);

// The expected time to the first token at an engine, if the request went there now. nullopt: unknown.
std::optional<std::chrono::microseconds> expected_ttft(const policy::Facts& facts,
                                                       const std::string& backend);

// How long a waiting request's prediction may be left alone: until the time at which it passes the SLO if
// nothing moves, and at least an eighth of the SLO, so that looks stay few where the two are near.
std::chrono::microseconds until_slo_look(std::chrono::microseconds slo, std::chrono::microseconds waited,
                                         std::chrono::microseconds expected);

}  // namespace flyball::route
