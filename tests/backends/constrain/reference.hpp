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

namespace flyball::constrain::testing {

using Random = std::mt19937_64;
inline std::uint32_t below(Random& random, std::uint32_t n) {
  return static_cast<std::uint32_t>(random() % n);
}

// Whether a word is one of the grammar's: the sets of positions that each node can lead to, memoized.
class Reference {
 public:
  Reference(const grammar::Grammar& grammar, std::string_view word) : grammar_(grammar), word_(word) {}
  bool accepts() { return ends_of(grammar_.body(grammar::RuleId{0}), 0).contains(word_.size()); }

 private:
  using Ends = std::set<std::size_t>;
  const Ends& ends_of(grammar::NodeId id, std::size_t at) {
    const auto key = std::pair{id, at};
    const auto known = memo_.find(key);
    if (known != memo_.end()) return known->second;
    return memo_[key] = compute(grammar_.node(id), at);
  }
  Ends compute(const grammar::Node& node, std::size_t at);
  Ends ends_after(grammar::NodeId id, const Ends& from) {
    Ends out;
    for (const std::size_t at : from) out.insert(ends_of(id, at).begin(), ends_of(id, at).end());
    return out;
  }

  const grammar::Grammar& grammar_;
  std::string_view word_;
  std::map<std::pair<grammar::NodeId, std::size_t>, Ends> memo_;
};

inline bool accepts(const grammar::Grammar& grammar, std::string_view word) {
  return Reference(grammar, word).accepts();
}

// Whether a rule can call itself before it reads a byte, by the definition.
bool is_left_recursive(const grammar::Grammar& grammar);

// Rules that call each other, over the bytes a, b, c and quotes; may be left-recursive or have no word.
grammar::Grammar random_grammar(Random& random);

// A word of the grammar's; "" and false where the walk takes too long.
std::pair<std::string, bool> random_word(const grammar::Grammar& grammar, Random& random);

}  // namespace flyball::constrain::testing
