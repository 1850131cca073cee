#include "backends/grammar/json_schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "recognizer.hpp"
#include "sampler.hpp"
#include "schema_cases.hpp"

namespace flyball::grammar {
namespace {

using Json = nlohmann::ordered_json;

Result<Grammar> compile(std::string_view schema, const JsonOptions& options = {}, const Limits& limits = {}) {
  const auto packed = read_packed(schema);
  if (!packed) return pass(packed);
  Fuel fuel(limits.steps);
  return from_json_schema(packed->view(), options, limits, fuel);
}

bool accepts(const Grammar& grammar, std::string_view text) {
  return Recognizer(grammar, text).accepts();
}

TEST(JsonSchema, AcceptsValidDocumentsAndNoOthers) {
  const Json all = schema_cases();
  ASSERT_GE(all.size(), 650u);
  for (const auto& each : all) {
    const std::string schema = each["schema"].dump();
    for (const auto whitespace : {JsonOptions::Whitespace::none, JsonOptions::Whitespace::flexible}) {
      const auto grammar = compile(schema, {.whitespace = whitespace});
      ASSERT_TRUE(grammar) << schema << describe(grammar.error());
      const bool flexible = whitespace == JsonOptions::Whitespace::flexible;
      for (const auto& document : each["valid"]) {
        EXPECT_TRUE(accepts(*grammar, document.dump())) << schema << "\n" << document.dump();
        EXPECT_TRUE(!flexible || accepts(*grammar, document.dump(2))) << schema << "\n" << document.dump(2);
      }
      for (const auto& document : each["invalid"]) {
        EXPECT_FALSE(accepts(*grammar, document.dump())) << schema << "\n" << document.dump();
        EXPECT_FALSE(flexible && accepts(*grammar, document.dump(2))) << schema << "\n" << document.dump(2);
      }
    }
  }
}

TEST(JsonSchema, WordsAreJson) {
  std::mt19937 random(5);
  for (const auto& each : schema_cases()) {
    const auto grammar = compile(each["schema"].dump());
    ASSERT_TRUE(grammar);
    Sampler sampler(*grammar);
    for (int i = 0; i < 5; ++i) {
      const std::string word = sampler.word(random, 64);
      EXPECT_TRUE(Json::accept(word)) << each["schema"].dump() << "\n" << word;
      EXPECT_TRUE(accepts(*grammar, word)) << each["schema"].dump() << "\n" << word;
    }
  }
}

TEST(JsonSchema, WhitespaceIsBounded) {
  const auto compact = compile("true", {.whitespace = JsonOptions::Whitespace::none});
  const auto flexible = compile("true");
  ASSERT_TRUE(compact && flexible);
  EXPECT_TRUE(accepts(*compact, R"({"a":[1,2]})"));
  EXPECT_FALSE(accepts(*compact, R"({"a": [1,2]})"));
  EXPECT_TRUE(accepts(*flexible, R"({"a": [1, 2], "b":{}})"));
  EXPECT_TRUE(accepts(*flexible, "{\n\t\"a\": 1\n}"));
  EXPECT_FALSE(accepts(*flexible, R"({"a":  1})"));
  EXPECT_FALSE(accepts(*flexible, R"({"a" :1})"));
  EXPECT_FALSE(accepts(*flexible, "{\"a\":\n1}"));
  EXPECT_FALSE(accepts(*flexible, " {}"));
  EXPECT_FALSE(accepts(*flexible, "[" + std::string(2, ' ') + "1]"));
  EXPECT_TRUE(accepts(*flexible, "[\n" + std::string(32, ' ') + "1]"));
  EXPECT_FALSE(accepts(*flexible, "[\n" + std::string(33, ' ') + "1]"));
}

TEST(JsonSchema, KeysComeInDeclaredOrderAndOthersBehindThem) {
  const auto grammar = compile(R"({"type":"object","properties":{"b":{},"a":{}},"required":["a"]})");
  ASSERT_TRUE(grammar);
  EXPECT_TRUE(accepts(*grammar, R"({"b":1,"a":2,"c":3})"));
  EXPECT_FALSE(accepts(*grammar, R"({"a":2,"b":1})"));
  EXPECT_FALSE(accepts(*grammar, R"({"c":3,"a":2})"));
}

TEST(JsonSchema, KeysComeInAnyOrderWhereTheSchemaSaysSo) {
  const auto grammar = compile(R"({"x-key-order":"any","type":"object","required":["a","b"],
    "properties":{"b":{},"a":{"type":"object","properties":{"p":{},"q":{}},"additionalProperties":false},"o":{}}})");
  ASSERT_TRUE(grammar);
  EXPECT_TRUE(accepts(*grammar, R"({"b":1,"a":{}})"));
  EXPECT_TRUE(accepts(*grammar, R"({"a":{"q":1,"p":2},"b":1})"));
  EXPECT_TRUE(accepts(*grammar, R"({"o":1,"c":3,"a":{"p":2,"q":1},"o2":0,"b":1,"d":4})"));
  EXPECT_FALSE(accepts(*grammar, R"({"a":{}})"));
  EXPECT_FALSE(accepts(*grammar, R"({"a":{},"a":{},"b":1})"));
  EXPECT_FALSE(accepts(*grammar, R"({"b":1,"o":2})"));
  EXPECT_FALSE(accepts(*grammar, R"({"b":1,"a":{"r":1}})"));
  EXPECT_FALSE(accepts(*grammar, R"({})"));
  const auto none = compile(R"({"x-key-order":"any","type":"object","additionalProperties":false})");
  ASSERT_TRUE(none);
  EXPECT_TRUE(accepts(*none, "{}"));
  EXPECT_FALSE(accepts(*none, R"({"a":1})"));
}

TEST(JsonSchema, KeywordsOfTheAuthorsOwnAreAnnotations) {
  const auto grammar =
      compile(R"({"type":"object","_format":"date","self":{"version":"1"},"links":[],"name":3,
    "properties":{"a":{"type":"string","nullable":true,"faker":"city","$default":1,"units":"m"}},
    "components":{"b":{"type":"integer"}},"patternProperties":{"^b":{"$ref":"#/components/b"}}})");
  ASSERT_TRUE(grammar);
  EXPECT_TRUE(accepts(*grammar, R"({"a":"x"})"));
  EXPECT_FALSE(accepts(*grammar, R"({"a":1})"));
  EXPECT_TRUE(accepts(*grammar, R"({"b":1})"));
  EXPECT_FALSE(accepts(*grammar, R"({"b":"x"})"));
}

