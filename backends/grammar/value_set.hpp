// Sets of JSON values in a form that is closed under union and intersection: for each type, the union of its
// parts. Values within arrays and objects are named by the terms that they have to satisfy, so that the sets
// of a recursive schema are finite. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
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

// Terms that hold together, in order, each once. Every value satisfies the empty conjunction; kNothing stands
// alone.
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
  bool exact = true;      // `language` has every number that is meant
};

struct StringPart {
  Language language;                           // between quotes, in Spelling::json_string; null: every string
  std::uint32_t least = 0, most = kUnbounded;  // characters
  bool exact = true;  // `language` has every string that is meant (not so for some formats)
};

// How many items meet a condition.
struct Contained {
  Conjunction condition;
  Conjunction denial;  // met by all other items; read only if `most` is bounded
  std::uint32_t least = 1, most = kUnbounded;
  bool operator==(const Contained&) const = default;
};

struct ArrayPart {
  std::vector<Conjunction> prefix;  // of the first items
  Conjunction rest;                 // of each other item
  std::uint32_t least = 0, most = kUnbounded;
  std::vector<Contained> contains;
  bool unique = false;  // no item equals another
};

struct Property {
  std::string_view name;  // a part of the document
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
  bool exact = true;               // `others` and `demanded` have every key that is meant
};

struct ValueSet {
  bool null = false, no = false, yes = false;
  std::vector<NumberPart> numbers;
  std::vector<StringPart> strings;
  // Shared by the sets that have them: an alternative that many schemas refer to is large only once.
  std::vector<std::shared_ptr<const ArrayPart>> arrays;
  std::vector<std::shared_ptr<const ObjectPart>> objects;
  // Values were left out because a part is not exact: the set is not known to be empty.
  bool lossy = false;
  // More than kMostParts were added; the parts are not complete. intersect and SchemaTerms refuse the set.
  bool is_overfull = false;

  static ValueSet everything();
  bool has_no_part() const noexcept {
    return !null && !no && !yes && numbers.empty() && strings.empty() && arrays.empty() && objects.empty();
  }
  std::size_t parts() const noexcept {
    return numbers.size() + strings.size() + arrays.size() + objects.size();
  }
  void add(const ArrayPart& part) { arrays.push_back(std::make_shared<const ArrayPart>(part)); }
  void add(const ObjectPart& part) { objects.push_back(std::make_shared<const ObjectPart>(part)); }
  void add(ValueSet other);  // union
};

// The parts that one set may have.
inline constexpr std::size_t kMostParts = 2'000;
std::unexpected<Error> too_many_parts();

// Fuel for the bytes that are about to be allocated, so that the bound of steps is one of memory, too.
inline bool spend_bytes(Fuel& fuel, std::uint64_t bytes) noexcept {
  return fuel.spend(1 + bytes / 4);
}

// Work on sets costs fuel for automata and for copies of parts.
struct Work {
  Fuel* fuel;
};

Result<ValueSet> intersect(const ValueSet& a, const ValueSet& b, Work work);
Result<ArrayPart> intersect(const ArrayPart& a, const ArrayPart& b, Work work);
Result<ObjectPart> intersect(const ObjectPart& a, const ObjectPart& b, Work work);

// The conjunction for a key that an object has no property of: of the region that has it.
const Conjunction* value_of_other(const ObjectPart& object, std::string_view name);

}  // namespace flyball::grammar
