// Says whether any target is predicted to hold a request's SLO. Pure.
#pragma once

#include <optional>
#include <string>

#include "config/error.hpp"
#include "policy/decide.hpp"
#include "policy/facts.hpp"

namespace flyball::route {

// A request that is predicted to miss its SLO wherever it may be sent.
struct SloMiss {
  const policy::Target* nearest;  // the target that misses it least
  std::string text;  // "cpu comes nearest: nine in ten begin within 840.0 ms where app.slo.ttft is 600 ms"
};
// nullopt: one of the targets may hold the SLO, as its `meets_slo` is true or unknown; or no target is
// usable, or the request waits for one. `facts` are those the decision was taken on.
std::optional<SloMiss> slo_miss(const policy::Decision& decision, const policy::Facts& facts);
// The largest ratio of a predicted time at the target (p90, or p50 where that is all) to its SLO. 1: no time
// is predicted.
double slo_ratio(const policy::Target& target, const policy::Facts& facts);
// The error of a request with a hard SLO: slo_unattainable.
Error slo_error(const SloMiss& miss);
// slo_error() of slo_miss().
std::optional<Error> slo_refusal(const policy::Decision& decision, const policy::Facts& facts);

// A request that gets in although no target is predicted to hold its hard SLO.
struct LetThrough {
  std::string backend;  // its target that comes nearest
  std::string why;      // "at cpu as a probe, although no usable engine is predicted to hold the SLO: ..."
};
// The target counts as holding the SLO, so that `pick: meets_slo` takes it: a probe anywhere else would say
// nothing of that target's figures. The fact's source says why, and records keep it.
void set_let_through(const LetThrough& request, policy::Facts& facts);
// The target that a request goes to if it is let through. nullptr: none. Precondition: `meets_slo` of
// `nearest` is known. `facts` are unchanged at return.
const policy::Target* target_if_let_through(const policy::Tree& tree, const std::string& nearest,
                                            policy::Facts facts);
// `why` of the request whose facts these are. "": it was not let through.
std::string let_through_text(const policy::Facts& facts);

}  // namespace flyball::route
