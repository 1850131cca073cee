// Random walks along masks, as an engine samples an answer.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "backends/constrain/mask.hpp"
#include "config/error.hpp"
#include "tests/backends/constrain/vocabularies.hpp"

namespace flyball::constrain::testing {

struct Walk {
  std::string document;
  bool ended = false;  // with an end token; false where the walk reached `longest`
};

// Takes random allowed tokens from the automaton's start, at most `longest` of them. From half of them on it
// takes single ASCII characters, half the time one that closes a string, array or object. Fails with internal
// where the masks and the matcher disagree or a mask is empty, and as Masks::fill and Matcher::accept do.
Result<Walk> mask_walk(const std::shared_ptr<Automaton>& automaton, Masks& masks, const Tokens& tokens,
                       Random& random, std::size_t longest);

}  // namespace flyball::constrain::testing
