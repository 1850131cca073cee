// The sets of values that the schemas of a document allow. A term is a schema or a literal of the
// document, or the denial of one; its set is worked out once. Denials are worked out from the parts of a
// schema, so that oneOf, not and if are exact where they are served at all. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/grammar/automata.hpp"
#include "backends/grammar/fuel.hpp"
#include "backends/grammar/schema_document.hpp"
#include "backends/grammar/schema_evaluated.hpp"
#include "backends/grammar/value_set.hpp"
#include "config/error.hpp"
#include "config/packed_json.hpp"

namespace flyball::grammar {

// Sets hold subsets where a set is not exact (some formats, numbers beyond all digits): a value that is in
// one satisfies its term.
class SchemaTerms {
 public:
  SchemaTerms(JsonView root, const Limits& limits, Fuel& fuel);

  // The condition that a schema is; none where every value satisfies it. invalid_value unless an object or
  // boolean.
  Result<Conjunction> condition(const Place& schema, bool denied = false);
  // The values that satisfy all terms. Errors have the pointer of the schema that is malformed, contradicts
  // itself by reference, or asks for what is not served.
  Result<const ValueSet*> values(const Conjunction& all);
  Place root() const { return document_.root(); }
  // The place of one of the schemas that have to hold; the root for none.
  Place place_of(const Conjunction& all) const;

 private:
  struct Entry {
    Place place;
    bool literal = false, denied = false;
    bool in_progress = false;
    std::unique_ptr<const ValueSet> set;
  };

  Result<Term> intern(const Place& place, bool literal, bool denied);
  Result<const ValueSet*> values(Term term);
  Result<Place> resolve(const Keywords& has, Keyword reference);
  Result<ValueSet> work_out(const Place& place, bool literal, bool denied);

  // Schemas that are objects.
  Result<ValueSet> affirmed(const Place& schema, const Keywords& has);
  Result<ValueSet> denied(const Place& schema, const Keywords& has);
  // The keywords of one type of values, without applicators in place.
  Result<ValueSet> own_values(const Place& schema, const Keywords& has);
  Result<ValueSet> numbers(const Keywords& has, bool only_integers);
  Result<ValueSet> strings(const Keywords& has);
  Result<ValueSet> arrays(const Keywords& has);
  Result<ValueSet> objects(const Keywords& has);
  Result<ValueSet> denied_numbers(const Keywords& has);
  Result<ValueSet> denied_strings(const Keywords& has);
  Result<ValueSet> denied_arrays(const Keywords& has);
  Result<ValueSet> denied_objects(const Keywords& has);
  // Keys that are neither in `properties` nor match in `patternProperties`.
  Result<Dfa> additional_keys(const Keywords& has);
  Result<ValueSet> one_of(const Keywords& has);
  // The denials of those alternatives of oneOf that overlap with each.
  Result<std::vector<std::vector<Conjunction>>> overlapping_denials(const Keywords& has);
  Result<ValueSet> conditional(const Keywords& has, bool denied);
  // `dependencies` holds lists of names and schemas; each function skips the members that are the other's.
  Result<ValueSet> dependent_required(const Keywords& has, Keyword which, bool denied);
  Result<ValueSet> dependent_schemas(const Keywords& has, Keyword which);

  // The values of `set`, of all other keywords of the schema, whose unevaluated parts satisfy `which`:
  // unevaluatedProperties or unevaluatedItems. The functions below it give sets of only objects or only
  // arrays.
  Result<ValueSet> without_unevaluated(ValueSet set, const Place& schema, const Keywords& has, Keyword which);
  Result<ByEvaluated> by_evaluated(const Place& schema, Keyword which);
  Result<ByEvaluated> by_evaluated(const Place& schema, const Keywords& has, Keyword which);
  Result<Evaluated> own_evaluated(const Keywords& has, Keyword which);
  Result<ByEvaluated> any_by_evaluated(const Keywords& has, Keyword which);
  Result<ByEvaluated> one_by_evaluated(const Keywords& has, Keyword which);
  Result<ByEvaluated> conditional_by_evaluated(const Keywords& has, Keyword which);
  Result<ByEvaluated> both_evaluated(const ByEvaluated& a, const ByEvaluated& b, const Place& at);
  Result<ValueSet> limited_to(const Evaluated& evaluated, const Conjunction& rest, const Place& at);

  // The values of `const`, or of the members of `enum`; and all others.
  Result<ValueSet> literals(const Place& at, Keyword which);
  Result<ValueSet> without_literals(const Place& at, Keyword which);

  Result<ValueSet> other_arrays(const Place& literal);
  Result<ValueSet> other_objects(const Place& literal);
  Result<ValueSet> other_numbers(const Place& literal);

  // The conditions of the schemas in an array.
  Result<std::vector<Conjunction>> conditions(const Place& array, bool denied);
  Result<ValueSet> set_of(const Conjunction& all);
  Result<ValueSet> intersection(const ValueSet& a, const ValueSet& b, const Place& at);
  // The keys that propertyNames allows; `exact` becomes false if some are left out.
  Result<Language> keys_of(const ValueSet& names, const Place& at, bool& exact);
  // Whether it is certain that no value satisfies all. `depth` bounds how far values within values are looked
  // at.
  Result<bool> has_no_value(const Conjunction& all, unsigned depth);
  Result<bool> has_no_value(const ValueSet& set, unsigned depth, const Place& at);

  Bound bound() const { return {fuel_}; }
  Work work() const { return {fuel_}; }

  const Limits& limits_;
  Fuel* fuel_;
  SchemaDocument document_;
  std::vector<Entry> entries_;
  struct TermKey {
    std::string_view bytes;  // of the value within the document
    std::size_t resource;
    bool literal, denied;
    bool operator==(const TermKey&) const = default;
  };
  struct TermKeyHash {
    std::size_t operator()(const TermKey& key) const noexcept {
      return std::hash<std::string_view>()(key.bytes) + 4 * key.resource + 2 * key.literal + key.denied;
    }
  };
  std::unordered_map<TermKey, Term, TermKeyHash> terms_;
  std::map<Conjunction, std::unique_ptr<const ValueSet>> sets_;
  unsigned depth_ = 0;
  bool met_itself_ = false;  // the last failure was a term that needs its own set
};

}  // namespace flyball::grammar
