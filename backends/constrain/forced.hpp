// Bytes that need no model: a grammar leaves no choice of them. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "backends/constrain/matcher.hpp"

namespace flyball::constrain {

struct Forced {
  std::string bytes;
  bool whole = false;  // they end the word: nothing can follow them
};

// The bytes that every word goes on with from here, whatever follows them; at most `most`. None where the
// word may end. Where the text meets a limit of the automaton
// there are fewer.
Forced forced(const Matcher& matcher, std::size_t most = 256);

}  // namespace flyball::constrain
