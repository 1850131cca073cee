#include "backends/grammar/schema_terms.hpp"

#include <optional>
#include <utility>

#include "backends/grammar/json_language.hpp"
#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/schema_keywords.hpp"

namespace flyball::grammar {

SchemaTerms::SchemaTerms(JsonView root, const Limits& limits, Fuel& fuel)
    : limits_(limits), fuel_(&fuel), document_(root, fuel) {
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
  const auto has = Keywords::read(place, *fuel_);
  if (!has) return pass(has);
  return is_denied ? denied(place, *has) : affirmed(place, *has);
}

Result<Place> SchemaTerms::resolve(const Keywords& has, Keyword reference) {
  const Place at = has.at(reference);
  return reference == Keyword::dynamic_ref ? document_.resolve_dynamic(at) : document_.resolve(at);
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
