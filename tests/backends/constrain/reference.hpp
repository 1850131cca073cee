// A slow reading of grammars straight from their definition, and random grammars and words to judge by it.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/grammar/grammar.hpp"
#include "tests/backends/grammar/recognizer.hpp"

namespace flyball::constrain::testing {

using Random = std::mt19937_64;
inline std::uint32_t below(Random& random, std::uint32_t n) {
  return static_cast<std::uint32_t>(random() % n);
}

inline bool accepts(const grammar::Grammar& grammar, std::string_view word) {
  return flyball::grammar::Recognizer(grammar, word).accepts();
}

// Whether a rule can call itself before it reads a byte, by the definition.
bool is_left_recursive(const grammar::Grammar& grammar);

// Rules that call each other, over the bytes a, b, c and quotes; may be left-recursive or have no word.
grammar::Grammar random_grammar(Random& random);

// A word of the grammar's; "" and false where the walk takes too long.
std::pair<std::string, bool> random_word(const grammar::Grammar& grammar, Random& random);

}  // namespace flyball::constrain::testing
