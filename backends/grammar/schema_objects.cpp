#include "backends/grammar/schema_terms.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "backends/grammar/json_language.hpp"
#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/schema_keywords.hpp"

namespace flyball::grammar {

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
      auto keys = texts_matching(pattern, limits_.depth, bound());
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

}  // namespace flyball::grammar
