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

constexpr std::size_t kMoreDigits = 4;  // of numbers that are no multiples because they have more digits

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
    const bool integer = which == Keyword::multiple_of && Decimal::of(has[which]).is_integer();
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
    const std::size_t fraction = Decimal::of(at.value).fraction.size();
    // Numbers with more digits behind the point have fewer before it.
    auto all = exact_decimals(fraction, bound());
    if (const std::size_t more = fraction + kMoreDigits; all && fraction > 0 && more < kExactDigits) {
      const auto longer = exact_decimals(more, bound());
      all = longer ? unite(*all, *longer, bound()) : longer;
    }
    if (!all) return located(Result<ValueSet>(pass(all)), at);
    auto others = shared(subtract(*all, *language, bound()), at);
    if (!others) return pass(others);
    set.add(only(NumberPart{.language = *std::move(others), .integer = fraction == 0, .exact = false}));
    if (fraction > 0) continue;
    auto broken = shared(broken_decimals(bound()), at);
    if (!broken) return pass(broken);
    set.add(only(NumberPart{.language = *std::move(broken), .exact = false}));
  }
  return set;
}

}  // namespace flyball::grammar
