#include "backends/grammar/schema_terms.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "backends/grammar/json_language.hpp"
#include "backends/grammar/number_language.hpp"
#include "backends/grammar/regex.hpp"
#include "backends/grammar/schema_error.hpp"

namespace flyball::grammar {
namespace {

constexpr std::uint32_t kMostCounted = 1'000'000;  // of what a schema demands at least
constexpr unsigned kEmptinessDepth = 4;

enum Type : unsigned {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,
  kString = 16,
  kArray = 32,
  kObject = 64
};
constexpr unsigned kAllTypes = 127;

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

// A value for messages, cut short.
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

// An integer of at least 0; kUnbounded - 1 stands for all that are larger.
Result<std::uint32_t> count(const Place& at) {
  const double value = at.value.is_number() ? at.value.as_double() : -1;
  if (value < 0 || value != std::floor(value))
    return malformed(at,
                     "The count has to be an integer of at least 0; the schema has " + shown(at.value) + ".");
  return value >= kUnbounded - 1 ? kUnbounded - 1 : static_cast<std::uint32_t>(value);
}

struct Counts {
  std::uint32_t least = 0, most = kUnbounded;
};

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

// Objects whose other keys hold any value.
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

constexpr Keyword kNumberKeywords[] = {Keyword::minimum, Keyword::maximum, Keyword::exclusive_minimum,
                                       Keyword::exclusive_maximum, Keyword::multiple_of};

}  // namespace

SchemaTerms::SchemaTerms(JsonView root, bool accepts_unknown, const Limits& limits, Fuel& fuel)
    : accepts_unknown_(accepts_unknown), limits_(limits), fuel_(&fuel), document_(root, fuel) {
  Entry& nothing = entries_.emplace_back();  // kNothing
  nothing.set = std::make_unique<const ValueSet>();
}

Place SchemaTerms::place_of(const Conjunction& all) const {
  return all.empty() ? document_.root() : entries_[static_cast<std::size_t>(all.front())].place;
}

Result<Term> SchemaTerms::intern(const Place& place, bool literal, bool denied) {
  // An entry, its key and its pointer take about 250 bytes; the key's hash reads the whole value.
  if (!spend_bytes(*fuel_, 250 + place.value.bytes().size() / 2)) return out_of_fuel(place);
  std::size_t resource = 0;
  if (!literal) {
    const auto own = document_.resource_of(place);
    if (!own) return pass(own);
    resource = *own;
  }
  const TermKey key{place.value.bytes(), resource, literal, denied};
  const auto [at, is_new] = terms_.try_emplace(key, static_cast<Term>(entries_.size()));
  if (is_new) {
    Entry& entry = entries_.emplace_back();
    entry.place = place;
    entry.literal = literal;
    entry.denied = denied;
  }
  return at->second;
}

Result<Conjunction> SchemaTerms::condition(const Place& schema, bool denied) {
  if (!fuel_->spend(16)) return out_of_fuel(schema);
  if (schema.value.is_boolean()) {
    if (schema.value.as_bool() != denied) return Conjunction{};
    return Conjunction{kNothing};
  }
  if (!schema.value.is_object()) return malformed(schema, "A schema is an object or a boolean.");
  const auto term = intern(schema, false, denied);
  if (!term) return pass(term);
  return Conjunction{*term};
}

Result<const ValueSet*> SchemaTerms::values(Term term) {
  const auto index = static_cast<std::size_t>(term);
  if (entries_[index].set) return entries_[index].set.get();
  const Place place = entries_[index].place;
  if (entries_[index].in_progress) {
    met_itself_ = true;
    return malformed(place, "The schema refers to itself without a property or item between.");
  }
  if (depth_ >= limits_.depth)
    return too_large(place, "Schemas and references lead into each other more than " +
                                std::to_string(limits_.depth) + " deep.");
  entries_[index].in_progress = true;
  ++depth_;
  auto set = work_out(place, entries_[index].literal, entries_[index].denied);
  --depth_;
  entries_[index].in_progress = false;
  if (!set) return pass(set);
  if (set->is_overfull) return located(Result<const ValueSet*>(too_many_parts()), place);
  entries_[index].set = std::make_unique<const ValueSet>(*std::move(set));
  return entries_[index].set.get();
}

Result<const ValueSet*> SchemaTerms::values(const Conjunction& all) {
  static const ValueSet everything = ValueSet::everything();
  if (all.empty()) return &everything;
  if (all.size() == 1) return values(all[0]);
  if (const auto at = sets_.find(all); at != sets_.end()) return at->second.get();
  ValueSet set = everything;
  for (const Term term : all) {
    const auto next = values(term);
    if (!next) return next;
    auto both = intersection(set, **next, entries_[static_cast<std::size_t>(term)].place);
    if (!both) return pass(both);
    set = *std::move(both);
  }
  return sets_.emplace(all, std::make_unique<const ValueSet>(std::move(set))).first->second.get();
}

Result<ValueSet> SchemaTerms::set_of(const Conjunction& all) {
  const auto set = values(all);
  if (!set) return pass(set);
  // A part takes 32 bytes, shared ones 16.
  if (!spend_bytes(*fuel_, 150 + 32 * (*set)->parts())) return out_of_fuel(place_of(all));
  return **set;
}

Result<ValueSet> SchemaTerms::intersection(const ValueSet& a, const ValueSet& b, const Place& at) {
  auto set = intersect(a, b, work());
  if (!set) set.error().where = at.pointer.text();
  return set;
}

Result<ValueSet> SchemaTerms::work_out(const Place& place, bool literal, bool is_denied) {
  if (literal)
    return is_denied ? without_literals(place, Keyword::constant) : literals(place, Keyword::constant);
  const auto has = Keywords::read(place, accepts_unknown_);
  if (!has) return pass(has);
  return is_denied ? denied(place, *has) : affirmed(place, *has);
}

Result<std::vector<Conjunction>> SchemaTerms::conditions(const Place& array, bool denied) {
  if (!array.value.is_array()) return malformed(array, "The value of this keyword is an array of schemas.");
  std::vector<Conjunction> out;
  std::uint32_t i = 0;
  for (const auto [_, schema] : array.value.members()) {
    if (!spend_bytes(*fuel_, 64)) return out_of_fuel(array);
    auto all = condition(array.item(i++, schema), denied);
    if (!all) return pass(all);
    out.push_back(*std::move(all));
  }
  return out;
}

// The values that satisfy every keyword.
Result<ValueSet> SchemaTerms::affirmed(const Place& schema, const Keywords& has) {
  auto set = own_values(schema, has);
  if (!set) return set;
  const auto narrow = [&](Result<ValueSet> by, Keyword at) -> Result<void> {
    if (!by) return pass(by);
    auto both = intersection(*set, *by, has.at(at));
    if (!both) return pass(both);
    set = std::move(both);
    return {};
  };
  const auto narrow_by = [&](Result<Conjunction> by, Keyword at) -> Result<void> {
    if (!by) return pass(by);
    if (by->empty()) return {};
    const auto values = this->values(*by);
    if (!values) return pass(values);
    auto both = intersection(*set, **values, has.at(at));
    if (!both) return pass(both);
    set = std::move(both);
    return {};
  };
  if (has[Keyword::constant])
    if (auto ok = narrow(literals(has.at(Keyword::constant), Keyword::constant), Keyword::constant); !ok)
      return pass(ok);
  if (has[Keyword::enumeration]) {
    const Place at = has.at(Keyword::enumeration);
    if (!at.value.is_array()) return malformed(at, "\"enum\" is an array.");
    if (auto ok = narrow(literals(at, Keyword::enumeration), Keyword::enumeration); !ok) return pass(ok);
  }
  if (has[Keyword::ref]) {
    const auto target = document_.resolve(has.at(Keyword::ref));
    if (!target) return pass(target);
    if (auto ok = narrow_by(condition(*target), Keyword::ref); !ok) return pass(ok);
  }
  if (has[Keyword::all_of]) {
    const auto all = conditions(has.at(Keyword::all_of), false);
    if (!all) return pass(all);
    for (const auto& one : *all)
      if (auto ok = narrow_by(one, Keyword::all_of); !ok) return pass(ok);
  }
  if (has[Keyword::any_of]) {
    const auto all = conditions(has.at(Keyword::any_of), false);
    if (!all) return pass(all);
    ValueSet any;
    for (const auto& one : *all) {
      auto values = set_of(one);
      if (!values) return values;
      any.add(*std::move(values));
      if (any.is_overfull) return located(Result<ValueSet>(too_many_parts()), has.at(Keyword::any_of));
    }
    if (auto ok = narrow(std::move(any), Keyword::any_of); !ok) return pass(ok);
  }
  if (has[Keyword::one_of])
    if (auto ok = narrow(one_of(has), Keyword::one_of); !ok) return pass(ok);
  if (has[Keyword::negation])
    if (auto ok = narrow_by(condition(has.at(Keyword::negation), true), Keyword::negation); !ok)
      return pass(ok);
  if (has[Keyword::condition] && (has[Keyword::then] || has[Keyword::otherwise]))
    if (auto ok = narrow(conditional(has, false), Keyword::condition); !ok) return pass(ok);
  for (const auto which : {Keyword::dependent_required, Keyword::dependencies})
    if (has[which])
      if (auto ok = narrow(dependent_required(has, which, false), which); !ok) return pass(ok);
  for (const auto which : {Keyword::dependent_schemas, Keyword::dependencies})
    if (has[which])
      if (auto ok = narrow(dependent_schemas(has, which), which); !ok) return pass(ok);
  for (const auto which : {Keyword::unevaluated_items, Keyword::unevaluated_properties})
    if (has[which])
      return unsupported(has.at(which), "The keyword \"" + std::string(name_of(which)) + "\" is not served.");
  return set;
}

// The values that fail at least one keyword.
Result<ValueSet> SchemaTerms::denied(const Place& schema, const Keywords& has) {
  ValueSet set;
  const auto add = [&](Result<ValueSet> more) -> Result<void> {
    if (!more) return pass(more);
    set.add(*std::move(more));
    if (set.is_overfull) return located(Result<void>(too_many_parts()), schema);
    return {};
  };
  if (has[Keyword::type]) {
    const auto all = types(has.at(Keyword::type));
    if (!all) return pass(all);
    ValueSet others = ValueSet::everything();
    if (*all & kNull) others.null = false;
    if (*all & kBoolean) others.no = others.yes = false;
    if (*all & kString) others.strings.clear();
    if (*all & kArray) others.arrays.clear();
    if (*all & kObject) others.objects.clear();
    if (*all & kInteger) others.numbers.clear();
    if ((*all & kInteger) && !(*all & kFraction)) {
      auto broken = shared(broken_decimals(bound()), has.at(Keyword::type));
      if (!broken) return pass(broken);
      others.numbers.push_back({.language = *std::move(broken), .exact = false});
    }
    set.add(std::move(others));
  }
  if (has[Keyword::constant])
    if (auto ok = add(without_literals(has.at(Keyword::constant), Keyword::constant)); !ok) return pass(ok);
  if (has[Keyword::enumeration]) {
    const Place at = has.at(Keyword::enumeration);
    if (!at.value.is_array()) return malformed(at, "\"enum\" is an array.");
    if (auto ok = add(without_literals(at, Keyword::enumeration)); !ok) return pass(ok);
  }
  for (auto part : {&SchemaTerms::denied_numbers, &SchemaTerms::denied_strings, &SchemaTerms::denied_arrays,
                    &SchemaTerms::denied_objects})
    if (auto ok = add((this->*part)(has)); !ok) return pass(ok);
  if (has[Keyword::ref]) {
    const auto target = document_.resolve(has.at(Keyword::ref));
    if (!target) return pass(target);
    const auto all = condition(*target, true);
    if (!all) return pass(all);
    if (auto ok = add(set_of(*all)); !ok) return pass(ok);
  }
  if (has[Keyword::all_of]) {
    const auto all = conditions(has.at(Keyword::all_of), true);
    if (!all) return pass(all);
    for (const auto& one : *all)
      if (auto ok = add(set_of(one)); !ok) return pass(ok);
  }
  for (const auto which : {Keyword::any_of, Keyword::one_of}) {
    if (!has[which]) continue;
    // None holds.
    const auto none = conditions(has.at(which), true);
    if (!none) return pass(none);
    ValueSet all = ValueSet::everything();
    for (const auto& one : *none) {
      const auto values = this->values(one);
      if (!values) return pass(values);
      auto both = intersection(all, **values, has.at(which));
      if (!both) return both;
      all = *std::move(both);
    }
    set.add(std::move(all));
    if (which == Keyword::any_of) continue;
    // Or two hold. `add` stops at the first pair beyond the bound of parts.
    const auto each = conditions(has.at(which), false);
    if (!each) return pass(each);
    for (std::size_t i = 0; i < each->size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        if (!fuel_->spend(20)) return out_of_fuel(has.at(which));
        if (auto ok = add(set_of(both((*each)[i], (*each)[j]))); !ok) return pass(ok);
      }
  }
  if (has[Keyword::negation]) {
    const auto all = condition(has.at(Keyword::negation));
    if (!all) return pass(all);
    if (auto ok = add(set_of(*all)); !ok) return pass(ok);
  }
  if (has[Keyword::condition] && (has[Keyword::then] || has[Keyword::otherwise]))
    if (auto ok = add(conditional(has, true)); !ok) return pass(ok);
  if (has[Keyword::dependent_required])
    if (auto ok = add(dependent_required(has, Keyword::dependent_required, true)); !ok) return pass(ok);
  for (const auto which : {Keyword::dependent_schemas, Keyword::dependencies, Keyword::unevaluated_items,
                           Keyword::unevaluated_properties})
    if (has[which]) return undeniable(has.at(which), which);
  return set;
}

Result<ValueSet> SchemaTerms::own_values(const Place&, const Keywords& has) {
  unsigned all = kAllTypes;
  if (has[Keyword::type]) {
    const auto some = types(has.at(Keyword::type));
    if (!some) return pass(some);
    all = *some;
  }
  ValueSet set;
  set.null = all & kNull;
  set.no = set.yes = all & kBoolean;
  // Keywords of other types are read, too: a malformed one is an error wherever it stands.
  auto numbers = this->numbers(has, !(all & kFraction));
  if (!numbers) return pass(numbers);
  if (all & kInteger) set.add(*std::move(numbers));
  auto strings = this->strings(has);
  if (!strings) return pass(strings);
  if (all & kString) set.add(*std::move(strings));
  auto arrays = this->arrays(has);
  if (!arrays) return pass(arrays);
  if (all & kArray) set.add(*std::move(arrays));
  auto objects = this->objects(has);
  if (!objects) return pass(objects);
  if (all & kObject) set.add(*std::move(objects));
  return set;
}

namespace {

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
  if (!value.is_integer())
    return unsupported(
        at, "\"multipleOf\" is served for integers, not for " + value.whole + "." + value.fraction + ".");
  // More digits are beyond the bound in any case.
  return multiples(value.whole.size() > 18 ? ~std::uint64_t{0} : std::stoull(value.whole), bound);
}

}  // namespace

