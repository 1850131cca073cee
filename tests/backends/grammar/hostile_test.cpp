// Schemas that were made to cost much: each ends soon, with a grammar within the limits or a typed error.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <ostream>
#include <string>

#include "backends/grammar/json_schema.hpp"
#include "config/json_reader.hpp"

namespace flyball::grammar {
namespace {

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
      {"NestedToTheReadersDepth", nested(R"({"items":)", "{}", "}", 62)},
  };
}

class HostileSchema : public testing::TestWithParam<Hostile> {};

TEST_P(HostileSchema, EndsSoonWithinTheLimits) {
  const auto packed = read_packed(GetParam().schema);
  ASSERT_TRUE(packed) << describe(packed.error());
  const Limits limits;
  Fuel fuel(limits.steps);
  const auto start = std::chrono::steady_clock::now();
  const auto grammar = from_json_schema(packed->view(), {}, limits, fuel);
  const auto took = std::chrono::steady_clock::now() - start;
  // Far above what it takes on an idle machine; without the bounds most of these would not end at all.
  EXPECT_LT(took, std::chrono::seconds(5));
  RecordProperty("milliseconds",
                 static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  if (grammar) {
    EXPECT_LE(grammar->memory(), limits.memory);
  } else {
    const ErrorCode code = grammar.error().code;
    EXPECT_TRUE(code == ErrorCode::unsupported_value || code == ErrorCode::unsupported_feature ||
                code == ErrorCode::invalid_value)
        << describe(grammar.error());
    EXPECT_FALSE(grammar.error().message.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(, HostileSchema, testing::ValuesIn(hostile()),
                         [](const auto& each) { return each.param.name; });

TEST(HostileSchemas, AreOfMoreThanFiftySixKinds) {
  EXPECT_GE(hostile().size(), 56u);
}

}  // namespace
}  // namespace flyball::grammar
