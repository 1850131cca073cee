// Languages of JSON strings, and the formats that strings may have. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "backends/grammar/automata.hpp"

namespace flyball::grammar {

// One character between quotes, in any spelling that JSON has but a lone surrogate.
Result<Dfa> string_character(Bound bound);
// Any number of them.
Result<Dfa> string_content(Bound bound);

// Between quotes, each string in one spelling (Spelling::json_string).
Result<Dfa> plain_strings(Bound bound);
// The strings with least to most characters.
Result<Dfa> with_length(const Dfa& strings, std::uint32_t least, std::uint32_t most, Bound bound);

// Strings of any number of characters of one kind, such as those of ^[a-z]+$; a grammar counts them without
// an automaton of each length.
struct CharacterLoop {
  Dfa character;
  std::uint32_t least;  // 0 or 1
};
// Nothing if the strings are no loop.
Result<std::optional<CharacterLoop>> character_loop(const Dfa& strings, Bound bound);

// Whether a format is enforced. Others are annotations, which JSON Schema lets a validator ignore.
bool is_enforced_format(std::string_view name) noexcept;
// Strings of an enforced format, in their one spelling: all are valid, and of common ones none is missing.
Result<Dfa> strings_of_format(std::string_view name, Bound bound);

}  // namespace flyball::grammar