Result<ValueSet> SchemaTerms::numbers(const Keywords& has, bool only_integers) {
  ValueSet set = only(NumberPart{.language = {}, .integer = only_integers});
  for (const auto which : kNumberKeywords) {
    if (!has[which]) continue;
    const bool may_be_boolean = which == Keyword::exclusive_minimum || which == Keyword::exclusive_maximum;
    if (may_be_boolean && has[which].is_boolean()) continue;
    // In older drafts a boolean makes the limit beside it an exclusive one.
    Keyword meant = which;
    if (which == Keyword::minimum && has[Keyword::exclusive_minimum].is(JsonKind::yes))
      meant = Keyword::exclusive_minimum;
    if (which == Keyword::maximum && has[Keyword::exclusive_maximum].is(JsonKind::yes))
      meant = Keyword::exclusive_maximum;
    auto language = shared(in_range(meant, has.at(which), bound()), has.at(which));
    if (!language) return pass(language);
    const bool integer = which == Keyword::multiple_of;
    auto both = intersection(
        set, only(NumberPart{.language = *std::move(language), .integer = integer, .exact = false}),
        has.at(which));
    if (!both) return pass(both);
    set = *std::move(both);
  }
  return set;
}

Result<ValueSet> SchemaTerms::denied_numbers(const Keywords& has) {
  ValueSet set;
  for (const auto which : kNumberKeywords) {
    if (!has[which]) continue;
    const Place at = has.at(which);
    if (has[Keyword::exclusive_minimum].is_boolean() || has[Keyword::exclusive_maximum].is_boolean())
      return undeniable(at, which);
    if (which != Keyword::multiple_of) {
      const Keyword opposite = which == Keyword::minimum             ? Keyword::exclusive_maximum
                               : which == Keyword::maximum           ? Keyword::exclusive_minimum
                               : which == Keyword::exclusive_minimum ? Keyword::maximum
                                                                     : Keyword::minimum;
      auto language = shared(in_range(opposite, at, bound()), at);
      if (!language) return pass(language);
      set.add(only(NumberPart{.language = *std::move(language), .exact = false}));
      continue;
    }
    const auto language = in_range(which, at, bound());
    if (!language) return located(Result<ValueSet>(pass(language)), at);
    const auto whole = exact_integers(bound());
    if (!whole) return located(Result<ValueSet>(pass(whole)), at);
    auto others = shared(subtract(*whole, *language, bound()), at);
    if (!others) return pass(others);
    auto broken = shared(broken_decimals(bound()), at);
    if (!broken) return pass(broken);
    set.add(only(NumberPart{.language = *std::move(others), .integer = true, .exact = false}));
    set.add(only(NumberPart{.language = *std::move(broken), .exact = false}));
  }
  return set;
}

