// A set of characters as the bytes of their UTF-8. Pure.
#pragma once

#include <optional>
#include <vector>

#include "backends/grammar/fuel.hpp"
#include "backends/grammar/grammar.hpp"

namespace flyball::grammar {

inline constexpr char32_t kLastCharacter = 0x10FFFF;

struct CharacterRange {
  char32_t from = 0, to = 0;  // both within
  auto operator<=>(const CharacterRange&) const = default;
};

// The same set in order, without overlaps and without surrogates: UTF-8 encodes none.
std::vector<CharacterRange> normalized(std::vector<CharacterRange> ranges);
// All other characters. Precondition: normalized.
std::vector<CharacterRange> complement(const std::vector<CharacterRange>& ranges);

// One character of a normalized set; no word where it is empty. nullopt, and nothing is added, if the fuel
// runs out.
std::optional<NodeId> add_characters(Grammar& grammar, const std::vector<CharacterRange>& ranges, Fuel& fuel);

}  // namespace flyball::grammar
