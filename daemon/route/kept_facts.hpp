// Facts as text that is kept with a decision: what differs from those of a decision before, its frame. Pure.
#pragma once

#include <string>
#include <string_view>

#include "policy/facts.hpp"

namespace flyball::route {

// JSON: `facts` by source and name with what they follow `from`, `unknown` (known in the frame only), and the
// ages: of each source's first fact, and of those that are not as much older than it as in the frame. An
// empty frame: everything. `profiles`, always all of them: value and source by profile and name, null:
// unknown.
std::string write_facts(const policy::Facts& facts, const policy::Facts& frame);

// Turns the frame into what was written against it. A fact that this version does not have, or has with
// another type, stays unknown: nothing can ask for it. False: the text is not such JSON.
bool read_facts(std::string_view text, policy::Facts& frame);

}  // namespace flyball::route