namespace {

Result<Dfa> texts_matching(std::string_view pattern, std::uint32_t depth, Bound bound) {
  return from_regex(pattern,
                    {.match = RegexOptions::Match::search, .spelling = Spelling::json_string, .depth = depth},
                    bound);
}

Result<Dfa> of_pattern(const Place& at, std::uint32_t depth, Bound bound) {
  if (!at.value.is_string()) return malformed(at, "A pattern is a string.");
  return texts_matching(at.value.text(), depth, bound);
}

}  // namespace

Result<ValueSet> SchemaTerms::strings(const Keywords& has) {
  const auto lengths = counts(has, Keyword::min_length, Keyword::max_length);
  if (!lengths) return pass(lengths);
  ValueSet set = only(StringPart{.language = {}, .least = lengths->least, .most = lengths->most});
  if (lengths->least > lengths->most) set.strings.clear();
  if (has[Keyword::pattern]) {
    const Place at = has.at(Keyword::pattern);
    auto language = shared(of_pattern(at, limits_.depth, bound()), at);
    if (!language) return pass(language);
    auto both = intersection(set, only(StringPart{.language = *std::move(language)}), at);
    if (!both) return pass(both);
    set = *std::move(both);
  }
  if (has[Keyword::format]) {
    const Place at = has.at(Keyword::format);
    if (!at.value.is_string()) return malformed(at, "\"format\" is a string.");
    if (is_enforced_format(at.value.text())) {
      auto language = shared(strings_of_format(at.value.text(), bound()), at);
      if (!language) return pass(language);
      auto both = intersection(set, only(StringPart{.language = *std::move(language), .exact = false}), at);
      if (!both) return pass(both);
      set = *std::move(both);
    }
  }
  return set;
}

