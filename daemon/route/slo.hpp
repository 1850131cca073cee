// What predictions say of a request's SLO: whether any target can hold it. Pure.
#pragma once

#include <optional>

#include "config/error.hpp"
#include "policy/decide.hpp"
#include "policy/facts.hpp"

namespace flyball::route {

// slo_unattainable with the best prediction, where every target that the decision may use has a known
// `meets_slo` that is false. nullopt: one may hold the SLO, or there is no such target. `facts` are those the
// decision was taken on.
std::optional<Error> slo_refusal(const policy::Decision& decision, const policy::Facts& facts);

}  // namespace flyball::route
