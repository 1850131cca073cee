#include "backends/grammar/number_language.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "backends/grammar/regex.hpp"

namespace flyball::grammar {
namespace {

constexpr std::size_t kWholeDigits = 21, kFractionDigits = 24;

// The numbers without a sign that are meant, by how they compare with a given one.
struct Side {
  bool less = false, equal = false, greater = false;
};

Result<Dfa> within(const Result<Dfa>& numbers, const Result<Dfa>& all, Bound bound) {
  if (!numbers) return numbers;
  return all ? intersect(*numbers, *all, bound) : all;
}

Result<Dfa> of_pattern(std::string_view pattern, Bound bound) {
  return from_regex(pattern, {}, bound);
}

// Decimals without a sign that compare with `with` (its sign aside) as asked. One state tells the digits read
// so far from those of `with`: alike, or already less or greater.
class Comparison {
 public:
  Comparison(const Decimal& with, Side side) : with_(with), side_(side) {
    accept_ = nfa_.add();
    for (const int order : {-1, 1}) {
      Nfa::State& some = decided_[order > 0];
      some = nfa_.add();
      nfa_.edge(some, {'0', '9'}, some);
      accept(some, order);
    }
  }

  Result<Dfa> run(Bound bound) {
    const auto start = nfa_.add();
    const std::size_t n = with_.whole.size();
    // Behind a leading zero no digit comes.
    const auto zero = nfa_.add();
    nfa_.edge(start, {'0', '0'}, zero);
    end_of_whole(zero, n > 1 ? -1 : with_.whole[0] == '0' ? 0 : -1);
    std::array<Nfa::State, 3> now{};  // by order, after as many digits
    for (std::size_t digits = 1; digits <= std::min(n, kWholeDigits); ++digits) {
      std::array<Nfa::State, 3> next{};
      for (int order = -1; order <= 1; ++order) {
        next[static_cast<std::size_t>(order + 1)] = nfa_.add();
        end_of_whole(next[static_cast<std::size_t>(order + 1)], digits < n ? -1 : order);
      }
      const char pivot = with_.whole[digits - 1];
      if (digits == 1) {
        step(start, '1', pivot, next);
      } else {
        nfa_.edge(now[0], {'0', '9'}, next[0]);
        step(now[1], '0', pivot, next);
        nfa_.edge(now[2], {'0', '9'}, next[2]);
      }
      now = next;
    }
    if (n <= kWholeDigits) {
      const auto longer = nfa_.add();
      end_of_whole(longer, 1);
      for (const auto state : now) nfa_.edge(state, {'0', '9'}, longer);
      nfa_.edge(longer, {'0', '9'}, longer);
    }
    return determinize(nfa_, start, accept_, bound);
  }

 private:
  void step(Nfa::State from, char least, char pivot, const std::array<Nfa::State, 3>& next) {
    const auto digits = [&](char low, char high, Nfa::State to) {
      if (low <= high) nfa_.edge(from, {static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high)}, to);
    };
    digits(least, static_cast<char>(pivot - 1), next[0]);
    digits(std::max(least, pivot), pivot, next[1]);
    digits(std::max(least, static_cast<char>(pivot + 1)), '9', next[2]);
  }

  void accept(Nfa::State state, int order) {
    if (order < 0 ? side_.less : order > 0 ? side_.greater : side_.equal) nfa_.jump(state, accept_);
  }

  void end_of_whole(Nfa::State state, int order) {
    accept(state, order == 0 && !with_.fraction.empty() ? -1 : order);
    const auto point = nfa_.add();
    nfa_.edge(state, {'.', '.'}, point);
    if (order != 0)
      nfa_.edge(point, {'0', '9'}, decided_[order > 0]);
    else
      fraction(point);
  }

  void fraction(Nfa::State state) {
    for (std::size_t i = 0; i < with_.fraction.size(); ++i) {
      const auto next = nfa_.add();
      step(state, '0', with_.fraction[i], {decided_[0], next, decided_[1]});
      accept(next, i + 1 < with_.fraction.size() ? -1 : 0);
      state = next;
    }
    const auto zeros = nfa_.add();
    accept(zeros, 0);
    step(state, '0', '0', {decided_[0], zeros, decided_[1]});
    step(zeros, '0', '0', {decided_[0], zeros, decided_[1]});
  }

  const Decimal& with_;
  const Side side_;
  Nfa nfa_;
  Nfa::State accept_ = 0;
  std::array<Nfa::State, 2> decided_{};
};

Result<Dfa> negated(const Dfa& unsigned_numbers, Bound bound) {
  auto minus = from_texts({"-"}, bound);
  if (!minus) return minus;
  return concatenate(*minus, unsigned_numbers, bound);
}

// All whose comparison with `with` is `side`; numbers of the other sign are in if `others`.
Result<Dfa> compared(const Decimal& with, Side side, Bound bound) {
  const bool others = with.negative ? side.greater : side.less;
  // The greater of two magnitudes is the lesser negative number.
  if (with.negative) std::swap(side.less, side.greater);
  auto alike = Comparison(with, side).run(bound);
  if (!alike) return alike;
  auto all = all_decimals(bound);
  if (!all) return all;
  auto words = with.negative ? negated(*alike, bound) : std::move(alike);
  if (words && others) {
    auto rest = of_pattern(with.negative ? "[0-9][0-9.]*" : "-[0-9.]*", bound);
    if (!rest) return rest;
    words = unite(*words, *rest, bound);
  }
  if (!words) return words;
  return intersect(*all, *words, bound);
}

std::string without_trailing_zeros(std::string digits) {
  digits.erase(digits.find_last_not_of('0') + 1);
  return digits;
}

}  // namespace