TEST(JsonSchema, AnchorsOfAnnotationsAreNone) {
  const auto grammar = compile(
      R"({"foo":{"$anchor":"q","type":"string"},"$defs":{"z":{"$anchor":"q","type":"integer"}},"$ref":"#q"})");
  ASSERT_TRUE(grammar);
  EXPECT_TRUE(accepts(*grammar, "1"));
  EXPECT_FALSE(accepts(*grammar, R"("a")"));
}

TEST(JsonSchema, RequiredNamesMayBeRepeated) {
  const auto grammar =
      compile(R"({"type":"object","required":["a","b","a","c"],"additionalProperties":{"type":"integer"}})");
  ASSERT_TRUE(grammar);
  EXPECT_TRUE(accepts(*grammar, R"({"a":1,"b":2,"c":3})"));
  EXPECT_FALSE(accepts(*grammar, R"({"a":1,"b":2})"));
  EXPECT_FALSE(accepts(*grammar, R"({"a":1,"b":2,"a":3,"c":4})"));
}

TEST(JsonSchema, StringsMayBeEscapedInAnyWayUnlessTheirTextMatters) {
  const auto free = compile(R"({"type":"string","maxLength":2})");
  ASSERT_TRUE(free);
  EXPECT_TRUE(accepts(*free, R"("\u0041\/")"));
  EXPECT_TRUE(accepts(*free, R"("\ud83d\ude00x")"));
  EXPECT_FALSE(accepts(*free, R"("\u0041\u0041\u0041")"));
  EXPECT_FALSE(accepts(*free, R"("\ud83d")"));
  EXPECT_FALSE(accepts(*free, "\"\n\""));
  EXPECT_FALSE(accepts(*free, "\"\xff\""));
  // A key in another spelling would be taken for one that is not declared.
  const auto keys = compile(R"({"type":"object","properties":{"a":{"type":"integer"}}})");
  ASSERT_TRUE(keys);
  EXPECT_FALSE(accepts(*keys, R"({"\u0061":"x"})"));
}

TEST(JsonSchema, NumbersStayWithinDoubles) {
  const auto number = compile(R"({"type":"number"})");
  ASSERT_TRUE(number);
  for (const char* text : {"0", "-0", "1e5", "1E+300", "1.5e-300", "9.9e307", "123456789012345678901"})
    EXPECT_TRUE(accepts(*number, text)) << text;
  for (const char* text : {"01", "1e309", "+1", ".5", "1.", "1e", "NaN", "12e300"})
    EXPECT_FALSE(accepts(*number, text)) << text;
  // Read as a double, the decimal is 0.3 itself.
  const auto above = compile(R"({"exclusiveMinimum":0.3,"type":"number"})");
  ASSERT_TRUE(above);
  EXPECT_FALSE(accepts(*above, "0.300000000000000000001"));
  EXPECT_TRUE(accepts(*above, "0.30000000000000004"));
}

TEST(JsonSchema, MultiplesOfFractionsAreExactInDecimals) {
  // Thousandths of a number, so that remainders are those of integers.
  for (const int step : {1, 5, 10, 25, 70, 100, 250, 300, 500, 1'250, 2'500}) {
    const std::string schema = R"({"type":"number","multipleOf":)" + Json(step / 1000.0).dump() + "}";
    const auto grammar = compile(schema);
    const auto denied = compile(R"({"type":"number","not":)" + schema + "}");
    ASSERT_TRUE(grammar && denied) << schema;
    for (int i = -3'000; i <= 3'000; ++i) {
      const std::string text = Json(i / 1000.0).dump();
      EXPECT_EQ(accepts(*grammar, text), i % step == 0) << schema << text;
      EXPECT_FALSE(accepts(*denied, text) && i % step == 0) << schema << text;
      if (step % 10 != 0) {
        EXPECT_EQ(accepts(*denied, text), i % step != 0) << schema << text;
      }
    }
  }
  const auto cents = compile(R"({"type":"number","multipleOf":0.01})");
  ASSERT_TRUE(cents);
  for (const char* text : {"1.50", "1.5000", "9999999999999.99", "-0.07", "0", "0.00", "12"})
    EXPECT_TRUE(accepts(*cents, text)) << text;
  for (const char* text : {"0.001", "-0.00", "-0", "01.5", "1.", "10000000000000.01", "1e2", "0.070000001"})
    EXPECT_FALSE(accepts(*cents, text)) << text;
}

TEST(JsonSchema, AnyJsonObjectIsAnObject) {
  const Limits limits;
  Fuel fuel(limits.steps);
  const auto grammar = any_json_object({}, limits, fuel);
  ASSERT_TRUE(grammar);
  EXPECT_TRUE(accepts(*grammar, R"({"a":[{"b":null}],"c":-1.5e3})"));
  EXPECT_TRUE(accepts(*grammar, "{}"));
  EXPECT_FALSE(accepts(*grammar, "[]"));
  EXPECT_FALSE(accepts(*grammar, R"({"a":)"));
}

struct Refusal {
  std::string_view schema;
  ErrorCode code;
  std::string_view where;
};

TEST(JsonSchema, RefusalsHaveThePointerOfTheirPlace) {
  constexpr auto unsupported = ErrorCode::unsupported_feature, invalid = ErrorCode::invalid_value;
  const Refusal cases[] = {
      {R"({"properties":{"a":{"additonalProperties":false}}})", unsupported,
       "/properties/a/additonalProperties"},
      {R"({"items":{"requierd":["a"]}})", unsupported, "/items/requierd"},
      {R"({"minlength":1})", unsupported, "/minlength"},
      {R"({"max_items":1})", unsupported, "/max_items"},
      {R"({"type:":"string"})", unsupported, "/type:"},
      {R"({"tpye":"string"})", unsupported, "/tpye"},
      {R"({"ennum":[1]})", unsupported, "/ennum"},
      {R"({"type,":"string"})", unsupported, "/type,"},
      {R"({"$Ref":"#"})", unsupported, "/$Ref"},
      {R"({"$reff":"#"})", unsupported, "/$reff"},
      {R"({"items":{"extends":{}}})", unsupported, "/items/extends"},
      {R"({"formatMinimum":"2020-01-01"})", unsupported, "/formatMinimum"},
      {R"({"minimumCanEqual":false})", unsupported, "/minimumCanEqual"},
      {R"({"foo":{"$anchor":"q"},"$ref":"#q"})", invalid, "/$ref"},
      {R"({"example":{"$anchor":"q"},"$ref":"#q"})", invalid, "/$ref"},
      {R"({"foo":{"a":{"$id":"b","$ref":"#"}},"$ref":"#/foo/a"})", unsupported, "/$ref"},
      {R"({"x-key-order":"sorted"})", invalid, "/x-key-order"},
      {R"({"items":{"$dynamicRef":"#x"}})", invalid, "/items/$dynamicRef"},
      {R"({"$dynamicAnchor":"x","items":{"$dynamicRef":"#x"},"$defs":{"a":{"$id":"a","$dynamicAnchor":"x"}}})",
       unsupported, "/items/$dynamicRef"},
      {R"({"$dynamicRef":""})", invalid, ""},
      {R"({"default":{"$dynamicAnchor":"x"},"$ref":"#/default"})", unsupported, "/$ref"},
      {R"({"properties":{"a/b~":{"divisibleBy":1}}})", unsupported, "/properties/a~1b~0/divisibleBy"},
      {R"x({"pattern":"((?=a)b)*"})x", unsupported, "/pattern"},
      {R"x({"pattern":"("})x", invalid, "/pattern"},
      {R"x({"patternProperties":{"(a)\\1":{}}})x", unsupported, "/patternProperties/(a)\\1"},
      {R"({"type":"array","multipleOf":1e-15})", ErrorCode::unsupported_value, "/multipleOf"},
      {R"({"multipleOf":12345.67})", ErrorCode::unsupported_value, "/multipleOf"},
      {R"({"multipleOf":-0.5})", invalid, "/multipleOf"},
      {R"({"multipleOf":0})", invalid, "/multipleOf"},
      {R"({"multipleOf":"a"})", invalid, "/multipleOf"},
      {R"({"minimum":"0"})", invalid, "/minimum"},
      {R"({"minLength":-1})", invalid, "/minLength"},
      {R"({"minLength":1.5})", invalid, "/minLength"},
      {R"({"minItems":2000000})", ErrorCode::unsupported_value, "/minItems"},
      {R"({"type":5})", invalid, "/type"},
      {R"({"type":"strin"})", invalid, "/type"},
      {R"({"type":["string","x"]})", invalid, "/type"},
      {R"({"type":[]})", invalid, "/type"},
      {R"({"enum":1})", invalid, "/enum"},
      {R"({"const":1e300})", unsupported, "/const"},
      {R"({"required":"a"})", invalid, "/required"},
      {R"({"required":[1]})", invalid, "/required"},
      {R"({"properties":[]})", invalid, "/properties"},
      {R"({"properties":{"a":1}})", invalid, "/properties/a"},
      {R"({"items":"x"})", invalid, "/items"},
      {R"({"prefixItems":{}})", invalid, "/prefixItems"},
      {R"({"prefixItems":[1]})", invalid, "/prefixItems/0"},
      {R"({"anyOf":{}})", invalid, "/anyOf"},
      {R"({"anyOf":[{"type":"x"}]})", invalid, "/anyOf/0/type"},
      {R"({"uniqueItems":1})", invalid, "/uniqueItems"},
      {R"({"items":{"uniqueItems":true}})", unsupported, "/items/uniqueItems"},
      {R"({"type":"array","uniqueItems":true,"items":{"type":"string"}})", unsupported, "/uniqueItems"},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":[{},1]}})", unsupported, "/uniqueItems"},
      {R"({"type":"array","uniqueItems":true,"items":{"minimum":0,"maximum":1,"type":"number"}})",
       unsupported, "/uniqueItems"},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":[1,2,3,4,5,6,7,8,9,10,11]}})", unsupported,
       "/uniqueItems"},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":[1,2]},"contains":{"const":1}})", unsupported,
       "/uniqueItems"},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":["a","b"]},"minItems":3})", invalid, ""},
      {R"({"format":1})", invalid, "/format"},
      {R"({"pattern":1})", invalid, "/pattern"},
      {R"({"$ref":1})", invalid, "/$ref"},
      {R"({"$ref":"#/nowhere"})", invalid, "/$ref"},
      {R"({"$ref":"#nowhere"})", invalid, "/$ref"},
      {R"({"$ref":"https://example.com/x"})", unsupported, "/$ref"},
      {R"({"$ref":"#"})", invalid, ""},
      {R"({"anyOf":[{"type":"null"},{"$ref":"#"}]})", invalid, ""},
      {R"({"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"})", invalid, "/$defs/a"},
      {R"({"properties":{"a":{"type":"array","contains":{"type":"null"},"maxItems":99999}}})",
       ErrorCode::unsupported_value, "/properties/a"},
      {R"({"contains":{"format":"date"},"maxContains":3})", unsupported, "/contains/format"},
      {R"({"type":"array","contains":{"type":"null"},"minContains":3,"maxContains":2})", invalid, ""},
      {R"({"type":"array","contains":{"type":"null"},"minContains":3,"maxItems":2})", invalid, ""},
      {R"({"properties":{"a":{"type":"object","minProperties":2}}})", unsupported, "/properties/a"},
      {R"({"items":{"type":"string","pattern":"a.{9}b","maxLength":900000}})", ErrorCode::unsupported_value,
       "/items/maxLength"},
      {R"({"items":{"minProperties":3,"required":["a"],"type":"object"}})", unsupported, "/items"},
      {R"({"minimum":true})", invalid, "/minimum"},
      {R"({"maximum":false})", invalid, "/maximum"},
      {R"({"multipleOf":true})", invalid, "/multipleOf"},
      {R"({"exclusiveMinimum":"a"})", invalid, "/exclusiveMinimum"},
      {R"({"type":"number","minimum":1e30})", invalid, ""},
      {R"({"oneOf":[{"propertyNames":{"format":"email"}},{"type":"object","required":["\"q\"@example.com"]}]})",
       unsupported, "/oneOf/0/propertyNames/format"},
      {R"({"not":{"format":"date"}})", unsupported, "/not/format"},
      {R"({"not":{"additionalProperties":{"type":"null"}}})", unsupported, "/not/additionalProperties"},
      {R"({"not":{"patternProperties":{"a":{"type":"null"}}}})", unsupported, "/not/patternProperties"},
      {R"({"not":{"unevaluatedProperties":false}})", unsupported, "/not/unevaluatedProperties"},
      {R"({"properties":{"a":{"contains":{"type":"null"},"unevaluatedItems":{"type":"string"}}}})",
       unsupported, "/properties/a/unevaluatedItems"},
      {R"({"unevaluatedProperties":3})", invalid, "/unevaluatedProperties"},
      {R"({"if":{"allOf":3},"unevaluatedProperties":false})", invalid, "/if/allOf"},
      {R"({"if":{"$ref":"#"},"unevaluatedProperties":false})", invalid, ""},
      {R"({"oneOf":[{"format":"date","type":"string"},{"format":"email","type":"string"}]})", unsupported,
       "/oneOf/1/format"},
      {R"({"properties":{"a":{"id":"x","items":{"$ref":"#"}}}})", unsupported, "/properties/a/items/$ref"},
      {R"({"$defs":{"a":{"$id":"x","$anchor":"n"}},"$ref":"#n"})", invalid, "/$ref"},
      {R"({"default":{"$anchor":"n"},"$ref":"#n"})", invalid, "/$ref"},
      {R"({"default":{"items":{"$ref":"#"}},"$ref":"#/default"})", unsupported, "/$ref"},
      {"1", invalid, ""},
      {"false", invalid, ""},
      {R"({"type":"integer","minimum":2,"maximum":1})", invalid, ""},
      {R"({"type":"integer","enum":["a"]})", invalid, ""},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", invalid, ""},
      {R"({"type":"array","items":{"$ref":"#"},"minItems":1})", invalid, ""},
      {R"({"type":"object","additionalProperties":false,"required":["a"]})", invalid, ""},
  };
  for (const auto& each : cases) {
    const auto grammar = compile(each.schema);
    ASSERT_FALSE(grammar) << each.schema;
    EXPECT_EQ(grammar.error().code, each.code) << each.schema << describe(grammar.error());
    EXPECT_EQ(grammar.error().where, each.where) << each.schema << describe(grammar.error());
    EXPECT_FALSE(grammar.error().message.empty());
  }
}

TEST(JsonSchema, PartsThatNothingSatisfiesLeaveNoDeadEnd) {
  // The second alternative would never end, and the property "b" has no value.
  const auto grammar = compile(R"({"anyOf":[{"type":"integer"},{"$ref":"#/$defs/e"}],
    "$defs":{"e":{"type":"array","items":{"$ref":"#/$defs/e"},"minItems":1}}})");
  ASSERT_TRUE(grammar);
  for (std::size_t i = 0; i < grammar->nodes(); ++i) {
    const Node& node = grammar->node(static_cast<NodeId>(i));
    EXPECT_FALSE(node.kind == Kind::text && grammar->text_of(node) == "[");
  }
  EXPECT_TRUE(accepts(*grammar, "7"));
}

}  // namespace
}  // namespace flyball::grammar
