// The fields that constrain an answer, in the spellings of each server, and the errors of the other
// spellings.
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "config/json_reader.hpp"
#include "daemon/api/constraint_verdicts.hpp"
#include "daemon/api/openai/completion_request.hpp"
#include "daemon/api/suit_to_model.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::api::openai {
namespace {

using test::text_of;
using ConstraintKind = Constraint::Kind;

Result<Generate> asked(Generate::Kind kind, const std::string& members) {
  const std::string prompt = kind == Generate::Kind::chat ? R"({"messages":[{"role":"user","content":"Hi"}],)"
                                                          : R"({"prompt":"Hi",)";
  const auto body = read_packed(prompt + members + "}");
  if (!body) return std::unexpected(body.error());
  return parse_generate(kind, body->view());
}

struct Spelling {
  const char* sent;
  ConstraintKind kind;
  const char* source;  // JSON; "": none
  const char* field;
};
constexpr Spelling kSpellings[] = {
    {R"("response_format":{"type":"json_object"})", ConstraintKind::json_object, "", "response_format"},
    {R"("response_format":{"type":"json_object","schema":null})", ConstraintKind::json_object, "",
     "response_format"},
    {R"("response_format":{"type":"json_object","schema":{}})", ConstraintKind::json_object, "",
     "response_format"},
    {R"("response_format":{"type":"json_object","schema":{"type":"object"}})", ConstraintKind::json_schema,
     R"({"type":"object"})", "response_format.schema"},
    {R"("response_format":{"type":"json_schema","json_schema":{"name":"a","description":"b","strict":true,"schema":{"type":"object"}}})",
     ConstraintKind::json_schema, R"({"type":"object"})", "response_format.json_schema.schema"},
    {R"("response_format":{"type":"json_schema","json_schema":{"name":"a","strict":false,"schema":{"type":"object"}}})",
     ConstraintKind::json_schema, R"({"type":"object"})", "response_format.json_schema.schema"},
    {R"("response_format":{"type":"json_schema","json_schema":{"strict":null,"schema":{}}})",
     ConstraintKind::json_schema, "{}", "response_format.json_schema.schema"},
    {R"("response_format":{"type":"json_schema","schema":{"type":"object"},"name":"a","strict":true})",
     ConstraintKind::json_schema, R"({"type":"object"})", "response_format.schema"},
    {R"("guided_json":{"type":"object"})", ConstraintKind::json_schema, R"({"type":"object"})",
     "guided_json"},
    {R"("guided_json":"{\"type\": \"object\"}","guided_decoding_backend":"xgrammar")",
     ConstraintKind::json_schema, R"({"type":"object"})", "guided_json"},
    {R"("guided_regex":"a+")", ConstraintKind::regex, R"("a+")", "guided_regex"},
    {R"("guided_choice":["a","b"])", ConstraintKind::choice, R"(["a","b"])", "guided_choice"},
    {R"("guided_choice":[])", ConstraintKind::choice, "[]", "guided_choice"},
    {R"("guided_grammar":"root ::= [a-z]")", ConstraintKind::gbnf, R"("root ::= [a-z]")", "guided_grammar"},
    {R"("structured_outputs":{"json":{"type":"object"}})", ConstraintKind::json_schema,
     R"({"type":"object"})", "structured_outputs.json"},
    {R"("structured_outputs":{"json":"{}","disable_fallback":true,"disable_additional_properties":false})",
     ConstraintKind::json_schema, "{}", "structured_outputs.json"},
    {R"("structured_outputs":{"regex":"a+"})", ConstraintKind::regex, R"("a+")", "structured_outputs.regex"},
    {R"("structured_outputs":{"choice":["a"]})", ConstraintKind::choice, R"(["a"])",
     "structured_outputs.choice"},
    {R"("structured_outputs":{"grammar":"root ::= [a-z]"})", ConstraintKind::gbnf, R"("root ::= [a-z]")",
     "structured_outputs.grammar"},
    {R"("structured_outputs":{"json_object":true})", ConstraintKind::json_object, "",
     "structured_outputs.json_object"},
    {R"("grammar":"root ::= [a-z]")", ConstraintKind::gbnf, R"("root ::= [a-z]")", "grammar"},
    {R"("json_schema":{"type":"object"})", ConstraintKind::json_schema, R"({"type":"object"})",
     "json_schema"},
    {R"("json_schema":"{\"type\":\"object\"}")", ConstraintKind::json_schema, R"({"type":"object"})",
     "json_schema"},
    {R"("regex":"a+")", ConstraintKind::regex, R"("a+")", "regex"},
    {R"("ebnf":"root ::= [a-z]")", ConstraintKind::gbnf, R"("root ::= [a-z]")", "ebnf"},
    {R"("response_format":{"type":"structural_tag","structures":[{"begin":"<f>","schema":{},"end":""}],"triggers":["<f"]})",
     ConstraintKind::structural_tag,
     R"({"structures":[{"begin":"<f>","schema":{},"end":""}],"triggers":["<f"]})", "response_format"},
    {R"("response_format":{"type":"structural_tag","name":"a","strict":true,"schema":null,"format":{"type":"any_text"}})",
     ConstraintKind::structural_tag, R"({"format":{"type":"any_text"}})", "response_format"},
    {R"("response_format":{"type":"structural_tag"})", ConstraintKind::structural_tag, "{}",
     "response_format"},
    {R"("structured_outputs":{"structural_tag":"{\"type\":\"structural_tag\",\"triggers\":[]}"})",
     ConstraintKind::structural_tag, R"({"type":"structural_tag","triggers":[]})",
     "structured_outputs.structural_tag"},
    {R"("structural_tag":"{\"format\":{}}")", ConstraintKind::structural_tag, R"({"format":{}})",
     "structural_tag"},
};

