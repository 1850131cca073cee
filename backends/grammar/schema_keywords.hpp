// The values of keywords, checked, and sets of one part to build on. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/grammar/automata.hpp"
#include "backends/grammar/schema_document.hpp"
#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/value_set.hpp"
#include "config/error.hpp"

namespace flyball::grammar {

// The largest minimum of a count that is served.
inline constexpr std::uint32_t kMostCounted = 1'000'000;

// Bits of the types that `type` names; a number is an integer or has a fraction.
enum Type : unsigned {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,
  kString = 16,
  kArray = 32,
  kObject = 64
};
inline constexpr unsigned kAllTypes = 127;

std::unexpected<Error> undeniable(const Place& at, Keyword which);
// The automaton as a language; its error gets the place.
Result<Language> shared(Result<Dfa> dfa, const Place& at);
// A value for messages, cut short.
std::string shown(JsonView value);

// Readers of keywords. Each fails with invalid_value and the keyword's pointer if its value is malformed.
Result<unsigned> types(const Place& at);
Result<std::vector<std::string_view>> names(const Place& at);
Result<void> check_object(const Place& at);
struct Counts {
  std::uint32_t least = 0, most = kUnbounded;
};
// kUnbounded - 1 stands for all larger maxima; unsupported_value for a minimum above kMostCounted.
Result<Counts> counts(const Keywords& has, Keyword least, Keyword most);
// The numbers that minimum, maximum, their exclusive forms or multipleOf allow.
Result<Dfa> in_range(Keyword which, const Place& at, Bound bound);
// The strings or keys in which a pattern has a match.
Result<Dfa> texts_matching(std::string_view pattern, std::uint32_t depth, Bound bound);

// Objects whose other keys hold any value.
ObjectPart open_object();
ObjectPart open_object(std::string_view name, Conjunction value, bool required);
ValueSet only(ObjectPart part);
ValueSet only(ArrayPart part);
ValueSet only(StringPart part);
ValueSet only(NumberPart part);
ValueSet all_but_objects();

// Fuel for n parts of which part i says that item i differs: each has the conditions of all items up to it.
bool spend_denied_items(Fuel& fuel, std::uint64_t n);

}  // namespace flyball::grammar