Result<ValueSet> SchemaTerms::denied_strings(const Keywords& has) {
  ValueSet set;
  const auto lengths = counts(has, Keyword::min_length, Keyword::max_length);
  if (!lengths) return pass(lengths);
  if (lengths->least > 0) set.add(only(StringPart{.language = {}, .most = lengths->least - 1}));
  if (lengths->most < kMostCounted) set.add(only(StringPart{.language = {}, .least = lengths->most + 1}));
  set.lossy |= lengths->most >= kMostCounted && lengths->most != kUnbounded;
  if (has[Keyword::pattern]) {
    const Place at = has.at(Keyword::pattern);
    const auto language = of_pattern(at, limits_.depth, bound());
    if (!language) return located(Result<ValueSet>(pass(language)), at);
    const auto all = plain_strings(bound());
    if (!all) return located(Result<ValueSet>(pass(all)), at);
    auto others = shared(subtract(*all, *language, bound()), at);
    if (!others) return pass(others);
    if (!is_empty(**others)) set.add(only(StringPart{.language = *std::move(others)}));
  }
  if (has[Keyword::format]) {
    const Place at = has.at(Keyword::format);
    if (!at.value.is_string()) return malformed(at, "\"format\" is a string.");
    if (is_enforced_format(at.value.text())) return undeniable(at, Keyword::format);
  }
  return set;
}