TEST(StructuredOutput, EachSpellingIsAConstraintOfChatsAndCompletions) {
  for (const auto kind : {Generate::Kind::chat, Generate::Kind::completion})
    for (const Spelling& one : kSpellings) {
      const auto read = asked(kind, one.sent);
      ASSERT_TRUE(read) << one.sent << ": " << read.error().message;
      ASSERT_TRUE(read->base.constraint) << one.sent;
      EXPECT_EQ(read->base.constraint->kind, one.kind) << one.sent;
      EXPECT_EQ(read->base.constraint->source.empty() ? "" : text_of(read->base.constraint->source),
                one.source)
          << one.sent;
      EXPECT_EQ(read->constraint_field, one.field) << one.sent;
      EXPECT_FALSE(read->base.constraint->compact) << one.sent;
      EXPECT_EQ(read->wants_json,
                one.kind == ConstraintKind::json_object || one.kind == ConstraintKind::json_schema)
          << one.sent;
      EXPECT_FALSE(read->unknown.refusal()) << one.sent << ": " << read->unknown.refusal()->message;
    }
}

TEST(StructuredOutput, ValuesThatAskForNothingConstrainNothing) {
  for (const char* sent :
       {R"("response_format":null)",
        R"("response_format":{"type":"text"})",
        R"("response_format":{"type":"text","json_schema":null,"schema":null})",
        R"("guided_json":null)",
        R"("guided_json":"")",
        R"("guided_regex":"")",
        R"("guided_choice":null)",
        R"("guided_grammar":"")",
        R"("structured_outputs":null)",
        R"("structured_outputs":{})",
        R"("structured_outputs":{"json":null,"regex":"","json_object":false,"structural_tag":null})",
        R"("structured_outputs":{"disable_any_whitespace":true,"whitespace_pattern":""})",
        R"("grammar":"")",
        R"("json_schema":null)",
        R"("regex":"")",
        R"("ebnf":"")",
        R"("format":"")",
        R"("guided_json_object":false,"grammar_lazy":false,"grammar_triggers":[],"guided_decoding":null)",
        R"("response_format":{"type":"text","value":null,"grammar":null,"regex":null,"pattern":null})",
        R"("structural_tag":null)",
        R"("guided_whitespace_pattern":"")"}) {
    const auto read = asked(Generate::Kind::chat, sent);
    ASSERT_TRUE(read) << sent << ": " << read.error().message;
    EXPECT_FALSE(read->base.constraint) << sent;
    EXPECT_EQ(read->constraint_field, "") << sent;
    EXPECT_FALSE(read->wants_json || read->unknown.refusal()) << sent;
  }
}

