// Histories as clients send them to the one form that templates are given.
#include "daemon/api/chat_history.hpp"

#include <gtest/gtest.h>

#include "tests/harness/packed.hpp"

namespace flyball::api {
namespace {

using test::packed;
using test::text_of;

ChatHistory history(const std::string& messages) {
  const PackedJson json = packed(messages);
  auto out = read_chat_history(json.view(), [](HistoryObject, std::string_view) noexcept { return true; });
  EXPECT_TRUE(out) << messages << (out ? "" : out.error().message);
  return out ? std::move(*out) : ChatHistory{};
}

std::string read(const std::string& message) {
  return text_of(history("[" + message + "]").messages);
}

Error refused(const std::string& message) {
  const PackedJson json = packed("[" + message + "]");
  auto out = read_chat_history(json.view(), [](HistoryObject, std::string_view) noexcept { return true; });
  EXPECT_FALSE(out) << message;
  return out ? Error{} : out.error();
}

std::string call(const std::string& arguments) {
  return R"({"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f",)"
         R"("arguments":)" +
         arguments + "}}]}";
}

TEST(ChatHistory, ParsesArgumentsThatSpellAnObject) {
  const std::string object = "[" + call(R"({"city":"Paris","days":[1,2.5,null]})") + "]";
  for (const char* arguments :
       {R"({"city":"Paris","days":[1,2.5,null]})", R"("{\"city\": \"Paris\", \"days\": [1, 2.5, null]}")",
        R"(" \n{\"city\":\"Paris\",\"days\":[1,2.5,null]}\t")"})
    EXPECT_EQ(read(call(arguments)), object) << arguments;
  const std::string none = "[" + call("{}") + "]";
  for (const char* arguments : {R"("")", R"(" ")", R"("{}")", "null", R"("null")", "{}"})
    EXPECT_EQ(read(call(arguments)), none) << arguments;
  EXPECT_EQ(
      read(R"({"role":"assistant","tool_calls":[{"function":{"name":"f"}}]})"),
      R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}},"type":"function"}],"content":""}])");
  EXPECT_EQ(
      read(R"({"role":"assistant","content":"","tool_calls":[{"type":null,"function":{"name":"f"}}]})"),
      R"([{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":{}}}]}])");
}

