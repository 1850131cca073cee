#include "backends/grammar/schema_terms.hpp"

#include <memory>
#include <utility>

#include "backends/grammar/number_language.hpp"
#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/schema_keywords.hpp"

namespace flyball::grammar {

namespace {

constexpr Keyword kNumberKeywords[] = {Keyword::minimum, Keyword::maximum, Keyword::exclusive_minimum,
                                       Keyword::exclusive_maximum, Keyword::multiple_of};

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

}  // namespace flyball::grammar