TEST(StructuredOutput, WhitespaceIsLeftOutOfJsonOnRequest) {
  const auto compact = [](const std::string& members) {
    const auto read =
        asked(Generate::Kind::chat, R"("structured_outputs":{"disable_any_whitespace":true)" + members);
    EXPECT_TRUE(read) << (read ? "" : read.error().message);
    return read && read->base.constraint && read->base.constraint->compact;
  };
  EXPECT_TRUE(compact(R"(,"json":{}})"));
  EXPECT_TRUE(compact(R"(,"json_object":true})"));
  EXPECT_TRUE(compact(R"(},"response_format":{"type":"json_object"})"));
  EXPECT_TRUE(compact(R"(,"structural_tag":"{}"})"));
  EXPECT_FALSE(compact(R"(,"regex":"a"})"));
}

TEST(StructuredOutput, ErrorsNameThePlace) {
  using enum ErrorCode;
  struct Case {
    const char* sent;
    ErrorCode code;
    const char *param, *says;
  };
  for (const Case& c : {
           Case{R"("response_format":[])", invalid_value, "response_format", "an object with a 'type'"},
           Case{R"("response_format":{"type":"xml"})", unsupported_value, "response_format.type",
                "'text', 'json_object', 'json_schema' or 'structural_tag' only"},
           Case{R"("response_format":{"type":"json_schema"})", missing_field,
                "response_format.json_schema.schema", "is required"},
           Case{R"("response_format":{"type":"json_schema","json_schema":{"name":"a"}})", missing_field,
                "response_format.json_schema.schema", "is required"},
           Case{R"("response_format":{"type":"json_schema","json_schema":{"schema":null}})", missing_field,
                "response_format.json_schema.schema", "is required"},
           Case{R"("response_format":{"type":"json_schema","json_schema":7})", invalid_value,
                "response_format.json_schema", "must be an object with a 'schema'"},
           Case{R"("response_format":{"type":"json_schema","json_schema":{"schema":[1]}})", invalid_value,
                "response_format.json_schema.schema", "must be a JSON schema, an object"},
           Case{R"("response_format":{"type":"json_object","json_schema":{"schema":{}}})", invalid_value,
                "response_format.json_schema", "with the type 'json_schema'"},
           Case{R"("response_format":{"type":"text","schema":{}})", invalid_value, "response_format.schema",
                "with the type 'json_schema' or 'json_object'"},
           Case{R"("guided_json":7)", invalid_value, "guided_json", "must be a JSON schema, an object"},
           Case{R"("guided_json":"{\"a\":")", invalid_json, "guided_json",
                "'guided_json' is not valid JSON (at byte "},
           Case{R"("json_schema":"[]")", invalid_value, "json_schema", "must hold a JSON schema"},
           Case{R"("guided_regex":["a"])", invalid_value, "guided_regex", "must be a string"},
           Case{R"("guided_choice":"a")", invalid_value, "guided_choice", "must be an array of strings"},
           Case{R"("guided_choice":["a",1])", invalid_value, "guided_choice", "must be an array of strings"},
           Case{R"("grammar":{})", invalid_value, "grammar", "must be a string"},
           Case{R"("structured_outputs":"json")", invalid_value, "structured_outputs", "must be an object"},
           Case{R"("structured_outputs":{"choice":{}})", invalid_value, "structured_outputs.choice",
                "must be an array of strings"},
           Case{R"("structured_outputs":{"json_object":1})", invalid_value, "structured_outputs.json_object",
                "must be a boolean"},
           Case{R"("structured_outputs":{"disable_any_whitespace":"yes"})", invalid_value,
                "structured_outputs.disable_any_whitespace", "must be a boolean"},
           Case{R"("structured_outputs":{"structural_tag":"{"})", invalid_json,
                "structured_outputs.structural_tag", "is not valid JSON"},
           Case{R"("structured_outputs":{"structural_tag":[]})", invalid_value,
                "structured_outputs.structural_tag", "must be a structural tag, an object"},
           Case{R"("structured_outputs":{"structural_tag":"{}","regex":"a"})", invalid_value,
                "structured_outputs.structural_tag", "are both set"},
           Case{R"("response_format":{"type":"json_object","triggers":["<f"]})", invalid_value,
                "response_format.triggers", "with the type 'structural_tag'"},
           Case{R"("response_format":{"type":"text","structures":[]})", invalid_value,
                "response_format.structures", "with the type 'structural_tag'"},
           Case{R"("response_format":{"type":"structural_tag","schema":{}})", invalid_value,
                "response_format.schema", "with the type 'json_schema' or 'json_object'"},
           Case{R"("response_format":{"type":"structural_tag","json_schema":{"schema":{}}})", invalid_value,
                "response_format.json_schema", "with the type 'json_schema'"},
           Case{R"("structured_outputs":{"json":{},"whitespace_pattern":"\\s"})", unsupported_feature,
                "structured_outputs.whitespace_pattern", "disable_any_whitespace"},
           Case{R"("structured_outputs":{"json":{},"disable_additional_properties":true})",
                unsupported_feature, "structured_outputs.disable_additional_properties",
                "'additionalProperties'"},
           Case{R"("structural_tag":"[]")", invalid_value, "structural_tag", "must hold a structural tag"},
           Case{R"("format":"json")", unsupported_feature, "format", "use 'response_format'"},
           Case{R"("guided_decoding":{"json":{}})", unsupported_feature, "guided_decoding", "'guided_json'"},
           Case{R"("guided_json_object":true)", unsupported_feature, "guided_json_object",
                "use 'response_format'"},
           Case{R"("grammar":"root ::= [a-z]","grammar_lazy":true)", unsupported_feature, "grammar_lazy",
                "is not served"},
           Case{R"("grammar_triggers":[{"type":1}])", unsupported_feature, "grammar_triggers",
                "is not served"},
           Case{R"("response_format":{"type":"json_object","value":{}})", unsupported_feature,
                "response_format.value", "'guided_json'"},
           Case{R"("response_format":{"type":"grammar","grammar":"root ::= [a-z]"})", unsupported_feature,
                "response_format.grammar", "'guided_grammar'"},
           Case{R"("response_format":{"type":"text","regex":"a"})", unsupported_feature,
                "response_format.regex", "'guided_regex'"},
           Case{R"("response_format":{"type":"regex","pattern":"a"})", unsupported_feature,
                "response_format.pattern", "'guided_regex'"},
           Case{R"("guided_json":{},"guided_whitespace_pattern":"\\s")", unsupported_feature,
                "guided_whitespace_pattern", "disable_any_whitespace"},
       }) {
    const auto read = asked(Generate::Kind::chat, c.sent);
    ASSERT_FALSE(read) << c.sent;
    EXPECT_EQ(read.error().code, c.code) << c.sent << ": " << read.error().message;
    EXPECT_EQ(read.error().param, c.param) << c.sent;
    EXPECT_NE(read.error().message.find(c.says), std::string::npos) << c.sent << ": " << read.error().message;
  }
}

TEST(StructuredOutput, ASchemaInAStringHasTheBoundsOfABody) {
  const std::string deep = std::string(65, '[') + std::string(65, ']');
  const auto read = asked(Generate::Kind::chat, R"("guided_json":")" + deep + '"');
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::json_too_deep);
  EXPECT_EQ(read.error().param, "guided_json");
}