TEST(ChatHistory, LeavesArgumentsThatAreNoObjectAsTextAndSaysSo) {
  for (const char* arguments : {R"("not json")", R"("[1]")", R"("7")", R"("{\"a\":1,\"a\":2}")",
                                R"("{\"a\":")", R"(" \"text\"")", R"("{\"a\":1e400}")"}) {
    const ChatHistory out = history("[" + call(arguments) + "," + call("{}") + "]");
    EXPECT_EQ(text_of(out.messages), "[" + call(arguments) + "," + call("{}") + "]");
    EXPECT_EQ(out.note,
              "messages[0].tool_calls[0].function.arguments is not readable as a JSON object; it goes to "
              "the model's template as text.");
  }
  EXPECT_EQ(history("[" + call("\"a\"") + "," + call("\"b\"") + "," + call("\"c\"") + "]").note,
            "messages[0].tool_calls[0].function.arguments is not readable as a JSON object; it goes to the "
            "model's template as text. So do the arguments of 2 further calls.");
  EXPECT_EQ(history("[" + call("\"\"") + "]").note, "");
}

TEST(ChatHistory, BoundsArguments) {
  const auto nested = [](std::size_t depth) {
    std::string out = "\"{\\\"a\\\":";
    for (std::size_t i = 1; i < depth; ++i) out += '[';
    for (std::size_t i = 1; i < depth; ++i) out += ']';
    return out + "}\"";
  };
  EXPECT_EQ(history("[" + call(nested(59)) + "]").note, "");
  const Error deep = refused(call(nested(60)));
  EXPECT_EQ(deep.code, ErrorCode::json_too_deep);
  EXPECT_EQ(deep.param, "messages[0].tool_calls[0].function.arguments");
  // The limit is of all calls together.
  std::string many = "\"{\\\"a\\\":[0";
  for (int i = 0; i < 60'000; ++i) many += ",0";
  many += "]}\"";
  EXPECT_EQ(history("[" + call(many) + "]").note, "");
  const Error large = refused(call(many) + "," + call(many));
  EXPECT_EQ(large.code, ErrorCode::json_too_large);
  EXPECT_EQ(large.param, "messages[1].tool_calls[0].function.arguments");
  EXPECT_EQ(large.message,
            "'messages[1].tool_calls[0].function.arguments' brings the arguments of all calls to more "
            "than 100000 JSON values.");
}

TEST(ChatHistory, LeavesOutMembersThatAreNullOrEmpty) {
  const std::string plain = R"([{"role":"assistant","content":"Hello"}])";
  for (const char* more : {R"("tool_calls":null)", R"("tool_calls":[])", R"("name":null)", R"("name":"")",
                           R"("refusal":null,"function_call":null,"audio":null,"tool_calls":null)",
                           R"("annotations":[])", R"("reasoning_content":"")", R"("function_call":{})"})
    EXPECT_EQ(read(std::string(R"({"role":"assistant","content":"Hello",)") + more + "}"), plain) << more;
  EXPECT_EQ(
      read(R"({"role":"assistant","content":null,"tool_calls":[{"index":null,"id":"c","type":"function",)"
           R"("function":{"name":"f","description":null,"arguments":{"kept":null,"also":[]}}}]})"),
      R"([{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function",)"
      R"("function":{"name":"f","arguments":{"kept":null,"also":[]}}}]}])");
  EXPECT_EQ(read(R"({"role":"user","content":"","prefix":false,"weight":0})"),
            R"([{"role":"user","content":"","prefix":false,"weight":0}])")
      << "empty content is content, and no other value is empty";
}

TEST(ChatHistory, NamesReasoningAndToolsAsTemplatesReadThem) {
  EXPECT_EQ(read(R"({"role":"assistant","content":"a","thinking":"Hm"})"),
            R"([{"role":"assistant","content":"a","thinking":"Hm","reasoning_content":"Hm"}])");
  EXPECT_EQ(read(R"({"role":"assistant","content":"a","reasoning":"Hm","reasoning_content":""})"),
            R"([{"role":"assistant","content":"a","reasoning":"Hm","reasoning_content":"Hm"}])");
  EXPECT_EQ(read(R"({"role":"tool","content":"a","tool_name":"f"})"),
            R"([{"role":"tool","content":"a","tool_name":"f","name":"f"}])");
  for (const char* same : {R"({"role":"assistant","content":"a","thinking":"x","reasoning_content":"y"})",
                           R"({"role":"tool","content":"a","name":"f","tool_name":"g"})",
                           R"({"role":"user","content":"a","thinking":"x","tool_name":"g"})"})
    EXPECT_EQ(read(same), "[" + std::string(same) + "]");
}

TEST(ChatHistory, HasContentAsAString) {
  EXPECT_EQ(
      read(
          R"({"content":[{"type":"text","text":"x\n"},{"type":"text","text":"y"}],"role":"user","name":"n"})"),
      R"([{"content":"x\n\ny","role":"user","name":"n"}])");
  EXPECT_EQ(read(R"({"role":"assistant","content":null,"refusal":"No."})"),
            R"([{"role":"assistant","content":"No.","refusal":"No."}])");
  EXPECT_EQ(read(R"({"role":"assistant","content":[{"type":"refusal","refusal":"No."}]})"),
            R"([{"role":"assistant","content":"No."}])");
  EXPECT_EQ(read(R"({"role":"developer","content":"a"})"), R"([{"role":"system","content":"a"}])");
}

TEST(ChatHistory, NamesThePlaceOfWhatItRefuses) {
  const auto expect = [](const std::string& message, ErrorCode code, const std::string& param) {
    const Error error = refused(message);
    EXPECT_EQ(error.code, code) << message;
    EXPECT_EQ(error.param, "messages[0]" + param) << message;
  };
  expect("7", ErrorCode::invalid_value, "");
  expect(R"({"content":"a"})", ErrorCode::missing_field, ".role");
  expect(R"({"role":"wizard","content":"a"})", ErrorCode::invalid_value, ".role");
  expect(R"({"role":"user"})", ErrorCode::missing_field, ".content");
  expect(R"({"role":"tool","content":null})", ErrorCode::missing_field, ".content");
  expect(R"({"role":"assistant"})", ErrorCode::missing_field, ".content");
  expect(R"({"role":"assistant","content":null,"tool_calls":[]})", ErrorCode::missing_field, ".content");
  expect(R"({"role":"user","content":7})", ErrorCode::invalid_value, ".content");
  expect(R"({"role":"assistant","content":"a","thinking":7})", ErrorCode::invalid_value, ".thinking");
  expect(R"({"role":"user","content":"a","name":["n"]})", ErrorCode::invalid_value, ".name");
  expect(R"({"role":"user","content":[{"type":"image_url"}]})", ErrorCode::unsupported_feature,
         ".content[0].type");
  expect(R"({"role":"user","content":[{"type":"refusal","refusal":"x"}]})", ErrorCode::unsupported_value,
         ".content[0].type");
  expect(R"({"role":"user","content":[{"type":"text"}]})", ErrorCode::invalid_value, ".content[0].text");
  expect(R"({"role":"assistant","content":"a","tool_calls":7})", ErrorCode::invalid_value, ".tool_calls");
  expect(R"({"role":"assistant","tool_calls":[7]})", ErrorCode::invalid_value, ".tool_calls[0]");
  expect(R"({"role":"assistant","tool_calls":[{"function":{}}]})", ErrorCode::invalid_value,
         ".tool_calls[0].function");
  expect(R"({"role":"assistant","tool_calls":[{"function":{"name":""}}]})", ErrorCode::invalid_value,
         ".tool_calls[0].function");
  expect(R"({"role":"assistant","tool_calls":[{"type":"custom","custom":{"name":"f","input":"x"}}]})",
         ErrorCode::unsupported_value, ".tool_calls[0].type");
  expect(R"({"role":"assistant","content":"a","function_call":{"name":"f","arguments":"{}"}})",
         ErrorCode::unsupported_value, ".function_call");
  for (const char* arguments : {"7", "[1]", "true"})
    expect(call(arguments), ErrorCode::invalid_value, ".tool_calls[0].function.arguments");
}

TEST(ChatHistory, CountsItsLengthAsJson) {
  for (
      const char* message :
      {R"({"role":"developer","content":[{"type":"text","text":"a\"b\\\n\t\u0001é"}],"name":null})",
       R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":[1.5,true]}"}}]})"}) {
    const PackedJson out = history(std::string("[") + message + "]").messages;
    EXPECT_EQ(out.json_bytes(), text_of(out).size()) << text_of(out);
  }
}

}  // namespace
}  // namespace flyball::api
