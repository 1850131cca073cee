#include <algorithm>
#include <utility>
#include <vector>

#include "backends/grammar/json_language.hpp"
#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/schema_evaluated.hpp"
#include "backends/grammar/schema_keywords.hpp"
#include "backends/grammar/schema_terms.hpp"

namespace flyball::grammar {

Evaluated either(const Evaluated& a, const Evaluated& b) {
  if (a.all || b.all) return Evaluated::everything();
  Evaluated out = a;
  out.names.insert(b.names.begin(), b.names.end());
  out.patterns.insert(b.patterns.begin(), b.patterns.end());
  out.items = std::max(a.items, b.items);
  out.contained.insert(b.contained.begin(), b.contained.end());
  return out;
}

namespace {

// Combinations of alternatives that evaluate different properties or items; each is written on its own.
constexpr std::size_t kMostEvaluated = 128;
constexpr unsigned kUnevaluatedEmptinessDepth = 4;  // of values within values that tell alternatives apart

std::unexpected<Error> too_many_ways(const Place& at) {
  return too_large(at, "The alternatives evaluate different properties or items in more than " +
                           std::to_string(kMostEvaluated) + " ways.");
}

// Only the objects, or only the arrays: the keyword applies to no other value.
ValueSet subjects(const ValueSet& set, Keyword which) {
  ValueSet out;
  if (which == Keyword::unevaluated_properties)
    out.objects = set.objects;
  else
    out.arrays = set.arrays;
  out.lossy = set.lossy;
  return out;
}

ByEvaluated single(Evaluated evaluated, ValueSet set) {
  ByEvaluated out;
  out.emplace(std::move(evaluated), std::move(set));
  return out;
}

}  // namespace

// The keywords that apply to properties or items themselves.
Result<Evaluated> SchemaTerms::own_evaluated(const Keywords& has, Keyword which) {
  Evaluated out;
  if (which == Keyword::unevaluated_properties) {
    if (has[Keyword::additional_properties]) return Evaluated::everything();
    const auto add_keys = [&](Keyword of, std::set<std::string_view>& to) {
      if (has[of])
        for (const auto [key, _] : has[of].members()) to.insert(key);
    };
    add_keys(Keyword::properties, out.names);
    add_keys(Keyword::pattern_properties, out.patterns);
    return out;
  }
  if (has[Keyword::items].is_array() && !has[Keyword::prefix_items]) {
    if (has[Keyword::additional_items]) return Evaluated::everything();
    out.items = has[Keyword::items].size();
  } else {
    if (has[Keyword::items]) return Evaluated::everything();
    if (has[Keyword::prefix_items]) out.items = has[Keyword::prefix_items].size();
  }
  if (has[Keyword::contains]) {
    auto some = condition(has.at(Keyword::contains));
    if (!some) return pass(some);
    if (some->empty()) return Evaluated::everything();
    if (!is_nothing(*some)) out.contained.insert(*std::move(some));
  }
  return out;
}

Result<ByEvaluated> SchemaTerms::both_evaluated(const ByEvaluated& a, const ByEvaluated& b, const Place& at) {
  ByEvaluated out;
  for (const auto& [left, left_values] : a)
    for (const auto& [right, right_values] : b) {
      if (!spend_bytes(*fuel_, 64 * (left.size() + right.size()))) return out_of_fuel(at);
      auto both = intersection(left_values, right_values, at);
      if (!both) return pass(both);
      if (!both->has_no_part() || both->lossy) out[either(left, right)].add(*std::move(both));
      if (out.size() > kMostEvaluated) return too_many_ways(at);
    }
  return out;
}

Result<ByEvaluated> SchemaTerms::by_evaluated(const Place& schema, Keyword which) {
  if (!fuel_->spend(200)) return out_of_fuel(schema);
  const auto all = condition(schema);
  if (!all) return pass(all);
  if (all->empty()) return single({}, subjects(ValueSet::everything(), which));
  if (is_nothing(*all)) return ByEvaluated();
  if (depth_ >= limits_.depth)
    return too_large(schema, "Schemas and references lead into each other more than " +
                                 std::to_string(limits_.depth) + " deep.");
  const auto has = Keywords::read(schema, *fuel_);
  if (!has) return pass(has);
  const auto set = values(*all);  // refuses what is malformed within
  if (!set) return pass(set);
  if ((*has)[which]) return single(Evaluated::everything(), subjects(**set, which));
  ++depth_;
  auto out = by_evaluated(schema, *has, which);
  --depth_;
  return out;
}

Result<ByEvaluated> SchemaTerms::by_evaluated(const Place& schema, const Keywords& has, Keyword which) {
  // `dependencies` is of older drafts, which have no such annotations.
  const auto own =
      affirmed(schema, has.without({Keyword::ref, Keyword::dynamic_ref, Keyword::all_of, Keyword::any_of,
                                    Keyword::one_of, Keyword::condition, Keyword::dependent_schemas,
                                    Keyword::negation, Keyword::dependent_required, Keyword::dependencies,
                                    Keyword::unevaluated_items, Keyword::unevaluated_properties}));
  if (!own) return pass(own);
  auto evaluated = own_evaluated(has, which);
  if (!evaluated) return pass(evaluated);
  Result<ByEvaluated> out = single(*std::move(evaluated), subjects(*own, which));
  const auto narrow = [&](const Result<ByEvaluated>& by, Keyword at) -> Result<void> {
    if (!by) return pass(by);
    out = both_evaluated(*out, *by, has.at(at));
    if (!out) return pass(out);
    return {};
  };
  for (const auto reference : {Keyword::ref, Keyword::dynamic_ref}) {
    if (!has[reference]) continue;
    const auto target = resolve(has, reference);
    if (!target) return pass(target);
    if (auto ok = narrow(by_evaluated(*target, which), reference); !ok) return pass(ok);
  }
  if (has[Keyword::all_of]) {
    const Place at = has.at(Keyword::all_of);
    std::uint32_t i = 0;
    for (const auto [_, one] : at.value.members())
      if (auto ok = narrow(by_evaluated(at.item(i++, one), which), Keyword::all_of); !ok) return pass(ok);
  }
  if (has[Keyword::any_of])
    if (auto ok = narrow(any_by_evaluated(has, which), Keyword::any_of); !ok) return pass(ok);
  if (has[Keyword::one_of])
    if (auto ok = narrow(one_by_evaluated(has, which), Keyword::one_of); !ok) return pass(ok);
  if (has[Keyword::condition])
    if (auto ok = narrow(conditional_by_evaluated(has, which), Keyword::condition); !ok) return pass(ok);
  // These evaluate nothing. They come late, for they name keys in an order of their own.
  const auto checks =
      affirmed(schema, has.only({Keyword::negation, Keyword::dependent_required, Keyword::dependencies}));
  if (!checks) return pass(checks);
  if (auto ok = narrow(single({}, subjects(*checks, which)), Keyword::dependent_required); !ok)
    return pass(ok);
  if (has[Keyword::dependent_schemas] && which == Keyword::unevaluated_properties) {
    const Place at = has.at(Keyword::dependent_schemas);
    for (const auto [key, one] : at.value.members()) {
      auto ways = by_evaluated(at.member(key, one), which);
      if (!ways) return ways;
      ways = both_evaluated(single({}, only(open_object(key, {}, true))), *ways, at);
      if (!ways) return ways;
      (*ways)[{}].add(only(open_object(key, {kNothing}, false)));
      if (auto ok = narrow(ways, Keyword::dependent_schemas); !ok) return pass(ok);
    }
  }
  return out;
}

// Several alternatives may hold together: each combination that evaluates more than its parts do is apart.
Result<ByEvaluated> SchemaTerms::any_by_evaluated(const Keywords& has, Keyword which) {
  const Place at = has.at(Keyword::any_of);
  ByEvaluated out;
  std::uint32_t i = 0;
  for (const auto [_, schema] : at.value.members()) {
    auto one = by_evaluated(at.item(i++, schema), which);
    if (!one) return one;
    ByEvaluated next;
    for (const auto& [before, values_before] : out)
      for (const auto& [now, values_now] : *one) {
        if (!spend_bytes(*fuel_, 64 * (before.size() + now.size()))) return out_of_fuel(at);
        Evaluated together = either(before, now);
        if (together == before || together == now) continue;
        auto both = intersection(values_before, values_now, at);
        if (!both) return pass(both);
        const auto none = has_no_value(*both, kUnevaluatedEmptinessDepth, at);
        if (!none) return pass(none);
        if (!*none) next[std::move(together)].add(*std::move(both));
      }
    for (auto* from : {&out, &*one})
      for (auto& [evaluated, values] : *from) next[evaluated].add(std::move(values));
    out = std::move(next);
    if (out.size() > kMostEvaluated) return too_many_ways(at);
  }
  return out;
}

Result<ByEvaluated> SchemaTerms::one_by_evaluated(const Keywords& has, Keyword which) {
  const Place at = has.at(Keyword::one_of);
  const auto denials = overlapping_denials(has);
  if (!denials) return pass(denials);
  ByEvaluated out;
  std::uint32_t i = 0;
  for (const auto [_, schema] : at.value.members()) {
    auto one = by_evaluated(at.item(i, schema), which);
    if (!one) return one;
    for (const auto& denial : (*denials)[i]) {
      const auto others = values(denial);
      if (!others) return pass(others);
      one = both_evaluated(*one, single({}, subjects(**others, which)), at);
      if (!one) return one;
    }
    for (auto& [evaluated, values] : *one) out[evaluated].add(std::move(values));
    ++i;
  }
  return out;
}

Result<ByEvaluated> SchemaTerms::conditional_by_evaluated(const Keywords& has, Keyword which) {
  const Place at = has.at(Keyword::condition);
  auto out = by_evaluated(at, which);
  if (!out) return out;
  if (!has[Keyword::then] && !has[Keyword::otherwise]) {
    (*out)[{}].add(subjects(ValueSet::everything(), which));
    return out;
  }
  const auto with = [&](ByEvaluated branch, Keyword then) -> Result<ByEvaluated> {
    if (!has[then]) return branch;
    const auto more = by_evaluated(has.at(then), which);
    if (!more) return more;
    return both_evaluated(branch, *more, has.at(then));
  };
  out = with(*std::move(out), Keyword::then);
  if (!out) return out;
  const auto fails = condition(at, true);
  if (!fails) return pass(fails);
  const auto values = this->values(*fails);
  if (!values) return pass(values);
  auto other = with(single({}, subjects(**values, which)), Keyword::otherwise);
  if (!other) return other;
  for (auto& [evaluated, set] : *other) (*out)[evaluated].add(std::move(set));
  return out;
}

// The values whose properties or items are evaluated or satisfy `rest`.
Result<ValueSet> SchemaTerms::limited_to(const Evaluated& evaluated, const Conjunction& rest,
                                         const Place& at) {
  if (evaluated.all) return ValueSet::everything();
  if (!spend_bytes(*fuel_, 200 * (evaluated.size() + evaluated.items))) return out_of_fuel(at);
  ValueSet out = ValueSet::everything();
  ArrayPart array{.prefix = std::vector<Conjunction>(evaluated.items), .rest = rest, .contains = {}};
  if (!evaluated.contained.empty()) {
    if (evaluated.contained.size() > 1 || !is_nothing(rest))
      return unsupported(at,
                         "Beside \"contains\", \"unevaluatedItems\" has to be false, and only one "
                         "\"contains\" is served.");
    array.rest = *evaluated.contained.begin();
  }
  out.arrays = only(std::move(array)).arrays;
  ObjectPart object;
  for (const auto name : evaluated.names) object.properties.push_back({name, {}, false});
  KeyRegion others{{}, rest};
  if (!evaluated.patterns.empty()) {
    auto keys = plain_strings(bound());
    Result<Dfa> matched = empty_language();
    for (const auto pattern : evaluated.patterns) {
      const auto more = texts_matching(pattern, limits_.depth, bound());
      if (matched) matched = more ? unite(*matched, *more, bound()) : more;
    }
    if (keys && matched) keys = subtract(*keys, *matched, bound());
    auto unmatched = shared(std::move(keys), at);
    if (!unmatched) return pass(unmatched);
    auto in = shared(std::move(matched), at);
    if (!in) return pass(in);
    object.others.push_back({*std::move(in), {}});
    others.keys = *std::move(unmatched);
  }
  if (!is_nothing(rest) && (!others.keys || !is_empty(*others.keys)))
    object.others.push_back(std::move(others));
  out.objects = only(std::move(object)).objects;
  return out;
}

Result<ValueSet> SchemaTerms::without_unevaluated(ValueSet set, const Place& schema, const Keywords& has,
                                                  Keyword which) {
  const Place at = has.at(which);
  if (at.value.is_object() && at.value.size() == 0) return set;
  const auto rest = condition(at);
  if (!rest) return pass(rest);
  if (rest->empty() || subjects(set, which).has_no_part()) return set;
  const auto known = by_evaluated(schema, has, which);
  if (!known) return pass(known);
  if (which == Keyword::unevaluated_properties)
    set.objects.clear();
  else
    set.arrays.clear();
  for (const auto& [evaluated, values] : *known) {
    const auto limit = limited_to(evaluated, *rest, at);
    if (!limit) return limit;
    auto both = intersection(values, *limit, at);
    if (!both) return both;
    set.add(*std::move(both));
    if (set.is_overfull) return located(Result<ValueSet>(too_many_parts()), at);
  }
  return set;
}

}  // namespace flyball::grammar