// Nothing of a constraint beyond the bound is hashed or compiled.
TEST(StructuredOutput, AConstraintHasABoundInBytes) {
  const std::string most(1024 * 1024, 'a');
  EXPECT_TRUE(asked(Generate::Kind::chat, R"("guided_regex":")" + most + '"'));
  for (const auto& [sent, place] :
       {std::pair(R"("guided_regex":"a)" + most + "\"", "guided_regex"),
        std::pair(R"("structured_outputs":{"choice":[")" + most + "\"]}", "structured_outputs.choice"),
        std::pair(R"("response_format":{"type":"json_object","schema":{"title":")" + most + "\"}}",
                  "response_format.schema")}) {
    const auto read = asked(Generate::Kind::chat, sent);
    ASSERT_FALSE(read) << place;
    EXPECT_EQ(read.error().code, ErrorCode::unsupported_value);
    EXPECT_EQ(read.error().param, place);
    EXPECT_TRUE(read.error().message.starts_with("'" + std::string(place) + "': The constraint has 10485"))
        << read.error().message;
  }
}

TEST(StructuredOutput, UnknownMembersAreNoted) {
  for (const auto& [sent, place] :
       {std::pair(R"("response_format":{"type":"json_object","shema":{}})", "response_format.shema"),
        std::pair(R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"stict":true}})",
                  "response_format.json_schema.stict"),
        std::pair(R"("structured_outputs":{"jsn":{}})", "structured_outputs.jsn")}) {
    const auto read = asked(Generate::Kind::chat, sent);
    ASSERT_TRUE(read) << sent << ": " << read.error().message;
    ASSERT_TRUE(read->unknown.refusal()) << sent;
    EXPECT_EQ(read->unknown.refusal()->param, place);
  }
}

