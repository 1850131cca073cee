// Which engine was measured to be the fastest for a load: facts that follow from measured facts.
#pragma once

#include "policy/facts.hpp"

namespace flyball::policy {

// Sources of facts of an engine's speed: measured on this machine, or computed until it is, and then behind a
// colon from what.
inline constexpr const char* kMeasuredSource = "measured";
inline constexpr const char* kPredictedSource = "predicted";
inline bool is_predicted(const Fact& fact) {
  return fact.source.starts_with(kPredictedSource);
}
// Less than this many times as fast is no difference that a measurement shows.
inline constexpr double kClearlyFaster = 1.1;

// Sets engines.fastest and backend.<id>.outpaced of the shared engines of this machine that are available and
// measured (known, and not predicted: engines come near to what their devices could do in different measure),
// where nobody set them. What counts is backend.<id>.prefill_tps for a
// load that lives in prefill (workload.phase, else by workload.class: batch, rag, embedding and the like),
// and backend.<id>.decode_tps for every other.
void derive_fastest(Facts& facts);

}  // namespace flyball::policy