Result<ValueSet> SchemaTerms::arrays(const Keywords& has) {
  const auto lengths = counts(has, Keyword::min_items, Keyword::max_items);
  if (!lengths) return pass(lengths);
  ArrayPart part{.prefix = {}, .rest = {}, .least = lengths->least, .most = lengths->most, .contains = {}};
  if (has[Keyword::prefix_items]) {
    auto prefix = conditions(has.at(Keyword::prefix_items), false);
    if (!prefix) return pass(prefix);
    part.prefix = *std::move(prefix);
  }
  Keyword rest = Keyword::items;
  if (has[Keyword::items].is_array() && !has[Keyword::prefix_items]) {  // prefixItems of older drafts
    auto prefix = conditions(has.at(Keyword::items), false);
    if (!prefix) return pass(prefix);
    part.prefix = *std::move(prefix);
    rest = Keyword::additional_items;
  }
  if (has[rest]) {
    auto others = condition(has.at(rest));
    if (!others) return pass(others);
    part.rest = *std::move(others);
  }
  if (has[Keyword::unique_items]) {
    const Place at = has.at(Keyword::unique_items);
    if (!at.value.is_boolean()) return malformed(at, "\"uniqueItems\" is a boolean.");
    if (at.value.as_bool() && part.most > 1)
      return unsupported(at, "\"uniqueItems\" is served for arrays of at most one item.");
  }
  const auto contained = counts(has, Keyword::min_contains, Keyword::max_contains);
  if (!contained) return pass(contained);
  if (has[Keyword::contains]) {
    auto some = condition(has.at(Keyword::contains));
    if (!some) return pass(some);
    const std::uint32_t least = has[Keyword::min_contains] ? contained->least : 1;
    if (contained->most != kUnbounded || least > 1)
      return unsupported(
          has.at(contained->most != kUnbounded ? Keyword::max_contains : Keyword::min_contains),
          "How many items \"contains\" is met by is not served, but for one at least.");
    if (least == 1 && some->empty()) part.least = std::max(part.least, 1u);
    if (least == 1 && !some->empty()) part.contains.push_back(*std::move(some));
  }
  // intersect shortens arrays before the first item that has no value.
  auto same = intersect(part, ArrayPart(), work());
  if (!same) return located(Result<ValueSet>(pass(same)), has.at(Keyword::prefix_items));
  if (same->least > same->most) return ValueSet();
  return only(*std::move(same));
}

namespace {

// Fuel for n parts of which part i says that item i differs: each has the conditions of all items up to it.
bool spend_denied_items(Fuel& fuel, std::uint64_t n) {
  return spend_bytes(fuel, n * (n + 8) / 2 * sizeof(Conjunction));
}

}  // namespace

Result<ValueSet> SchemaTerms::denied_arrays(const Keywords& has) {
  ValueSet set;
  const auto lengths = counts(has, Keyword::min_items, Keyword::max_items);
  if (!lengths) return pass(lengths);
  if (lengths->least > 0)
    set.add(only(ArrayPart{.prefix = {}, .rest = {}, .most = lengths->least - 1, .contains = {}}));
  if (lengths->most < kMostCounted)
    set.add(only(ArrayPart{.prefix = {}, .rest = {}, .least = lengths->most + 1, .contains = {}}));
  set.lossy |= lengths->most >= kMostCounted && lengths->most != kUnbounded;
  if (has[Keyword::prefix_items]) {
    const auto prefix = conditions(has.at(Keyword::prefix_items), true);
    if (!prefix) return pass(prefix);
    if (!spend_denied_items(*fuel_, prefix->size())) return out_of_fuel(has.at(Keyword::prefix_items));
    for (std::uint32_t i = 0; i < prefix->size(); ++i) {
      ArrayPart part{.prefix = std::vector<Conjunction>(i + 1), .rest = {}, .least = i + 1, .contains = {}};
      part.prefix[i] = (*prefix)[i];
      if (!is_nothing(part.prefix[i])) set.add(only(std::move(part)));
    }
  }
  if (has[Keyword::items].is_array()) return undeniable(has.at(Keyword::items), Keyword::items);
  if (has[Keyword::items]) {
    auto other = condition(has.at(Keyword::items), true);
    if (!other) return pass(other);
    if (!is_nothing(*other)) {
      if (has[Keyword::prefix_items] && !other->empty())
        return undeniable(has.at(Keyword::items), Keyword::items);
      const std::uint32_t least = has[Keyword::prefix_items] ? has[Keyword::prefix_items].size() + 1 : 1;
      ArrayPart part{.prefix = {}, .rest = {}, .least = least, .contains = {}};
      if (!other->empty()) part.contains.push_back(*std::move(other));
      set.add(only(std::move(part)));
    }
  }
  if (has[Keyword::contains]) {
    if (has[Keyword::min_contains] || has[Keyword::max_contains])
      return undeniable(has.at(Keyword::contains), Keyword::contains);
    auto other = condition(has.at(Keyword::contains), true);
    if (!other) return pass(other);
    auto none =
        intersect(ArrayPart{.prefix = {}, .rest = *std::move(other), .contains = {}}, ArrayPart(), work());
    if (!none) return located(Result<ValueSet>(pass(none)), has.at(Keyword::contains));
    set.add(only(*std::move(none)));
  }
  if (has[Keyword::unique_items]) return undeniable(has.at(Keyword::unique_items), Keyword::unique_items);
  return set;
}