// Every pair of spellings in one body names both places, but for two of one field.
TEST(StructuredOutput, TwoConstraintsAreRefusedByBothNames) {
  const auto name_of = [](std::string_view sent) { return sent.substr(1, sent.find('"', 1) - 1); };
  std::size_t pairs = 0;
  for (const Spelling& one : kSpellings)
    for (const Spelling& other : kSpellings) {
      if (name_of(one.sent) == name_of(other.sent)) continue;
      const auto read = asked(Generate::Kind::chat, std::string(one.sent) + "," + other.sent);
      ASSERT_FALSE(read) << one.sent << " " << other.sent;
      const Error& error = read.error();
      EXPECT_EQ(error.code, ErrorCode::invalid_value) << error.message;
      for (const char* field : {one.field, other.field})
        EXPECT_NE(error.message.find("'" + std::string(field) + "'"), std::string::npos) << error.message;
      EXPECT_TRUE(error.param == one.field || error.param == other.field) << error.param;
      ++pairs;
    }
  EXPECT_GT(pairs, 100U);
  const auto within = asked(Generate::Kind::chat, R"("structured_outputs":{"json":{},"regex":"a"})");
  ASSERT_FALSE(within);
  EXPECT_EQ(within.error().param, "structured_outputs.regex");
  const auto both =
      asked(Generate::Kind::chat,
            R"("response_format":{"type":"json_schema","schema":{},"json_schema":{"schema":{}}})");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().param, "response_format.json_schema.schema");
}

