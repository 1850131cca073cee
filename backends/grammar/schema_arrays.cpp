#include "backends/grammar/schema_terms.hpp"

#include <algorithm>
#include <utility>

#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/schema_keywords.hpp"

namespace flyball::grammar {

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
    part.unique = at.value.as_bool();
  }
  const auto contained = counts(has, Keyword::min_contains, Keyword::max_contains);
  if (!contained) return pass(contained);
  if (has[Keyword::contains]) {
    auto some = condition(has.at(Keyword::contains));
    if (!some) return pass(some);
    Contained count{.condition = *std::move(some), .denial = {}, .most = contained->most};
    if (has[Keyword::min_contains]) count.least = contained->least;
    if (count.least > count.most) return ValueSet();
    if (count.condition.empty()) {
      part.most = std::min(part.most, count.most);
    } else if (count.most != kUnbounded) {
      auto denial = condition(has.at(Keyword::contains), true);
      if (!denial) return pass(denial);
      count.denial = *std::move(denial);
    }
    part.least = std::max(part.least, count.least);
    const bool is_counted = count.least > 0 || count.most != kUnbounded;
    if (is_counted && !count.condition.empty()) part.contains.push_back(std::move(count));
  }
  // intersect shortens arrays before the first item that has no value.
  auto same = intersect(part, ArrayPart(), work());
  if (!same) return located(Result<ValueSet>(pass(same)), has.at(Keyword::prefix_items));
  if (same->least > same->most) return ValueSet();
  return only(*std::move(same));
}

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
      if (!other->empty()) part.contains.push_back({.condition = *std::move(other), .denial = {}});
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
  if (has[Keyword::unique_items] && !has[Keyword::unique_items].is(JsonKind::no))
    return undeniable(has.at(Keyword::unique_items), Keyword::unique_items);
  return set;
}

}  // namespace flyball::grammar
