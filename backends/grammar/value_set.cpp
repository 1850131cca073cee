#include "backends/grammar/value_set.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "backends/grammar/automata.hpp"
#include "backends/grammar/number_language.hpp"

namespace flyball::grammar {
namespace {

std::unexpected<Error> out_of_fuel() {
  return fail(ErrorCode::unsupported_value, "The schema takes more work than one constraint may cost.");
}

// The intersection of two languages, of which null has every word.
Result<Language> intersect(const Language& a, const Language& b, Work work) {
  if (!a || a == b) return b;
  if (!b) return a;
  auto dfa = intersect(*a, *b, {work.fuel});
  if (!dfa) return pass(dfa);
  return std::make_shared<const Dfa>(*std::move(dfa));
}

// Nothing where no number is left.
Result<std::optional<NumberPart>> intersect(const NumberPart& a, const NumberPart& b, Work work,
                                            bool& lossy) {
  NumberPart out{.language = {},
                 .integer = a.integer || b.integer,
                 .shortest = a.shortest || b.shortest,
                 .exact = a.exact && b.exact};
  auto language = intersect(a.language, b.language, work);
  if (!language) return pass(language);
  out.language = *std::move(language);
  if (out.language && out.integer && !(a.integer && b.integer)) {
    auto whole = integers({work.fuel});
    if (!whole) return pass(whole);
    auto both = intersect(*out.language, *whole, {work.fuel});
    if (!both) return pass(both);
    out.language = std::make_shared<const Dfa>(*std::move(both));
  }
  if (out.language && is_empty(*out.language)) {
    lossy |= !out.exact;
    return std::nullopt;
  }
  return out;
}

Result<std::optional<StringPart>> intersect(const StringPart& a, const StringPart& b, Work work,
                                            bool& lossy) {
  StringPart out{.language = {},
                 .least = std::max(a.least, b.least),
                 .most = std::min(a.most, b.most),
                 .exact = a.exact && b.exact};
  if (out.least > out.most) return std::nullopt;
  auto language = intersect(a.language, b.language, work);
  if (!language) return pass(language);
  out.language = *std::move(language);
  if (out.language && is_empty(*out.language)) {
    lossy |= !out.exact;
    return std::nullopt;
  }
  return out;
}

bool meets(const Property& property, const Language& demanded) {
  return !is_nothing(property.value) && demanded->accepts(spell(property.name, Spelling::json_string));
}

// The demands of both parts without those that a required property meets.
std::vector<Language> demanded_by(const ObjectPart& a, const ObjectPart& b, const ObjectPart& both) {
  std::vector<Language> out = a.demanded;
  for (const auto& keys : b.demanded)
    if (std::ranges::find(out, keys) == out.end()) out.push_back(keys);
  std::erase_if(out, [&](const Language& keys) {
    return std::ranges::any_of(both.properties, [&](const Property& property) {
      return property.required && meets(property, keys);
    });
  });
  return out;
}

// Whether a required property, the number of them, or a demanded key rules every object out.
bool is_impossible(const ObjectPart& object) {
  std::uint32_t required = 0;
  for (const auto& property : object.properties) {
    if (property.required && is_nothing(property.value)) return true;
    required += property.required;
  }
  for (const auto& keys : object.demanded)
    if (object.others.empty() && std::ranges::none_of(object.properties, [&](const Property& property) {
          return meets(property, keys);
        }))
      return true;
  return object.least > object.most || required > object.most;
}

}  // namespace

Conjunction both(const Conjunction& a, const Conjunction& b) {
  if (is_nothing(a) || is_nothing(b)) return {kNothing};
  Conjunction out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

std::unexpected<Error> too_many_parts() {
  return fail(ErrorCode::unsupported_value,
              "The schema's alternatives combine to more than " + std::to_string(kMostParts) + ".");
}

ValueSet ValueSet::everything() {
  ValueSet all;
  all.null = all.no = all.yes = true;
  all.numbers.emplace_back();
  all.strings.emplace_back();
  static const auto kEveryArray = std::make_shared<const ArrayPart>();
  static const auto kEveryObject = [] {
    ObjectPart part;
    part.others.emplace_back();
    return std::make_shared<const ObjectPart>(std::move(part));
  }();
  all.arrays.push_back(kEveryArray);
  all.objects.push_back(kEveryObject);
  return all;
}

void ValueSet::add(ValueSet other) {
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  null |= other.null;
  no |= other.no;
  yes |= other.yes;
  lossy |= other.lossy;
  is_overfull |= other.is_overfull || parts() + other.parts() > kMostParts;
  if (is_overfull) return;
  append(numbers, other.numbers);
  append(strings, other.strings);
  append(arrays, other.arrays);
  append(objects, other.objects);
}

const Conjunction* value_of_other(const ObjectPart& object, std::string_view name) {
  const std::string spelled = spell(name, Spelling::json_string);
  for (const auto& region : object.others)
    if (!region.keys || region.keys->accepts(spelled)) return &region.value;
  return nullptr;
}

Result<ArrayPart> intersect(const ArrayPart& a, const ArrayPart& b, Work work) {
  const std::size_t n = std::max(a.prefix.size(), b.prefix.size());
  if (!spend_bytes(*work.fuel, 200 + 64 * (n + a.contains.size() + b.contains.size()))) return out_of_fuel();
  if (!work.fuel->spend(2 * a.contains.size() * b.contains.size())) return out_of_fuel();
  ArrayPart out;
  out.least = std::max(a.least, b.least);
  out.most = std::min(a.most, b.most);
  out.rest = both(a.rest, b.rest);
  out.prefix.reserve(n);
  for (std::size_t i = 0; i < n; ++i)
    out.prefix.push_back(
        both(i < a.prefix.size() ? a.prefix[i] : a.rest, i < b.prefix.size() ? b.prefix[i] : b.rest));
  for (std::uint32_t i = 0; i < out.prefix.size(); ++i)
    if (is_nothing(out.prefix[i])) out.most = std::min(out.most, i);
  if (is_nothing(out.rest)) out.most = std::min(out.most, static_cast<std::uint32_t>(out.prefix.size()));
  out.unique = a.unique || b.unique;
  out.contains = a.contains;
  for (const auto& count : b.contains)
    if (std::ranges::find(out.contains, count) == out.contains.end()) out.contains.push_back(count);
  return out;
}

namespace {

// Fuel for the properties of both, and for looking those of each up among the other keys of the other.
bool spend_properties(Fuel& fuel, const ObjectPart& a, const ObjectPart& b) {
  if (!spend_bytes(fuel, 300 + 200 * (a.properties.size() + b.properties.size()))) return false;
  const auto look_up = [&](const ObjectPart& of, const ObjectPart& in) {
    const auto regions = static_cast<std::size_t>(
        std::ranges::count_if(in.others, [](const KeyRegion& region) { return region.keys != nullptr; }));
    std::uint64_t bytes = 0;
    for (const auto& property : of.properties)
      bytes += property.name.size() / 8 + regions * property.name.size();
    return fuel.spend(1 + bytes);
  };
  return look_up(a, b) && look_up(b, a);
}

}  // namespace

Result<ObjectPart> intersect(const ObjectPart& a, const ObjectPart& b, Work work) {
  if (!spend_properties(*work.fuel, a, b)) return out_of_fuel();
  static const Conjunction nothing{kNothing};
  ObjectPart out;
  out.least = std::max(a.least, b.least);
  out.most = std::min(a.most, b.most);
  out.exact = a.exact && b.exact;
  out.properties.reserve(std::max(a.properties.size(), b.properties.size()));
  std::unordered_map<std::string_view, const Property*> of_b;
  for (const auto& property : b.properties) of_b.emplace(property.name, &property);
  const auto other = [](const ObjectPart& object, std::string_view name) -> const Conjunction& {
    const Conjunction* value = value_of_other(object, name);
    return value ? *value : nothing;
  };
  for (const auto& property : a.properties) {
    const auto at = of_b.find(property.name);
    if (at == of_b.end()) {
      out.properties.push_back(
          {property.name, both(property.value, other(b, property.name)), property.required});
    } else {
      out.properties.push_back({property.name, both(property.value, at->second->value),
                                property.required || at->second->required});
      of_b.erase(at);
    }
  }
  for (const auto& property : b.properties)
    if (of_b.contains(property.name))
      out.properties.push_back(
          {property.name, both(property.value, other(a, property.name)), property.required});
  for (const auto& left : a.others)
    for (const auto& right : b.others) {
      if (!work.fuel->spend(20)) return out_of_fuel();
      auto keys = intersect(left.keys, right.keys, work);
      if (!keys) return pass(keys);
      if (*keys && is_empty(**keys)) continue;
      if (auto value = both(left.value, right.value); !is_nothing(value))
        out.others.push_back({*std::move(keys), std::move(value)});
    }
  if (!a.demanded.empty() || !b.demanded.empty()) {
    if (!work.fuel->spend(64 * (a.demanded.size() + b.demanded.size()) * (1 + out.properties.size())))
      return out_of_fuel();
    out.demanded = demanded_by(a, b, out);
  }
  return out;
}

Result<ValueSet> intersect(const ValueSet& a, const ValueSet& b, Work work) {
  if (a.is_overfull || b.is_overfull) return too_many_parts();
  ValueSet out;
  out.null = a.null && b.null;
  out.no = a.no && b.no;
  out.yes = a.yes && b.yes;
  out.lossy = a.lossy || b.lossy;
  const auto pairs = [](const auto& left, const auto& right) {
    return std::uint64_t{left.size()} * right.size();
  };
  if (!work.fuel->spend(20 + 10 * (pairs(a.numbers, b.numbers) + pairs(a.strings, b.strings) +
                                   pairs(a.arrays, b.arrays) + pairs(a.objects, b.objects))))
    return out_of_fuel();
  for (const auto& left : a.numbers)
    for (const auto& right : b.numbers) {
      auto part = intersect(left, right, work, out.lossy);
      if (!part) return pass(part);
      if (*part) out.numbers.push_back(**std::move(part));
    }
  for (const auto& left : a.strings)
    for (const auto& right : b.strings) {
      auto part = intersect(left, right, work, out.lossy);
      if (!part) return pass(part);
      if (*part) out.strings.push_back(**std::move(part));
    }
  for (const auto& left : a.arrays)
    for (const auto& right : b.arrays) {
      auto part = intersect(*left, *right, work);
      if (!part) return pass(part);
      if (out.parts() >= kMostParts) return too_many_parts();
      if (part->least <= part->most)
        out.arrays.push_back(std::make_shared<const ArrayPart>(*std::move(part)));
    }
  for (const auto& left : a.objects)
    for (const auto& right : b.objects) {
      auto part = intersect(*left, *right, work);
      if (!part) return pass(part);
      if (out.parts() >= kMostParts) return too_many_parts();
      if (!is_impossible(*part))
        out.objects.push_back(std::make_shared<const ObjectPart>(*std::move(part)));
      else
        out.lossy |= !part->exact;
    }
  if (out.parts() > kMostParts) return too_many_parts();
  return out;
}

}  // namespace flyball::grammar
