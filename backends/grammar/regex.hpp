// Regular expressions (ECMA-262 with the u flag, as JSON Schema's `pattern` and guided_regex users write
// them) to automata. Linear: there is nothing to backtrack over, so lazy and greedy forms mean the same.
// Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/grammar/automata.hpp"
#include "backends/grammar/code_points.hpp"
#include "backends/grammar/dfa.hpp"
#include "backends/grammar/fuel.hpp"
#include "config/error.hpp"

namespace flyball::grammar {

struct RegexOptions {
  enum class Match : std::uint8_t {
    search,  // a match anywhere in the text, as `pattern` means it
    whole,   // the text is a match, as guided_regex means it
  };
  Match match = Match::whole;
  Spelling spelling = Spelling::utf8;
  std::uint32_t depth = 64;  // of groups within groups
};

// The texts that match. `pattern` is UTF-8. invalid_value for what is no pattern, unsupported_feature for
// lookahead within a group, lookbehind, backreferences, \b, \p and flags, both with "byte N" of the pattern
// in Error::where; unsupported_value past the bound.
Result<Dfa> from_regex(std::string_view pattern, const RegexOptions& options, Bound bound);

}  // namespace flyball::grammar
