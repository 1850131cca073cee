// The targets that a decision's request may be sent to. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "policy/decide.hpp"

namespace flyball::route {

// The chosen target, then the other usable ones of its rule, which stand in for it. Where that rule goes on
// to the next when its targets fail, or is the default, the usable targets of the other rules on the
// decision's path follow: those passed over for the SLO, and the default's. Each engine once. Engines
// that the request gave up while it waited (`left`) come last: one of them is still better than an error.
// Empty: no target was chosen, and the request goes nowhere.
std::vector<const policy::Target*> possible_targets(const policy::Decision& decision,
                                                    std::span<const std::string> left = {});

}  // namespace flyball::route
