// What predictions say of a request's SLO: whether any target can hold it. Pure.
#pragma once

#include <optional>

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
// The same as the error of a request with a hard SLO: slo_unattainable.
std::optional<Error> slo_refusal(const policy::Decision& decision, const policy::Facts& facts);

// A request that gets in although no target is predicted to hold its hard SLO.
struct LetThrough {
  std::string backend;  // its target that comes nearest
  std::string why;      // "as a probe, although no usable engine is predicted to hold the SLO: ..."
};
// The target counts as holding the SLO, so that `pick: meets_slo` takes it: a probe anywhere else would say
// nothing of that target's figures. The fact's source says why, and records keep it.
void set_let_through(const LetThrough& request, policy::Facts& facts);
// `why` of the request whose facts these are. "": it was not let through.
std::string let_through_text(const policy::Facts& facts);

}  // namespace flyball::route
