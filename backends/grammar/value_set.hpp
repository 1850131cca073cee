// Sets of JSON values in a form that is closed under union and intersection: for each type, the union of its
// parts. Values within arrays and objects are named by the terms that they have to satisfy, so that the sets
// of a recursive schema are finite. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/grammar/dfa.hpp"
#include "backends/grammar/fuel.hpp"
#include "backends/grammar/grammar.hpp"
#include "config/error.hpp"

namespace flyball::grammar {

// One condition on a value; schema_terms knows which.
enum class Term : std::uint32_t {};
// The condition that no value satisfies.
inline constexpr Term kNothing{0};

// Every term of it, in order, each once; of no term every value is. With kNothing it has no other.
using Conjunction = std::vector<Term>;
Conjunction both(const Conjunction& a, const Conjunction& b);
inline bool is_nothing(const Conjunction& a) {
  return !a.empty() && a.front() == kNothing;
}

using Language = std::shared_ptr<const Dfa>;

struct NumberPart {
  Language language;      // of number_language, closed; null: every number
  bool integer = false;   // only integers
  bool shortest = false;  // only the shortest spelling of each is written
};

struct StringPart {
  Language language;                           // between quotes, in Spelling::json_string; null: every string
  std::uint32_t least = 0, most = kUnbounded;  // characters
  bool exact = true;  // `language` has every string that is meant (not so for some formats)
};

struct ArrayPart {
  std::vector<Conjunction> prefix;  // of the first items
  Conjunction rest;                 // of each other item
  std::uint32_t least = 0, most = kUnbounded;
  std::vector<Conjunction> contains;  // each is met by an item
};

struct Property {
  std::string name;
  Conjunction value;
  bool required = false;
};

// Keys that are no property's name.
struct KeyRegion {
  Language keys;  // as StringPart::language; null: every key
  Conjunction value;
};

struct ObjectPart {
  std::vector<Property> properties;
  std::vector<KeyRegion> others;  // no key is in two; a key in none is not allowed
  std::uint32_t least = 0, most = kUnbounded;
  std::vector<Language> demanded;  // a key of each is there, whatever its value; none is null
};

struct ValueSet {
  bool null = false, no = false, yes = false;
  std::vector<NumberPart> numbers;
  std::vector<StringPart> strings;
  std::vector<ArrayPart> arrays;
  std::vector<ObjectPart> objects;
  // Strings that no one can prove absent were left out (StringPart::exact): the set is not known to be empty.
  bool lossy = false;

  static ValueSet everything();
  bool has_no_part() const noexcept {
    return !null && !no && !yes && numbers.empty() && strings.empty() && arrays.empty() && objects.empty();
  }
  std::size_t parts() const noexcept {
    return numbers.size() + strings.size() + arrays.size() + objects.size();
  }
  void add(ValueSet other);  // union
};

// The bounds of work on sets: fuel for automata and copies of parts, and a number of parts.
struct Work {
  Fuel* fuel;
  std::size_t most_parts = 2'000;  // of one set; beyond, unsupported_value
};

Result<ValueSet> intersect(const ValueSet& a, const ValueSet& b, Work work);
Result<ArrayPart> intersect(const ArrayPart& a, const ArrayPart& b);
Result<ObjectPart> intersect(const ObjectPart& a, const ObjectPart& b, Work work);

// The conjunction for a key that an object has no property of: of the region that has it.
const Conjunction* value_of_other(const ObjectPart& object, const std::string& name);

}  // namespace flyball::grammar
