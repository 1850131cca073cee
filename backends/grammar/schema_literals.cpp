#include "backends/grammar/schema_terms.hpp"

#include <string>
#include <utility>
#include <vector>

#include "backends/grammar/json_language.hpp"
#include "backends/grammar/number_language.hpp"
#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/schema_keywords.hpp"

namespace flyball::grammar {

namespace {

// Calls `each` with the value of `const`, or with each member of `enum`, until one fails.
template <class Each>
Result<void> for_each_literal(const Place& at, Keyword which, Each each) {
  if (which == Keyword::constant) return each(at);
  std::uint32_t i = 0;
  for (const auto [_, value] : at.value.members())
    if (auto ok = each(at.item(i++, value)); !ok) return ok;
  return {};
}

// Doubles tell numbers of so many digits apart.
bool is_exact(const Decimal& number) {
  return number.whole.size() + number.fraction.size() <= kExactDigits;
}

}  // namespace

Result<ValueSet> SchemaTerms::literals(const Place& at, Keyword which) {
  ValueSet set;
  std::vector<std::string> texts;
  std::vector<Decimal> numbers;
  bool exact = true;
  const auto add = [&](const Place& one) -> Result<void> {
    // A text takes 32 bytes and its own, a decimal 72; most time goes to a number's digits.
    if (!spend_bytes(*fuel_, 100 + one.value.bytes().size())) return out_of_fuel(one);
    switch (one.value.kind()) {
      case JsonKind::null:
        set.null = true;
        break;
      case JsonKind::no:
        set.no = true;
        break;
      case JsonKind::yes:
        set.yes = true;
        break;
      case JsonKind::integer:
      case JsonKind::digits:
      case JsonKind::real:
        numbers.push_back(Decimal::of(one.value));
        if (!numbers.back().has_spelling())
          return unsupported(
              one, "A number of more than 21 digits before the point or 24 behind it is not served.");
        exact &= is_exact(numbers.back());
        break;
      case JsonKind::string:
        texts.push_back(spell(one.value.text(), Spelling::json_string));
        break;
      case JsonKind::array: {
        const std::uint32_t n = one.value.size();
        ArrayPart part{.prefix = {}, .rest = {kNothing}, .least = n, .most = n, .contains = {}};
        std::uint32_t i = 0;
        for (const auto [_, item] : one.value.members()) {
          const auto term = intern(one.item(i++, item), true, false);
          if (!term) return pass(term);
          part.prefix.push_back({*term});
        }
        set.add(only(std::move(part)));
        break;
      }
      case JsonKind::object: {
        ObjectPart part;
        for (const auto [name, value] : one.value.members()) {
          const auto term = intern(one.member(name, value), true, false);
          if (!term) return pass(term);
          part.properties.push_back({name, {*term}, true});
        }
        set.add(only(std::move(part)));
        break;
      }
    }
    if (set.is_overfull) return located(Result<void>(too_many_parts()), at);
    return {};
  };
  if (auto ok = for_each_literal(at, which, add); !ok) return pass(ok);
  if (!texts.empty()) {
    auto language = shared(from_texts(std::move(texts), bound()), at);
    if (!language) return pass(language);
    set.strings.push_back({.language = *std::move(language)});
  }
  if (!numbers.empty()) {
    auto language = shared(decimals_equal(numbers, bound()), at);
    if (!language) return pass(language);
    set.numbers.push_back({.language = *std::move(language), .shortest = true, .exact = exact});
  }
  return set;
}

// Arrays that differ from the literal: by their length, or by an item.
Result<ValueSet> SchemaTerms::other_arrays(const Place& literal) {
  const std::uint32_t n = literal.value.size();
  if (!spend_denied_items(*fuel_, n)) return out_of_fuel(literal);
  ValueSet set;
  if (n > 0) set.add(only(ArrayPart{.prefix = {}, .rest = {}, .most = n - 1, .contains = {}}));
  set.add(only(ArrayPart{.prefix = {}, .rest = {}, .least = n + 1, .contains = {}}));
  std::uint32_t i = 0;
  for (const auto [_, item] : literal.value.members()) {
    const auto term = intern(literal.item(i, item), true, true);
    if (!term) return pass(term);
    ArrayPart part{.prefix = std::vector<Conjunction>(i + 1), .rest = {}, .least = i + 1, .contains = {}};
    part.prefix[i++] = {*term};
    set.add(only(std::move(part)));
  }
  return set;
}

// Objects that differ from the literal: by a missing key, by a value, or by a further key.
Result<ValueSet> SchemaTerms::other_objects(const Place& literal) {
  ValueSet set;
  for (const auto [name, value] : literal.value.members()) {
    const auto term = intern(literal.member(name, value), true, true);
    if (!term) return pass(term);
    if (!spend_bytes(*fuel_, 600)) return out_of_fuel(literal);
    set.add(only(open_object(name, {kNothing}, false)));
    set.add(only(open_object(name, {*term}, true)));
  }
  ObjectPart larger = open_object();
  larger.least = literal.value.size() + 1;
  set.add(only(std::move(larger)));
  return set;
}

Result<ValueSet> SchemaTerms::other_numbers(const Place& literal) {
  ValueSet set;
  for (const auto which : {Keyword::exclusive_minimum, Keyword::exclusive_maximum}) {
    auto language = shared(in_range(which, literal, bound()), literal);
    if (!language) return pass(language);
    set.add(only(NumberPart{.language = *std::move(language), .exact = false}));
  }
  return set;
}

Result<ValueSet> SchemaTerms::without_literals(const Place& at, Keyword which) {
  ValueSet set = ValueSet::everything();
  std::vector<std::string> texts;
  const auto narrow = [&](const ValueSet& by, const Place& place) -> Result<void> {
    auto both = intersection(set, by, place);
    if (!both) return pass(both);
    set = *std::move(both);
    return {};
  };
  const auto remove = [&](const Place& one) -> Result<void> {
    if (!spend_bytes(*fuel_, 100 + one.value.bytes().size())) return out_of_fuel(one);
    ValueSet others = ValueSet::everything();
    Result<ValueSet> of_type = ValueSet();
    switch (one.value.kind()) {
      case JsonKind::null:
        set.null = false;
        return {};
      case JsonKind::no:
        set.no = false;
        return {};
      case JsonKind::yes:
        set.yes = false;
        return {};
      case JsonKind::string:
        texts.push_back(spell(one.value.text(), Spelling::json_string));
        return {};
      case JsonKind::integer:
      case JsonKind::digits:
      case JsonKind::real:
        others.numbers.clear();
        of_type = other_numbers(one);
        break;
      case JsonKind::array:
        others.arrays.clear();
        of_type = other_arrays(one);
        break;
      case JsonKind::object:
        others.objects.clear();
        of_type = other_objects(one);
        break;
    }
    if (!of_type) return pass(of_type);
    others.add(*std::move(of_type));
    return narrow(others, one);
  };
  if (auto ok = for_each_literal(at, which, remove); !ok) return pass(ok);
  if (texts.empty()) return set;
  const auto named = from_texts(std::move(texts), bound());
  if (!named) return located(Result<ValueSet>(pass(named)), at);
  const auto every = plain_strings(bound());
  if (!every) return located(Result<ValueSet>(pass(every)), at);
  auto language = shared(subtract(*every, *named, bound()), at);
  if (!language) return pass(language);
  ValueSet others = ValueSet::everything();
  others.strings.front().language = *std::move(language);
  if (auto ok = narrow(others, at); !ok) return pass(ok);
  return set;
}

}  // namespace flyball::grammar