TEST(StructuredOutput, AConstraintStandsBesideNoToolsThatMayBeCalled) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}],)";
  const auto read = asked(Generate::Kind::chat, tools + R"("guided_regex":"a")");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::unsupported_feature);
  EXPECT_EQ(read.error().param, "tools");
  EXPECT_NE(read.error().message.find("'guided_regex'"), std::string::npos) << read.error().message;
  for (const std::string& sent : {tools + R"("tool_choice":"none","guided_json":{})",
                                  std::string(R"("tools":[],"tool_choice":"auto","guided_json":{})")}) {
    const auto lone = asked(Generate::Kind::chat, sent);
    ASSERT_TRUE(lone) << sent << ": " << lone.error().message;
    EXPECT_TRUE(lone->base.constraint) << sent;
  }
}

// The model's file tells the form of calls: the tag of both is made by suit_to_model().
TEST(StructuredOutput, JsonStandsBesideToolsThatTheModelMayCall) {
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"p":{"pattern":"("}}}}}],)";
  const auto suited = [&](const std::string& more) {
    auto read = asked(Generate::Kind::chat, tools + more);
    EXPECT_TRUE(read) << read.error().message;
    const auto ok = suit_to_model(*read, nullptr);
    EXPECT_TRUE(ok) << ok.error().message;
    return std::move(*read);
  };
  for (const char* format :
       {R"("guided_json":{"type":"integer"})", R"("response_format":{"type":"json_object"})"}) {
    const Generate both = suited(format);
    ASSERT_TRUE(both.base.constraint && both.parser);
    EXPECT_EQ(both.base.constraint->kind, Constraint::Kind::structural_tag);
    EXPECT_EQ(both.schema_places.size(), 2U);
    const auto refusal = ConstraintVerdicts::compile(*both.base.constraint);
    ASSERT_TRUE(refusal);
    const Error error = constraint_refusal(both, *refusal);
    EXPECT_EQ(error.param, "tools[0].function.parameters");
    EXPECT_TRUE(error.message.contains("/properties/p/pattern")) << error.message;
    const Error of_both = constraint_refusal(both, {ErrorCode::unsupported_feature, "It is large.", {}, {}});
    EXPECT_EQ(of_both.param, "tools");
    EXPECT_TRUE(of_both.message.contains("'" + both.schema_places[0].field + "' and those of the tools"))
        << of_both.message;
    EXPECT_FALSE(both.schema_places[1].is_format);
    // The names of the places make no difference.
    Generate renamed;
    renamed.base.constraint = both.base.constraint;
    renamed.constraint_field = both.constraint_field;
    renamed.schema_places = both.schema_places;
    std::swap(renamed.schema_places[0].field, renamed.schema_places[1].field);
    EXPECT_TRUE(constraint_refusal(renamed, {ErrorCode::unsupported_feature, "It is large.", {}, {}})
                    .message.contains("The schema of 'tools[0].function.parameters' and those"));
    renamed.schema_places = {both.schema_places[1], both.schema_places[1]};
    renamed.schema_places[0].field = "functions[0]";
    EXPECT_FALSE(constraint_refusal(renamed, {ErrorCode::unsupported_feature, "It is large.", {}, {}})
                     .message.contains("and those"))
        << "both are tools'";
  }
  const Generate demanded = suited(R"("tool_choice":"required","guided_json":{"type":"integer"})");
  EXPECT_EQ(demanded.schema_places.size(), 1U);
  const Generate text = suited(R"("tool_choice":"none","guided_json":{"type":"integer"})");
  EXPECT_EQ(text.base.constraint->kind, Constraint::Kind::json_schema);
  EXPECT_FALSE(text.parser);
}

TEST(StructuredOutput, GoesWithTheOtherParameters) {
  const auto read =
      asked(Generate::Kind::chat,
            R"("guided_choice":["a"],"n":2,"stop":"x","seed":7,"logprobs":true,"top_logprobs":3,)"
            R"("frequency_penalty":1,"ignore_eos":true,"logit_bias":{"5":1})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->base.constraint && read->base.ignore_eos && read->n == 2);
}

}  // namespace
}  // namespace flyball::api::openai
