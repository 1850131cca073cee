// Languages of JSON numbers. Each holds every spelling of a value or none, so that they combine as sets of
// values do: decimals without exponent, with at most 21 digits before the point and 24 behind it
// (JSON.stringify writes no more), and no negative zero. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "backends/grammar/automata.hpp"
#include "config/packed_json.hpp"

namespace flyball::grammar {

// A number in digits: no needless zero, no negative zero.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;

  // The shortest decimal that is read as this double. Precondition: finite.
  static Decimal of(double value);
  // `digits` is an integer as JSON spells it.
  static Decimal of_digits(std::string_view digits);
  static Decimal of(JsonView number);
  bool is_integer() const noexcept { return fraction.empty(); }
  bool is_zero() const noexcept { return whole == "0" && fraction.empty(); }
  // Whether all_decimals has it.
  bool has_spelling() const noexcept;
};

// The neighbour among doubles. Whoever reads a number as a double takes a decimal beyond `value` for `value`
// itself where it is too near, so an exclusive bound is an inclusive one at the neighbour.
double neighbour(double value, bool upward) noexcept;

Result<Dfa> all_decimals(Bound bound);
Result<Dfa> decimals_at_least(const Decimal& least, Bound bound);
Result<Dfa> decimals_at_most(const Decimal& most, Bound bound);
Result<Dfa> decimals_above(const Decimal& least, Bound bound);  // exclusive, as doubles are compared
Result<Dfa> decimals_below(const Decimal& most, Bound bound);
Result<Dfa> decimals_equal(std::span<const Decimal> values, Bound bound);  // to one of them
// Integers, also spelled with zeros behind the point.
Result<Dfa> integers(Bound bound);
// Digits of decimals that doubles tell apart (DBL_DIG).
inline constexpr std::size_t kExactDigits = 15;
// Numbers of so many digits, at most `fraction` of them behind the point; zeros at the end do not count.
// Precondition: fraction < kExactDigits.
Result<Dfa> exact_decimals(std::size_t fraction, Bound bound);
// The multiples among exact_decimals(of.fraction.size()): a number that is rounded may have another
// remainder. unsupported_value if `of` has too many digits. Precondition: of > 0.
Result<Dfa> multiples(const Decimal& of, Bound bound);
// Numbers that are no integers, when read as doubles, too: some of them.
Result<Dfa> broken_decimals(Bound bound);
// Not closed, for the end: one spelling for each value, that of JSON.stringify.
Result<Dfa> shortest_spellings(Bound bound);

// Every number, also with exponents that a double can hold, and every integer in its shortest spelling.
Result<Dfa> any_number(Bound bound);
Result<Dfa> any_integer(Bound bound);

}  // namespace flyball::grammar