Result<Language> SchemaTerms::keys_of(const ValueSet& names, const Place& at, bool& exact) {
  exact &= !names.lossy;
  Dfa all = empty_language();
  for (const auto& part : names.strings) {
    if (!part.language && part.least == 0 && part.most == kUnbounded) return Language();
    exact &= part.exact;
    auto strings = part.language ? Result<Dfa>(*part.language) : plain_strings(bound());
    if (strings) strings = with_length(*strings, part.least, part.most, bound());
    if (strings) strings = unite(all, *strings, bound());
    if (!strings) return located(Result<Language>(pass(strings)), at);
    all = *std::move(strings);
  }
  return std::make_shared<const Dfa>(std::move(all));
}

Result<ValueSet> SchemaTerms::objects(const Keywords& has) {
  const auto sizes = counts(has, Keyword::min_properties, Keyword::max_properties);
  if (!sizes) return pass(sizes);
  ObjectPart part;
  part.least = sizes->least;
  part.most = sizes->most;
  const auto out_of = [&](const Place& at, auto& result) {
    return located(Result<ValueSet>(pass(result)), at);
  };

  // Keys by which patterns they match; at first all of them match none.
  struct Region {
    Language keys;
    Conjunction value;
    bool matched = false;
  };
  std::vector<Region> regions(1);
  if (has[Keyword::pattern_properties]) {
    const Place at = has.at(Keyword::pattern_properties);
    if (auto ok = check_object(at); !ok) return pass(ok);
    for (const auto [pattern, schema] : at.value.members()) {
      const Place place = at.member(pattern, schema);
      auto value = condition(place);
      if (!value) return pass(value);
      auto keys = from_regex(
          pattern,
          {.match = RegexOptions::Match::search, .spelling = Spelling::json_string, .depth = limits_.depth},
          bound());
      if (!keys) return out_of(place, keys);
      std::vector<Region> next;
      for (auto& region : regions) {
        auto all = region.keys ? Result<Dfa>(*region.keys) : plain_strings(bound());
        if (!all) return out_of(place, all);
        auto in = intersect(*all, *keys, bound());
        if (!in) return out_of(place, in);
        auto out = subtract(*all, *keys, bound());
        if (!out) return out_of(place, out);
        if (!is_empty(*in))
          next.push_back({std::make_shared<const Dfa>(*std::move(in)), both(region.value, *value), true});
        if (!is_empty(*out))
          next.push_back(
              {std::make_shared<const Dfa>(*std::move(out)), std::move(region.value), region.matched});
      }
      regions = std::move(next);
    }
  }
  Conjunction additional;
  if (has[Keyword::additional_properties]) {
    auto value = condition(has.at(Keyword::additional_properties));
    if (!value) return pass(value);
    additional = *std::move(value);
  }
  for (auto& region : regions)
    part.others.push_back({std::move(region.keys), region.matched ? std::move(region.value) : additional});

  if (has[Keyword::properties]) {
    const Place at = has.at(Keyword::properties);
    if (auto ok = check_object(at); !ok) return pass(ok);
    for (const auto [name, schema] : at.value.members()) {
      auto value = condition(at.member(name, schema));
      if (!value) return pass(value);
      if (!spend_bytes(*fuel_, 150)) return out_of_fuel(at);
      Property property{name, *std::move(value)};
      if (has[Keyword::pattern_properties]) {
        const std::string spelled = spell(name, Spelling::json_string);
        for (std::size_t i = 0; i < regions.size(); ++i)
          if (regions[i].matched && part.others[i].keys->accepts(spelled))
            property.value = both(property.value, part.others[i].value);
      }
      part.properties.push_back(std::move(property));
    }
  }
  if (has[Keyword::required]) {
    const auto required = names(has.at(Keyword::required));
    if (!required) return pass(required);
    if (!spend_bytes(*fuel_, 150 * (part.properties.size() + required->size())))
      return out_of_fuel(has.at(Keyword::required));
    std::unordered_map<std::string_view, std::size_t> at;
    for (std::size_t i = 0; i < part.properties.size(); ++i) at.emplace(part.properties[i].name, i);
    for (const auto& name : *required) {
      if (const auto known = at.find(name); known != at.end()) {
        part.properties[known->second].required = true;
        continue;
      }
      at.emplace(name, part.properties.size());
      const Conjunction* value = value_of_other(part, name);
      part.properties.push_back({name, value ? *value : Conjunction{kNothing}, true});
    }
  }
  std::erase_if(part.others, [](const KeyRegion& region) { return is_nothing(region.value); });
  ObjectPart names = open_object();
  if (has[Keyword::property_names]) {
    const Place at = has.at(Keyword::property_names);
    const auto all = condition(at);
    if (!all) return pass(all);
    const auto set = values(*all);
    if (!set) return pass(set);
    auto keys = keys_of(**set, at, names.exact);
    if (!keys) return pass(keys);
    names.others[0].keys = *std::move(keys);
  }
  auto object = intersection(only(std::move(part)), only(std::move(names)), has.at(Keyword::property_names));
  if (!object) return pass(object);
  return object;
}

