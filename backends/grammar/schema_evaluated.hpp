// The properties or items of a value that a schema evaluates; unevaluatedProperties and unevaluatedItems
// apply to the others. Pure.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>

#include "backends/grammar/value_set.hpp"

namespace flyball::grammar {

// It describes properties or items, not both.
struct Evaluated {
  bool all = false;                     // every property or item; the other members are empty
  std::set<std::string_view> names;     // of properties; parts of the document
  std::set<std::string_view> patterns;  // of keys of properties
  std::size_t items = 0;                // this many first items
  std::set<Conjunction> contained;      // and the items that meet one of these conditions

  static Evaluated everything() { return {.all = true, .names = {}, .patterns = {}, .contained = {}}; }
  std::size_t size() const noexcept { return 1 + names.size() + patterns.size() + contained.size(); }
  auto operator<=>(const Evaluated&) const = default;
};
Evaluated either(const Evaluated& a, const Evaluated& b);

// Values by what their schema evaluates of them. A value may be in several sets: it is in one whose key is
// all that the schema evaluates of the value, and in no set whose key is more than that.
using ByEvaluated = std::map<Evaluated, ValueSet>;

}  // namespace flyball::grammar
