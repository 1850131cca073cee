#include "backends/grammar/schema_keywords.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "backends/grammar/number_language.hpp"
#include "backends/grammar/regex.hpp"

namespace flyball::grammar {

std::unexpected<Error> undeniable(const Place& at, Keyword which) {
  return unsupported(at, "The keyword \"" + std::string(name_of(which)) +
                             "\" is not served where a schema is denied (by not, if, or a oneOf whose "
                             "alternatives overlap).");
}
Result<Language> shared(Result<Dfa> dfa, const Place& at) {
  if (!dfa) {
    dfa.error().where = at.pointer.text();
    return pass(dfa);
  }
  return std::make_shared<const Dfa>(*std::move(dfa));
}

Result<unsigned> types(const Place& at) {
  const auto one = [](JsonView name) -> unsigned {
    if (!name.is_string()) return 0;
    constexpr std::pair<std::string_view, unsigned> kTypes[] = {
        {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kInteger | kFraction},
        {"string", kString}, {"array", kArray},     {"object", kObject}};
    for (const auto& [type, bits] : kTypes)
      if (name.text() == type) return bits;
    return 0;
  };
  unsigned all = 0;
  if (at.value.is_array()) {
    for (const auto [_, name] : at.value.members()) {
      const unsigned type = one(name);
      if (type == 0) return malformed(at, "A type in \"type\" is none of JSON Schema's seven.");
      all |= type;
    }
  } else {
    all = one(at.value);
  }
  if (all == 0) return malformed(at, "\"type\" is neither the name of a type nor a list of such names.");
  return all;
}

std::string shown(JsonView value) {
  constexpr std::size_t kMost = 40;
  if (value.is_string()) return "\"" + std::string(value.text().substr(0, kMost)) + "\"";
  if (value.is_number()) {
    const Decimal number = Decimal::of(value);
    const std::string text =
        (number.negative ? "-" : "") + number.whole + (number.is_integer() ? "" : "." + number.fraction);
    return text.substr(0, kMost);
  }
  return value.type_name();
}

namespace {

// An integer of at least 0; kUnbounded - 1 stands for all that are larger.
Result<std::uint32_t> count(const Place& at) {
  const double value = at.value.is_number() ? at.value.as_double() : -1;
  if (value < 0 || value != std::floor(value))
    return malformed(at,
                     "The count has to be an integer of at least 0; the schema has " + shown(at.value) + ".");
  return value >= kUnbounded - 1 ? kUnbounded - 1 : static_cast<std::uint32_t>(value);
}

}  // namespace

Result<Counts> counts(const Keywords& has, Keyword least, Keyword most) {
  Counts out;
  if (has[least]) {
    const auto n = count(has.at(least));
    if (!n) return pass(n);
    if (*n > kMostCounted)
      return too_large(has.at(least), "\"" + std::string(name_of(least)) + "\" is " + shown(has[least]) +
                                          "; at most " + std::to_string(kMostCounted) + " is served.");
    out.least = *n;
  }
  if (has[most]) {
    const auto n = count(has.at(most));
    if (!n) return pass(n);
    out.most = *n;
  }
  return out;
}

Result<std::vector<std::string_view>> names(const Place& at) {
  if (!at.value.is_array()) return malformed(at, "A list of names of properties is an array of strings.");
  std::vector<std::string_view> out;
  out.reserve(at.value.size());
  for (const auto [_, name] : at.value.members()) {
    if (!name.is_string())
      return malformed(at, "The name of a property is a string, not " + shown(name) + ".");
    out.push_back(name.text());
  }
  return out;
}

Result<void> check_object(const Place& at) {
  if (!at.value.is_object()) return malformed(at, "The value of this keyword is an object.");
  return {};
}

ObjectPart open_object() {
  ObjectPart part;
  part.others.emplace_back();
  return part;
}
ObjectPart open_object(std::string_view name, Conjunction value, bool required) {
  ObjectPart part = open_object();
  part.properties.push_back({name, std::move(value), required});
  return part;
}
ValueSet only(ObjectPart part) {
  ValueSet set;
  set.add(part);
  return set;
}
ValueSet only(ArrayPart part) {
  ValueSet set;
  set.add(part);
  return set;
}
ValueSet only(StringPart part) {
  ValueSet set;
  set.strings.push_back(std::move(part));
  return set;
}
ValueSet only(NumberPart part) {
  ValueSet set;
  if (!part.language || !is_empty(*part.language))
    set.numbers.push_back(std::move(part));
  else
    set.lossy = !part.exact;
  return set;
}
ValueSet all_but_objects() {
  ValueSet set = ValueSet::everything();
  set.objects.clear();
  return set;
}

Result<Dfa> in_range(Keyword which, const Place& at, Bound bound) {
  if (!at.value.is_number()) return malformed(at, "A limit of numbers is a number.");
  const Decimal value = Decimal::of(at.value);
  switch (which) {
    case Keyword::minimum:
      return decimals_at_least(value, bound);
    case Keyword::maximum:
      return decimals_at_most(value, bound);
    case Keyword::exclusive_minimum:
      return decimals_above(value, bound);
    case Keyword::exclusive_maximum:
      return decimals_below(value, bound);
    default:
      break;
  }
  if (value.negative || value.is_zero()) return malformed(at, "\"multipleOf\" is greater than 0.");
  return multiples(value, bound);
}

Result<Dfa> texts_matching(std::string_view pattern, std::uint32_t depth, Bound bound) {
  return from_regex(pattern,
                    {.match = RegexOptions::Match::search, .spelling = Spelling::json_string, .depth = depth},
                    bound);
}

bool spend_denied_items(Fuel& fuel, std::uint64_t n) {
  return spend_bytes(fuel, n * (n + 8) / 2 * sizeof(Conjunction));
}

}  // namespace flyball::grammar
