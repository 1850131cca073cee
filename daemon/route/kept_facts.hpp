// Facts as text that is kept with a decision: what differs from those of a decision before, its frame. Pure.
#pragma once

#include <string>
#include <string_view>

#include "policy/facts.hpp"

namespace flyball::route {

// JSON: `facts` by source and name, `unknown` (known in the frame only), and the ages: by source, and of
// single facts where those of one source differ. An empty frame: everything.
std::string write_facts(const policy::Facts& facts, const policy::Facts& frame);

// Turns the frame into what was written against it. A fact that this version does not have, or has with
// another type, stays unknown: nothing can ask for it. False: the text is not such JSON.
bool read_facts(std::string_view text, policy::Facts& frame);

}  // namespace flyball::route
