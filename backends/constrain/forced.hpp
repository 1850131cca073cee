// Bytes that need no model: a grammar leaves no choice of them. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "backends/constrain/matcher.hpp"

namespace flyball::constrain {

// The bytes that every word goes on with from here, whatever follows them; at most `most`. None where the
// word may end.
std::string forced(const Matcher& matcher, std::size_t most = 256);

}  // namespace flyball::constrain
