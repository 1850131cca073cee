// Bytes that need no model: a grammar leaves no choice of them. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "backends/constrain/matcher.hpp"

namespace flyball::constrain {

struct Forced {
  std::string bytes;
  bool whole = false;    // they end the word: nothing can follow them
  bool starved = false;  // there may be more: they met Overflow::memory, which depends on what others hold
};

// The bytes that every word goes on with from here, whatever follows them; at most `most`. None where the
// word may end. There are fewer where the text meets a limit of the automaton.
Forced forced(const Matcher& matcher, std::size_t most = 256);

}  // namespace flyball::constrain
