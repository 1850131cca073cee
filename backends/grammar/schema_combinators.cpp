#include "backends/grammar/schema_terms.hpp"

#include <utility>
#include <vector>

#include "backends/grammar/number_language.hpp"
#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/schema_keywords.hpp"

namespace flyball::grammar {

namespace {

constexpr unsigned kEmptinessDepth = 4;

}  // namespace

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
  for (const auto which : {Keyword::ref, Keyword::dynamic_ref}) {
    if (!has[which]) continue;
    const auto target = resolve(has, which);
    if (!target) return pass(target);
    if (auto ok = narrow_by(condition(*target), which); !ok) return pass(ok);
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
    if (has[which]) {
      set = without_unevaluated(*std::move(set), schema, has, which);
      if (!set) return set;
    }
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
  for (const auto which : {Keyword::ref, Keyword::dynamic_ref}) {
    if (!has[which]) continue;
    const auto target = resolve(has, which);
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

// Alternatives that overlap are told apart by denying the others; most are disjoint, and need no denial.
Result<std::vector<std::vector<Conjunction>>> SchemaTerms::overlapping_denials(const Keywords& has) {
  const Place at = has.at(Keyword::one_of);
  const auto each = conditions(at, false);
  if (!each) return pass(each);
  const auto denials = conditions(at, true);
  if (!denials) return pass(denials);
  const std::size_t n = each->size();
  std::vector<std::vector<Conjunction>> out(n);
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
      out[i].push_back((*denials)[j]);
      out[j].push_back((*denials)[i]);
    }
  return out;
}

Result<ValueSet> SchemaTerms::one_of(const Keywords& has) {
  const Place at = has.at(Keyword::one_of);
  const auto each = conditions(at, false);
  if (!each) return pass(each);
  const auto denials = overlapping_denials(has);
  if (!denials) return pass(denials);
  ValueSet out;
  for (std::size_t i = 0; i < each->size(); ++i) {
    auto set = set_of((*each)[i]);
    if (!set) return set;
    for (const auto& denial : (*denials)[i]) {
      const auto others = values(denial);
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

}  // namespace flyball::grammar
