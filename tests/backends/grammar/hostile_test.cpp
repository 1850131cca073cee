// Schemas that were made to cost much: each ends soon, with a grammar within the limits or a typed error.
#include <gtest/gtest.h>

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include "backends/grammar/json_schema.hpp"
#include "config/json_reader.hpp"

namespace {

// Bytes that operator new has given out, and the most of them at a time.
std::atomic<std::size_t> g_live{0}, g_peak{0};

void count_allocation(void* p) {
  const std::size_t live = g_live += malloc_usable_size(p);
  if (live > g_peak) g_peak = live;
}

// Not inlined: beside an operator new that is not, GCC takes free() for a mismatch.
[[gnu::noinline]] void give_back(void* p) noexcept {
  if (p != nullptr) g_live -= malloc_usable_size(p);
  std::free(p);
}

}  // namespace

void* operator new(std::size_t size) {
  void* const p = std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  count_allocation(p);
  return p;
}
void operator delete(void* p) noexcept {
  give_back(p);
}
void operator delete(void* p, std::size_t) noexcept {
  operator delete(p);
}

namespace flyball::grammar {
namespace {

// Fixed here: the outcomes do not follow the daemon's defaults.
constexpr Limits kLimits{.steps = 10'000'000};
constexpr std::size_t kMostMemory = 64 << 20;

std::string repeated(std::string_view text, std::size_t times) {
  std::string out;
  out.reserve(text.size() * times);
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

// each(0),each(1),...
std::string listed(std::size_t n, const std::function<std::string(std::size_t)>& each) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += (i ? "," : "") + each(i);
  return out;
}
std::string number(std::size_t i) {
  return std::to_string(i);
}

// $defs d0..dn, each made of the next, and a reference to d0.
std::string chain(std::size_t n, const std::function<std::string(const std::string&)>& of_next,
                  const std::string& last = "{}") {
  return R"({"$ref":"#/$defs/d0","$defs":{)" +
         listed(n + 1,
                [&](std::size_t i) {
                  return "\"d" + number(i) +
                         "\":" + (i < n ? of_next(R"({"$ref":"#/$defs/d)" + number(i + 1) + "\"}") : last);
                }) +
         "}}";
}
std::string nested(std::string_view open, std::string_view inside, std::string_view close,
                   std::size_t depth) {
  return repeated(open, depth) + std::string(inside) + repeated(close, depth);
}
std::string property(std::size_t i, std::string_view value) {
  return "\"p" + number(i) + "\":" + std::string(value);
}
std::string any_of_constants(std::size_t n, std::size_t from = 0) {
  return R"({"anyOf":[)" + listed(n, [&](std::size_t i) { return R"({"const":)" + number(from + i) + "}"; }) +
         "]}";
}
std::string any_of_objects(std::size_t n, const std::string& key) {
  return R"({"anyOf":[)" +
         listed(n,
                [&](std::size_t i) {
                  return R"({"type":"object","required":[")" + key + number(i) + R"("]})";
                }) +
         "]}";
}

struct Hostile {
  std::string name, schema;
};
void PrintTo(const Hostile& hostile, std::ostream* out) {
  *out << hostile.name;
}

std::vector<Hostile> hostile() {
  const auto both = [](const std::string& next) { return R"({"allOf":[)" + next + "," + next + "]}"; };
  const auto either = [](const std::string& next) { return R"({"anyOf":[)" + next + "," + next + "]}"; };
  const auto one = [](const std::string& next) { return R"({"oneOf":[)" + next + "," + next + "]}"; };
  const auto negated = [](const std::string& next) { return R"({"not":)" + next + "}"; };
  const auto twice = [](const std::string& next) {
    return R"({"type":"object","properties":{"a":)" + next + R"(,"b":)" + next + R"(},"required":["a","b"]})";
  };
  const auto same = [](const std::string& next) { return next; };
  const auto object = [](const std::string& next) { return R"({"properties":{"a":)" + next + "}}"; };
  const auto items = [](const std::string& next) { return R"({"type":"array","items":)" + next + "}"; };
  const auto conditional = [](const std::string& next) {
    return R"({"if":)" + next + R"(,"then":)" + next + R"(,"else":)" + next + "}";
  };
  const std::string integer = R"({"type":"integer"})";
  return {
      {"ReferencesTenThousandDeep", chain(10'000, same)},
      {"ReferencesSixtyDeep", chain(60, same)},
      {"ObjectsTenThousandDeep", chain(10'000, object)},
      {"ArraysTenThousandDeep", chain(10'000, items)},
      {"TwoPropertiesEachDoubled", chain(60, twice)},
      {"TwoPropertiesEachDoubledLong", chain(5'000, twice)},
      {"AllOfDoubled", chain(60, both, integer)},
      {"AnyOfDoubled", chain(60, either, integer)},
      {"OneOfDoubled", chain(60, one, integer)},
      {"OneOfDoubledOverObjects", chain(30, one, R"({"type":"object","required":["a"]})")},
      {"NotSixtyTimes", chain(60, negated, integer)},
      {"NotThousandTimes", chain(1'000, negated, integer)},
      {"IfSixtyTimes", chain(60, conditional, integer)},
      {"IfOverObjects", chain(12, conditional, R"({"type":"object","required":["a"]})")},
      {"ReferenceToItself", R"({"$ref":"#"})"},
      {"ReferencesInACircle",
       R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})"},
      {"CircleThroughAnyOf", R"({"anyOf":[{"$ref":"#"},{"$ref":"#"}]})"},
      {"CircleThroughNot", R"({"not":{"$ref":"#"}})"},
      {"CircleThroughOneOf", R"({"oneOf":[{"type":"null"},{"allOf":[{"$ref":"#"}]}]})"},
      {"EndlessObject", R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"},
      {"EndlessArrays", R"({"type":"array","minItems":3,"items":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}})"},
      {"ThirtyThousandAlternatives", any_of_constants(30'000)},
      {"FifteenThousandObjects", any_of_objects(15'000, "k")},
      {"FortyThousandEnumNumbers", R"({"enum":[)" + listed(40'000, number) + "]}"},
      {"NinetyThousandEnumStrings",
       R"({"enum":[)" + listed(90'000, [](std::size_t i) { return "\"v" + number(i) + "\""; }) + "]}"},
      {"EnumOfLongStrings",
       R"({"enum":[)" +
           listed(100, [](std::size_t i) { return "\"" + repeated("x", 9'000) + number(i) + "\""; }) + "]}"},
      {"UnknownKeysReadAgainAndAgain",
       R"({"$defs":{"a":{)" + listed(30'000, [](std::size_t i) { return "\"q" + number(i) + "\":1"; }) +
           R"(}},"allOf":[)" + listed(3'000, [](std::size_t) { return R"({"$ref":"#/$defs/a"})"; }) +
           R"(],"unevaluatedProperties":false})"},
      {"EnumOfDeepArrays", R"({"enum":[)" + nested("[", "1", "]", 60) + "]}"},
      {"EnumOfManyArrays",
       R"({"enum":[)" + listed(20'000, [](std::size_t i) { return "[" + number(i) + "]"; }) + "]}"},
      {"DeniedEnumOfArrays",
       R"({"not":{"enum":[)" + listed(500, [](std::size_t i) { return "[" + number(i) + ",1,2]"; }) + "]}}"},
      {"DeniedEnumOfNumbers", R"({"type":"integer","not":{"enum":[)" + listed(3'000, number) + "]}}"},
      {"OneOfThousandOverlapping",
       R"({"oneOf":[)" + listed(1'000, [](std::size_t i) { return R"({"minimum":)" + number(i) + "}"; }) +
           "]}"},
      {"OneOfThousandConstants",
       R"({"oneOf":[)" + listed(1'000, [](std::size_t i) { return R"({"const":)" + number(i) + "}"; }) +
           "]}"},
      {"OneOfObjectsRequiringOthers",
       R"({"oneOf":[)" +
           listed(40,
                  [](std::size_t i) { return R"({"type":"object","required":["k)" + number(i) + "\"]}"; }) +
           "]}"},
      {"AllOfTwentyAnyOfs",
       R"({"allOf":[)" + listed(20, [](std::size_t i) { return any_of_objects(4, "k" + number(i)); }) + "]}"},
      {"AllOfAnyOfsOfNumbers",
       R"({"allOf":[)" + listed(30, [](std::size_t i) { return any_of_constants(50, i); }) + "]}"},
      {"AllOfThousandPatterns",
       R"({"type":"string","allOf":[)" +
           listed(1'000, [](std::size_t i) { return R"({"pattern":"k)" + number(i) + "\"}"; }) + "]}"},
      {"AllOfFortyPatterns", R"({"type":"string","allOf":[)" +
                                 listed(40,
                                        [](std::size_t i) {
                                          return R"({"pattern":"[a-f]{)" + number(i % 7 + 2) + "}x" +
                                                 number(i) + "\"}";
                                        }) +
                                 "]}"},
      {"ThirtyPatternProperties",
       R"({"patternProperties":{)" +
           listed(30,
                  [](std::size_t i) { return "\"k" + number(i) + R"(":{"minimum":)" + number(i) + "}"; }) +
           "}}"},
      {"PatternExponential", R"x({"pattern":"^(a|b)*a(a|b){24}$"})x"},
      {"PatternCatastrophic", R"({"pattern":"^(a+)+(b+)+(a|a)*$"})"},
      {"PatternCountsNested", R"({"pattern":"^((a{1,1000}){1,1000}){1,1000}$"})"},
      {"PatternCountsOfClass", R"({"pattern":"^[^a]{100000}$"})"},
      {"PatternDeep", R"({"pattern":")" + nested("(", "a", ")", 10'000) + "\"}"},
      {"PatternOfManyAlternatives", R"x({"pattern":"^(x)x" + repeated("|abc", 20'000) + R"x()$"})x"},
      {"PatternWithLength", R"({"pattern":"^[a-z]+(x[^y]{3})+","maxLength":1000000})"},
      {"PatternWithLengthDoubled", R"({"pattern":"(a|b).{12}c","minLength":3000,"maxLength":6000})"},
      {"LengthsOfTerabytes", R"({"type":"string","minLength":1000000,"maxLength":1e18})"},
      {"LengthsBeyondAllNumbers", R"({"type":"string","minLength":1e300})"},
      {"ItemsOfBillions",
       R"({"type":"array","minItems":999999,"maxItems":4294967295,"items":{"type":"null"}})"},
      {"ItemsNestedByCounts", nested(R"({"type":"array","minItems":1000,"items":)", "true", "}", 40)},
      {"MultipleOfMillion", R"({"type":"integer","multipleOf":1000000})"},
      {"MultipleOfManyPrimes",
       R"({"type":"integer","allOf":[{"multipleOf":997},{"multipleOf":991},{"multipleOf":983}]})"},
      {"NumbersOfManyDigits", R"({"type":"number","minimum":1e-320,"maximum":1.7e308})"},
      {"DigitsByTheThousand", R"({"type":"integer","maximum":)" + repeated("9", 300) + "}"},
      {"TenThousandProperties", R"({"type":"object","properties":{)" +
                                    listed(10'000, [](std::size_t i) { return property(i, "true"); }) + "}}"},
      {"PropertiesCounted",
       R"({"type":"object","minProperties":50,"additionalProperties":false,"properties":{)" +
           listed(400, [](std::size_t i) { return property(i, "true"); }) + "}}"},
      {"RequiredByTheThousand", R"({"type":"object","required":[)" +
                                    listed(20'000, [](std::size_t i) { return "\"r" + number(i) + "\""; }) +
                                    "]}"},
      {"DependentRequiredDoubling",
       R"({"dependentRequired":{)" +
           listed(20, [](std::size_t i) { return "\"a" + number(i) + R"(":["b)" + number(i) + "\"]"; }) +
           "}}"},
      {"PrefixOfThousands",
       R"({"prefixItems":[)" + listed(20'000, [](std::size_t) { return std::string("true"); }) + "]}"},
      {"PropertyNamesExponential", R"({"propertyNames":{"pattern":"(a|b)*a(a|b){20}"}})"},
      {"DeniedConstOfManyItems",
       R"({"not":{"const":[)" + listed(40'000, [](std::size_t) { return std::string("0"); }) + "]}}"},
      {"DeniedConstOfThousandItems",
       R"({"not":{"const":[)" + listed(1'000, [](std::size_t) { return std::string("0"); }) + "]}}"},
      {"DeniedPrefixOfManyItems",
       R"({"not":{"prefixItems":[)" +
           listed(40'000, [](std::size_t) { return std::string(R"({"type":"null"})"); }) + "]}}"},
      {"LargeObjectInManyAlternatives",
       R"({"$defs":{"o":{"properties":{)" + listed(1'000, [](std::size_t i) { return property(i, "{}"); }) +
           R"(}}},"anyOf":[)" +
           listed(2'000, [](std::size_t) { return std::string(R"({"$ref":"#/$defs/o"})"); }) + "]}"},
      {"LargeObjectsNarrowed",
       R"({"properties":{)" + listed(5'000, [](std::size_t i) { return property(i, "{}"); }) +
           R"(},"anyOf":[)" +
           listed(1'900, [](std::size_t i) { return R"({"minProperties":)" + number(i) + "}"; }) + "]}"},
      {"LongPrefixNarrowed",
       R"({"prefixItems":[)" + listed(20'000, [](std::size_t) { return std::string("true"); }) +
           R"(],"anyOf":[)" +
           listed(1'900, [](std::size_t i) { return R"({"minItems":)" + number(i) + "}"; }) + "]}"},
      {"LongKeyAboveManyItems", R"({"properties":{")" + repeated("k", 20'000) + R"(":{"enum":[)" +
                                    listed(20'000, [](std::size_t i) { return "[" + number(i) + "]"; }) +
                                    "]}}}"},
      {"LongKeyAboveManyNumbers", R"({"properties":{")" + repeated("k", 20'000) + R"(":{"enum":[)" +
                                      listed(20'000, [](std::size_t) { return std::string("0"); }) + "]}}}"},
      {"ReferencesIntoALongArray",
       R"({"$defs":[)" + listed(20'000, [](std::size_t) { return std::string("true"); }) + R"(],"allOf":[)" +
           listed(20'000, [](std::size_t i) { return R"({"$ref":"#/$defs/)" + number(19'999 - i) + "\"}"; }) +
           "]}"},
      {"DeniedOneOfThousands",
       R"({"not":{"oneOf":[)" +
           listed(2'000, [](std::size_t i) { return R"({"required":["k)" + number(i) + "\"]}"; }) + "]}}"},
      {"CountedObjectInManyAlternatives",
       R"({"type":"object","additionalProperties":false,"minProperties":69,"properties":{)" +
           listed(139, [](std::size_t i) { return property(i, "true"); }) + R"(},"anyOf":[)" +
           listed(300, [](std::size_t i) { return R"({"properties":{"p0":{"const":)" + number(i) + "}}}"; }) +
           "]}"},
      {"FiftyThousandDots", R"({"pattern":")" + repeated(".", 50'000) + "\"}"},
      {"ThreeThousandDots", R"({"pattern":")" + repeated(".", 3'000) + "\"}"},
      {"NestedSchemasOfOneLargeText",
       nested(R"({"items":)", R"({"const":")" + repeated("x", 900'000) + "\"}", "}", 60)},
      {"UnevaluatedBesideThirtyOverlappingAlternatives",
       R"({"type":"object","unevaluatedProperties":false,"anyOf":[)" +
           listed(30, [](std::size_t i) { return R"({"properties":{)" + property(i, "true") + "}}"; }) +
           "]}"},
      {"UnevaluatedBesideTwentyAnyOfs",
       R"({"unevaluatedProperties":false,"allOf":[)" +
           listed(20, [](std::size_t i) { return any_of_objects(2, "k" + number(i)); }) + "]}"},
      {"UnevaluatedOverAllOfDoubled",
       R"({"unevaluatedProperties":false,)" + chain(60, both, integer).substr(1)},
      {"UnevaluatedOverAllOfDoubledLess",
       R"({"unevaluatedProperties":false,)" + chain(28, both, R"({"properties":{"a":{}}})").substr(1)},
      {"UnevaluatedOverAnIfInACircle",
       R"({"$defs":{"a":{"if":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a","unevaluatedProperties":false})"},
      {"ContainsCountedAlongManyItems",
       R"({"type":"array","contains":{"const":1},"minContains":9,"maxItems":900})"},
      {"ContainsOfManyKinds",
       R"({"type":"array","allOf":[)" +
           listed(40, [](std::size_t i) { return R"({"contains":{"const":)" + number(i) + "}}"; }) + "]}"},
      {"ContainsCountedByTheMillion",
       R"({"type":"array","contains":{"const":1},"minContains":1000000,"maxContains":4000000000})"},
      {"ContainsBesideThreeThousandTerms",
       R"({"$defs":{"big":{"type":"array","allOf":[)" +
           listed(3'000, [](std::size_t) { return std::string(R"({"items":{"title":"0"}})"); }) +
           R"(]}},"properties":{"a":{"$ref":"#/$defs/big","contains":{"const":0},"maxItems":300},)" +
           R"("b":{"$ref":"#/$defs/big","contains":{"const":0},"maxItems":300}}})"},
      {"ManyArraysOfUniqueItems",
       R"({"properties":{)" +
           listed(100,
                  [](std::size_t i) {
                    return property(i,
                                    R"({"type":"array","uniqueItems":true,"items":{"enum":[1,2,3,4,5,6,7,)" +
                                        number(i + 8) + "]}}");
                  }) +
           "}}"},
      {"AFractionOfManySteps", R"({"multipleOf":0.9999})"},
      {"ManyFractions",
       R"({"properties":{)" +
           listed(2'000, [](std::size_t i) { return property(i, R"({"multipleOf":0.01})"); }) + "}}"},
      {"NestedToTheReadersDepth", nested(R"({"items":)", "{}", "}", 62)},
  };
}

// How each schema ends. Fuel makes it the same on every machine.
const std::map<std::string, std::string>& outcomes() {
  static const std::map<std::string, std::string> kOutcomes = {
      {"ReferencesTenThousandDeep", "unsupported_value"},
      {"AllOfDoubled", "unsupported_value"},
      {"AnyOfDoubled", "unsupported_value"},
      {"OneOfDoubled", "unsupported_value"},
      {"NotSixtyTimes", "unsupported_value"},
      {"NotThousandTimes", "unsupported_value"},
      {"IfSixtyTimes", "unsupported_value"},
      {"FifteenThousandObjects", "unsupported_value"},
      {"FortyThousandEnumNumbers", "unsupported_value"},
      {"NinetyThousandEnumStrings", "unsupported_value"},
      {"EnumOfManyArrays", "unsupported_value"},
      {"UnknownKeysReadAgainAndAgain", "out of fuel"},
      {"DeniedEnumOfArrays", "unsupported_value"},
      {"AllOfTwentyAnyOfs", "unsupported_value"},
      {"AllOfThousandPatterns", "unsupported_value"},
      {"PatternCountsNested", "unsupported_value"},
      {"PatternCountsOfClass", "unsupported_value"},
      {"PatternDeep", "unsupported_value"},
      {"PatternOfManyAlternatives", "unsupported_value"},
      {"PatternWithLength", "unsupported_value"},
      {"LengthsBeyondAllNumbers", "unsupported_value"},
      {"MultipleOfMillion", "unsupported_value"},
      {"MultipleOfManyPrimes", "unsupported_value"},
      {"PropertiesCounted", "unsupported_value"},
      {"DependentRequiredDoubling", "unsupported_value"},
      {"LargeObjectInManyAlternatives", "unsupported_value"},
      {"LargeObjectsNarrowed", "unsupported_value"},
      {"LongPrefixNarrowed", "unsupported_value"},
      {"LongKeyAboveManyItems", "unsupported_value"},
      {"NestedSchemasOfOneLargeText", "unsupported_value"},
      {"ReferencesSixtyDeep", "grammar"},
      {"ArraysTenThousandDeep", "grammar"},
      {"TwoPropertiesEachDoubled", "grammar"},
      {"IfOverObjects", "grammar"},
      {"EnumOfLongStrings", "grammar"},
      {"EnumOfDeepArrays", "grammar"},
      {"OneOfObjectsRequiringOthers", "grammar"},
      {"AllOfAnyOfsOfNumbers", "grammar"},
      {"PatternCatastrophic", "grammar"},
      {"LengthsOfTerabytes", "grammar"},
      {"ItemsOfBillions", "grammar"},
      {"ItemsNestedByCounts", "grammar"},
      {"NumbersOfManyDigits", "grammar"},
      {"DigitsByTheThousand", "grammar"},
      {"TenThousandProperties", "grammar"},
      {"RequiredByTheThousand", "grammar"},
      {"PrefixOfThousands", "grammar"},
      {"LongKeyAboveManyNumbers", "grammar"},
      {"NestedToTheReadersDepth", "grammar"},
      {"ObjectsTenThousandDeep", "out of fuel"},
      {"TwoPropertiesEachDoubledLong", "out of fuel"},
      {"ThirtyThousandAlternatives", "out of fuel"},
      {"DeniedEnumOfNumbers", "out of fuel"},
      {"OneOfThousandOverlapping", "out of fuel"},
      {"OneOfThousandConstants", "out of fuel"},
      {"AllOfFortyPatterns", "out of fuel"},
      {"ThirtyPatternProperties", "out of fuel"},
      {"PatternExponential", "out of fuel"},
      {"PatternWithLengthDoubled", "out of fuel"},
      {"PropertyNamesExponential", "out of fuel"},
      {"DeniedConstOfManyItems", "out of fuel"},
      {"DeniedConstOfThousandItems", "out of fuel"},
      {"DeniedPrefixOfManyItems", "out of fuel"},
      {"ReferencesIntoALongArray", "out of fuel"},
      {"DeniedOneOfThousands", "out of fuel"},
      {"CountedObjectInManyAlternatives", "out of fuel"},
      {"FiftyThousandDots", "out of fuel"},
      {"ThreeThousandDots", "out of fuel"},
      {"UnevaluatedBesideThirtyOverlappingAlternatives", "unsupported_value"},
      {"UnevaluatedBesideTwentyAnyOfs", "unsupported_value"},
      {"UnevaluatedOverAllOfDoubled", "unsupported_value"},
      {"UnevaluatedOverAllOfDoubledLess", "out of fuel"},
      {"UnevaluatedOverAnIfInACircle", "unsupported_value"},
      {"ContainsCountedAlongManyItems", "unsupported_value"},
      {"ContainsBesideThreeThousandTerms", "grammar"},
      {"ManyArraysOfUniqueItems", "out of fuel"},
      {"AFractionOfManySteps", "unsupported_value"},
      {"ManyFractions", "grammar"},
      {"ContainsOfManyKinds", "unsupported_value"},
      {"ContainsCountedByTheMillion", "unsupported_value"},
      {"OneOfDoubledOverObjects", "invalid_value"},
      {"ReferenceToItself", "invalid_value"},
      {"ReferencesInACircle", "invalid_value"},
      {"CircleThroughAnyOf", "invalid_value"},
      {"CircleThroughNot", "invalid_value"},
      {"CircleThroughOneOf", "invalid_value"},
      {"EndlessObject", "invalid_value"},
      {"EndlessArrays", "invalid_value"}};
  return kOutcomes;
}

class HostileSchema : public testing::TestWithParam<Hostile> {};

TEST_P(HostileSchema, EndsWithinTheLimits) {
  const auto packed = read_packed(GetParam().schema);
  ASSERT_TRUE(packed) << describe(packed.error());
  Fuel fuel(kLimits.steps);
  g_peak = g_live.load();
  const std::size_t before = g_live;
  const auto grammar = from_json_schema(packed->view(), {}, kLimits, fuel);
  const std::size_t peak = g_peak - before;
  RecordProperty("peak_kilobytes", static_cast<int>(peak >> 10));
  EXPECT_LE(peak, kMostMemory);
  if (grammar) {
    EXPECT_LE(grammar->memory(), kLimits.memory);
  } else {
    EXPECT_FALSE(grammar.error().message.empty());
  }
  const std::string outcome = grammar           ? "grammar"
                              : fuel.is_empty() ? "out of fuel"
                                                : std::string(to_string(grammar.error().code));
  EXPECT_EQ(outcome, outcomes().at(GetParam().name)) << (grammar ? "" : describe(grammar.error()));
}

INSTANTIATE_TEST_SUITE_P(, HostileSchema, testing::ValuesIn(hostile()),
                         [](const auto& each) { return each.param.name; });

TEST(HostileSchemas, AreOfMoreThanFiftySixKinds) {
  EXPECT_GE(hostile().size(), 56u);
}

}  // namespace
}  // namespace flyball::grammar