Decimal Decimal::of(double value) {
  std::array<char, 2048> text;  // 309 digits before the point, 1074 behind
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), std::abs(value), std::chars_format::fixed).ptr;
  const std::string_view digits(text.data(), static_cast<std::size_t>(end - text.data()));
  Decimal out;
  const std::size_t point = digits.find('.');
  out.whole = digits.substr(0, point);
  if (point != std::string_view::npos)
    out.fraction = without_trailing_zeros(std::string(digits.substr(point + 1)));
  out.negative = value < 0;
  return out;
}

Decimal Decimal::of_digits(std::string_view digits) {
  Decimal out;
  out.negative = digits.starts_with('-');
  if (out.negative) digits.remove_prefix(1);
  out.whole = digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (out.whole == "0") out.negative = false;
  return out;
}

Decimal Decimal::of(JsonView number) {
  if (number.is_integer()) return of_digits(std::to_string(number.as_integer()));
  if (number.is(JsonKind::digits)) return of_digits(number.text());
  return of(number.as_double());
}

bool Decimal::has_spelling() const noexcept {
  return whole.size() <= kWholeDigits && fraction.size() <= kFractionDigits;
}

double neighbour(double value, bool upward) noexcept {
  return std::nextafter(
      value, upward ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
}

Result<Dfa> all_decimals(Bound bound) {
  auto form = of_pattern("(0|[1-9]\\d*)(\\.\\d+)?|-([1-9]\\d*(\\.\\d+)?|0\\.\\d*[1-9]\\d*)", bound);
  if (!form) return form;
  auto size = of_pattern("-?\\d{1,21}(\\.\\d{1,24})?", bound);
  if (!size) return size;
  return intersect(*form, *size, bound);
}

Result<Dfa> decimals_at_least(const Decimal& least, Bound bound) {
  return compared(least, {.equal = true, .greater = true}, bound);
}
Result<Dfa> decimals_at_most(const Decimal& most, Bound bound) {
  return compared(most, {.less = true, .equal = true}, bound);
}

namespace {

double to_double(const Decimal& value) {
  const std::string text = value.whole + "." + (value.fraction.empty() ? "0" : value.fraction);
  double out = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), out).ec == std::errc::result_out_of_range)
    out = value.whole == "0" ? 0 : std::numeric_limits<double>::max();
  return value.negative ? -out : out;
}

// Zero has no neighbour of few digits, and needs none: every nonzero decimal of all_decimals is another
// double.
Result<Dfa> beyond(const Decimal& value, bool upward, Bound bound) {
  if (value.is_zero()) return compared(value, {.less = !upward, .greater = upward}, bound);
  const double next = neighbour(to_double(value), upward);
  if (!std::isfinite(next)) return empty_language();
  return upward ? decimals_at_least(Decimal::of(next), bound) : decimals_at_most(Decimal::of(next), bound);
}

}  // namespace

Result<Dfa> decimals_above(const Decimal& least, Bound bound) {
  return beyond(least, true, bound);
}
Result<Dfa> decimals_below(const Decimal& most, Bound bound) {
  return beyond(most, false, bound);
}

Result<Dfa> decimals_equal(std::span<const Decimal> values, Bound bound) {
  Nfa nfa;
  const auto start = nfa.add(), accept = nfa.add(), zeros = nfa.add(), point = nfa.add();
  nfa.edge(point, {'0', '0'}, zeros);
  nfa.edge(zeros, {'0', '0'}, zeros);
  nfa.jump(zeros, accept);
  for (const auto& value : values) {
    const std::string text =
        (value.negative ? "-" : "") + value.whole + (value.is_integer() ? "" : "." + value.fraction);
    // A digit takes a state, and one in the closure of the first.
    if (!bound.fuel->spend(20 * text.size()))
      return fail(ErrorCode::unsupported_value, "The numbers take more work than one constraint may cost.");
    Nfa::State state = start;
    for (const char c : text) {
      const auto next = nfa.add();
      const auto byte = static_cast<std::uint8_t>(c);
      nfa.edge(state, {byte, byte}, next);
      state = next;
    }
    if (value.is_integer()) {
      nfa.jump(state, accept);
      nfa.edge(state, {'.', '.'}, point);
    } else {
      nfa.jump(state, zeros);
    }
    if (nfa.states() > bound.states)
      return fail(ErrorCode::unsupported_value,
                  "The numbers have more than " + std::to_string(bound.states) + " digits together.");
  }
  return within(determinize(nfa, start, accept, bound), all_decimals(bound), bound);
}