Result<Dfa> SchemaTerms::additional_keys(const Keywords& has) {
  auto keys = plain_strings(bound());
  if (has[Keyword::properties].is_object()) {
    std::vector<std::string> declared;
    for (const auto [name, _] : has[Keyword::properties].members())
      declared.push_back(spell(name, Spelling::json_string));
    const auto names = from_texts(std::move(declared), bound());
    if (!names) return names;
    if (keys) keys = subtract(*keys, *names, bound());
  }
  if (has[Keyword::pattern_properties].is_object())
    for (const auto [pattern, _] : has[Keyword::pattern_properties].members()) {
      const auto matching = texts_matching(pattern, limits_.depth, bound());
      if (!matching) return matching;
      if (keys) keys = subtract(*keys, *matching, bound());
    }
  return keys;
}

Result<ValueSet> SchemaTerms::denied_objects(const Keywords& has) {
  ValueSet set;
  const auto sizes = counts(has, Keyword::min_properties, Keyword::max_properties);
  if (!sizes) return pass(sizes);
  ObjectPart sized = open_object();
  if (sizes->least > 0) {
    sized.most = sizes->least - 1;
    set.add(only(sized));
  }
  if (sizes->most < kMostCounted) {
    sized.least = sizes->most + 1;
    sized.most = kUnbounded;
    set.add(only(std::move(sized)));
  }
  set.lossy |= sizes->most >= kMostCounted && sizes->most != kUnbounded;
  if (has[Keyword::required]) {
    const auto required = names(has.at(Keyword::required));
    if (!required) return pass(required);
    for (const auto name : *required) {
      if (!spend_bytes(*fuel_, 300)) return out_of_fuel(has.at(Keyword::required));
      set.add(only(open_object(name, {kNothing}, false)));
    }
  }
  if (has[Keyword::properties]) {
    const Place at = has.at(Keyword::properties);
    if (auto ok = check_object(at); !ok) return pass(ok);
    for (const auto [name, schema] : at.value.members()) {
      auto other = condition(at.member(name, schema), true);
      if (!other) return pass(other);
      if (!is_nothing(*other)) set.add(only(open_object(name, *std::move(other), true)));
    }
  }
  // That a key is there can be demanded; that it has a value of some kind cannot, for it may come again with
  // another.
  const auto demand = [&](Result<Dfa> keys, const Place& at, bool exact = true) -> Result<void> {
    auto language = shared(std::move(keys), at);
    if (!language) return pass(language);
    ObjectPart part = open_object();
    part.demanded.push_back(*std::move(language));
    part.exact = exact;
    if (!is_empty(*part.demanded[0]))
      set.add(only(std::move(part)));
    else
      set.lossy |= !exact;
    return {};
  };
  if (has[Keyword::additional_properties]) {
    const auto other = condition(has.at(Keyword::additional_properties), true);
    if (!other) return pass(other);
    const Place at = has.at(Keyword::additional_properties);
    if (!other->empty() && !is_nothing(*other)) return undeniable(at, Keyword::additional_properties);
    if (other->empty())
      if (auto ok = demand(additional_keys(has), at); !ok) return pass(ok);
  }
  if (has[Keyword::pattern_properties]) {
    const Place at = has.at(Keyword::pattern_properties);
    if (auto ok = check_object(at); !ok) return pass(ok);
    for (const auto [pattern, schema] : at.value.members()) {
      const Place place = at.member(pattern, schema);
      const auto other = condition(place, true);
      if (!other) return pass(other);
      if (is_nothing(*other)) continue;
      if (!other->empty()) return undeniable(at, Keyword::pattern_properties);
      if (auto ok = demand(texts_matching(pattern, limits_.depth, bound()), place); !ok) return pass(ok);
    }
  }
  if (has[Keyword::property_names]) {
    const Place at = has.at(Keyword::property_names);
    const auto other = condition(at, true);
    if (!other) return pass(other);
    const auto names = values(*other);
    if (!names) return pass(names);
    bool exact = true;
    const auto keys = keys_of(**names, at, exact);
    if (!keys) return pass(keys);
    if (auto ok = demand(*keys ? Result<Dfa>(**keys) : plain_strings(bound()), at, exact); !ok)
      return pass(ok);
  }
  return set;
}

// Alternatives that overlap are told apart by denying the others; most are disjoint, and need no denial.
Result<ValueSet> SchemaTerms::one_of(const Keywords& has) {
  const Place at = has.at(Keyword::one_of);
  const auto each = conditions(at, false);
  if (!each) return pass(each);
  const auto denials = conditions(at, true);
  if (!denials) return pass(denials);
  const std::size_t n = each->size();
  std::vector<std::vector<std::size_t>> overlaps(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) {
      if (!fuel_->spend(40)) return out_of_fuel(at);
      const auto left = values((*each)[i]);
      if (!left) return pass(left);
      const auto right = values((*each)[j]);
      if (!right) return pass(right);
      const auto common = intersection(**left, **right, at);
      if (!common) return pass(common);
      const auto disjoint = has_no_value(*common, kEmptinessDepth, at);
      if (!disjoint) return pass(disjoint);
      if (*disjoint) continue;
      overlaps[i].push_back(j);
      overlaps[j].push_back(i);
    }
  ValueSet out;
  for (std::size_t i = 0; i < n; ++i) {
    auto set = set_of((*each)[i]);
    if (!set) return set;
    for (const std::size_t j : overlaps[i]) {
      const auto others = values((*denials)[j]);
      if (!others) return pass(others);
      set = intersection(*set, **others, at);
      if (!set) return set;
    }
    out.add(*std::move(set));
    if (out.is_overfull) return located(Result<ValueSet>(too_many_parts()), at);
  }
  return out;
}

