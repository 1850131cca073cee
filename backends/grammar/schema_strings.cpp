#include "backends/grammar/schema_terms.hpp"

#include <utility>

#include "backends/grammar/json_language.hpp"
#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/schema_keywords.hpp"

namespace flyball::grammar {

namespace {

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

}  // namespace flyball::grammar