Result<Dfa> integers(Bound bound) {
  return of_pattern("(0|-?[1-9]\\d{0,20})(\\.0{1,24})?", bound);
}

Result<Dfa> exact_decimals(std::size_t fraction, Bound bound) {
  if (fraction == 0) return of_pattern("(0|-?[1-9]\\d{0,14})(\\.0{1,24})?", bound);
  const std::string size = "-?\\d{1," + std::to_string(kExactDigits - fraction) + "}(\\.\\d{0," +
                           std::to_string(fraction) + "}0*)?";
  return within(of_pattern(size, bound), all_decimals(bound), bound);
}

// The largest automaton of a multiple; a larger one exceeds the work of a constraint.
constexpr std::size_t kMostRemainders = 10'000;

Result<Dfa> multiples(const Decimal& of, Bound bound) {
  const std::size_t behind = of.fraction.size();  // digits behind the point
  const std::string digits = of.whole + of.fraction;
  const std::size_t first_digit = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  const std::uint64_t steps = digits.size() - first_digit > 18 ? ~std::uint64_t{0} : std::stoull(digits);
  if (behind >= kExactDigits || steps > kMostRemainders / (behind + 2))
    return fail(ErrorCode::unsupported_value,
                "The number " + of.whole + (behind > 0 ? "." : "") + of.fraction +
                    " has too many digits for multipleOf: " + std::to_string(kMostRemainders / (behind + 2)) +
                    " steps of its last digit and " + std::to_string(kExactDigits - 1) +
                    " digits behind the point are served.");
  // x is a multiple if x * 10^behind is one of `steps`. A state for each remainder of the digits read, before
  // the point and behind each number of digits behind it.
  Nfa nfa;
  const auto start = nfa.add(), accept = nfa.add(), zeros = nfa.add(), minus = nfa.add();
  const auto first = static_cast<Nfa::State>(nfa.states());
  for (std::uint64_t i = 0; i < steps * (behind + 2); ++i) nfa.add();
  const auto before_point = [&](std::uint64_t remainder) {
    return first + static_cast<Nfa::State>(remainder);
  };
  const auto behind_point = [&](std::size_t n, std::uint64_t remainder) {
    return first + static_cast<Nfa::State>((n + 1) * steps + remainder);
  };
  const auto on_digits = [&](Nfa::State from, std::uint64_t remainder, auto&& to) {
    for (unsigned d = 0; d <= 9; ++d) {
      const auto byte = static_cast<std::uint8_t>('0' + d);
      nfa.edge(from, {byte, byte}, to((remainder * 10 + d) % steps));
    }
  };
  std::uint64_t power = 1 % steps;  // of ten, for the digits behind the point that are not there
  for (std::size_t n = behind + 1; n-- > 0; power = power * 10 % steps)
    for (std::uint64_t r = 0; r < steps; ++r) {
      const bool is_multiple = r * power % steps == 0;
      if (n > 0 && is_multiple) nfa.jump(behind_point(n, r), accept);
      if (n == 0 && is_multiple) nfa.jump(before_point(r), accept);
      if (n < behind)
        on_digits(behind_point(n, r), r, [&](std::uint64_t next) { return behind_point(n + 1, next); });
    }
  for (std::uint64_t r = 0; r < steps; ++r) {
    on_digits(before_point(r), r, before_point);
    nfa.edge(before_point(r), {'.', '.'}, behind_point(0, r));
  }
  on_digits(start, 0, before_point);  // exact_decimals() drops numbers with needless zeros
  nfa.edge(start, {'-', '-'}, minus);
  on_digits(minus, 0, before_point);
  nfa.edge(behind_point(behind, 0), {'0', '0'}, zeros);
  nfa.edge(zeros, {'0', '0'}, zeros);
  nfa.jump(zeros, accept);
  return within(determinize(nfa, start, accept, bound), exact_decimals(behind, bound), bound);
}

Result<Dfa> broken_decimals(Bound bound) {
  return of_pattern("-?(0|[1-9]\\d{0,5})\\.\\d{0,8}[1-9]0{0,15}", bound);
}

Result<Dfa> shortest_spellings(Bound bound) {
  return of_pattern("-?\\d+(\\.\\d*[1-9])?", bound);
}

Result<Dfa> any_number(Bound bound) {
  // 10^308 is the largest power that a double holds; with more digits the exponent is shorter.
  return of_pattern(
      "-?((0|[1-9]\\d{0,20})(\\.\\d{1,24})?([eE][+-]?\\d{1,2})?"
      "|[1-9](\\.\\d{1,24})?[eE](\\+?([12]\\d\\d|30[0-7])|-([12]\\d\\d|30[0-7])))",
      bound);
}

Result<Dfa> any_integer(Bound bound) {
  return of_pattern("0|-?[1-9]\\d{0,20}", bound);
}

}  // namespace flyball::grammar