Result<ValueSet> SchemaTerms::conditional(const Keywords& has, bool denied) {
  const auto branch = [&](bool holds, Keyword which) -> Result<ValueSet> {
    const auto condition = this->condition(has.at(Keyword::condition), !holds);
    if (!condition) return pass(condition);
    Conjunction all = *condition;
    if (has[which]) {
      const auto then = this->condition(has.at(which), denied);
      if (!then) return pass(then);
      all = both(all, *then);
    } else if (denied) {
      return ValueSet();
    }
    return set_of(all);
  };
  auto set = branch(true, Keyword::then);
  if (!set) return set;
  auto other = branch(false, Keyword::otherwise);
  if (!other) return other;
  set->add(*std::move(other));
  return set;
}

Result<ValueSet> SchemaTerms::dependent_required(const Keywords& has, Keyword which, bool denied) {
  const Place at = has.at(which);
  if (auto ok = check_object(at); !ok) return pass(ok);
  ValueSet all = denied ? ValueSet() : ValueSet::everything();
  const bool is_mixed = which == Keyword::dependencies;
  for (const auto [key, list] : at.value.members()) {
    if (is_mixed && !list.is_array()) continue;
    const auto required = names(at.member(key, list));
    if (!required) return pass(required);
    if (denied) {
      for (const auto name : *required) {
        if (!spend_bytes(*fuel_, 400)) return out_of_fuel(at);
        ObjectPart part = open_object(key, {}, true);
        if (name == key) continue;
        part.properties.push_back({name, {kNothing}, false});
        all.add(only(std::move(part)));
      }
      continue;
    }
    ValueSet one = all_but_objects();
    one.add(open_object(key, {kNothing}, false));
    ObjectPart part = open_object(key, {}, true);
    if (!spend_bytes(*fuel_, 300 + 150 * required->size())) return out_of_fuel(at);
    std::set<std::string_view> seen{key};
    for (const auto& name : *required)
      if (seen.insert(name).second) part.properties.push_back({name, {}, true});
    one.add(part);
    auto both = intersection(all, one, at);
    if (!both) return both;
    all = *std::move(both);
  }
  return all;
}

Result<ValueSet> SchemaTerms::dependent_schemas(const Keywords& has, Keyword which) {
  const Place at = has.at(which);
  if (auto ok = check_object(at); !ok) return pass(ok);
  ValueSet all = ValueSet::everything();
  const bool is_mixed = which == Keyword::dependencies;
  for (const auto [key, schema] : at.value.members()) {
    if (is_mixed && schema.is_array()) continue;
    const auto condition = this->condition(at.member(key, schema));
    if (!condition) return pass(condition);
    const auto values = this->values(*condition);
    if (!values) return pass(values);
    auto one = intersection(only(open_object(key, {}, true)), **values, at);
    if (!one) return one;
    ValueSet others = all_but_objects();
    others.add(open_object(key, {kNothing}, false));
    one->add(std::move(others));
    auto both = intersection(all, *one, at);
    if (!both) return both;
    all = *std::move(both);
  }
  return all;
}

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
  constexpr std::size_t kExactDigits = 15;
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

Result<bool> SchemaTerms::has_no_value(const Conjunction& all, unsigned depth) {
  if (is_nothing(all)) return true;
  if (all.empty() || depth == 0) return false;
  const auto set = values(all);
  if (!set) {
    // A schema that is being worked out has values as far as is known.
    if (std::exchange(met_itself_, false)) return false;
    return pass(set);
  }
  return has_no_value(**set, depth, place_of(all));
}

Result<bool> SchemaTerms::has_no_value(const ValueSet& set, unsigned depth, const Place& at) {
  if (!fuel_->spend(4 + 4 * set.parts())) return out_of_fuel(at);
  if (set.null || set.no || set.yes || set.lossy || !set.numbers.empty()) return false;
  for (const auto& part : set.strings) {
    if (!part.language || !part.exact || (part.least == 0 && part.most == kUnbounded)) return false;
    const auto left = with_length(*part.language, part.least, part.most, bound());
    if (!left && fuel_->is_empty()) return out_of_fuel(at);
    if (!left) return false;  // too large to be certain
    if (!is_empty(*left)) return false;
  }
  for (const auto& part : set.arrays) {
    bool impossible = false;
    for (std::uint32_t i = 0; i < part->prefix.size() && i < part->least && !impossible; ++i) {
      if (!fuel_->spend(8)) return out_of_fuel(at);
      const auto none = has_no_value(part->prefix[i], depth - 1);
      if (!none) return none;
      impossible = *none;
    }
    if (!impossible) return false;
  }
  for (const auto& part : set.objects) {
    bool impossible = false;
    for (const auto& property : part->properties) {
      if (!fuel_->spend(4)) return out_of_fuel(at);
      if (!property.required || impossible) continue;
      const auto none = has_no_value(property.value, depth - 1);
      if (!none) return none;
      impossible = *none;
    }
    if (!impossible) return false;
  }
  return true;
}

}  // namespace flyball::grammar
