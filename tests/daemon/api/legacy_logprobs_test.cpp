// Logprobs of the legacy completions API: how tokens are spelled, where they begin, and what is listed of
// each.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "daemon/api/framing.hpp"
#include "daemon/api/openai/token_text.hpp"
#include "daemon/api/openai/writer.hpp"

namespace flyball::api::openai {
namespace {

using nlohmann::json;
using Kind = Generate::Kind;

TEST(TokenText, IsTheTokenWhereItIsUtf8AndItsBytesWhereNot) {
  struct Case {
    std::string bytes, text;
  };
  for (const Case& c : {Case{"", ""},
                        {" word\n", " word\n"},
                        {"\xC3\xA9", "\xC3\xA9"},
                        {"a\\", "a\\"},
                        {"\xE4", R"(bytes:\xe4)"},
                        {"\xB8\xAD", R"(bytes:\xb8\xad)"},
                        {" \xE2\x80", R"(bytes: \xe2\x80)"},
                        {"\xC3\xA9\xE4", R"(bytes:\xc3\xa9\xe4)"},
                        {"\n\\\xFF", R"(bytes:\x0a\x5c\xff)"},
                        {"\xED\xA0\x80", R"(bytes:\xed\xa0\x80)"}})
    EXPECT_EQ(token_text(c.bytes), c.text);
}

TEST(TextOffsets, CountCharactersOfTheText) {
  struct Case {
    std::vector<std::string> tokens;
    std::vector<std::size_t> offsets;
  };
  for (const Case& c :
       {Case{{"ab", "c", "", "d"}, {0, 2, 3, 3}},
        {{"\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x98\x80", "x"}, {0, 1, 2, 3}},
        {{"a", "\xE4", "\xB8", "\xAD", "b"}, {0, 1, 1, 1, 2}},  // one character of three tokens
        {{"a\xF0\x9F",
          "\x98\x80"
          "b",
          "c"},
         {0, 1, 3}},                      // it begins with the character's rest
        {{"\xE4", "b", "c"}, {0, 1, 2}},  // half a character is U+FFFD
        {{"\xE4\xB8", "\xE4\xB8\xAD", "c"}, {0, 1, 2}},
        {{"\xFF", "\x80", "a"}, {0, 1, 2}},
        {{"a", "\xE4", "<|im_end|>"}, {0, 1, 2}}}) {
    TextOffsets offsets;
    std::vector<std::size_t> got;
    for (const std::string& token : c.tokens) got.push_back(offsets.next(token));
    EXPECT_EQ(got, c.offsets) << json(c.tokens).dump(-1, ' ', true, json::error_handler_t::replace);
  }
}

const std::vector<TokenLogprob>& answer() {
  static const std::vector<TokenLogprob> tokens{
      {1, "caf", -0.5F, {{"caf", -0.5F}, {"the", -1.0F}}},
      {2, "\xC3\xA9", -3.0F, {{"e", -0.5F}, {"a", -1.0F}}},  // outside of the listed ones
      {3, "\xE4", -0.25F, {{"\xE4", -0.25F}, {"\xE5", -2.0F}}},
      {4, "\xB8", -0.5F, {{"\xB8", -0.5F}, {"\xB9", -2.5F}}},
      {5, "\xAD", -0.75F, {{"\xAD", -0.75F}, {"\xAE", -3.0F}}},
      {6, "x", -2.0F, {{"x", -1.0F}, {"x", -2.0F}}},  // another token has the same text
      {8, "<|im_end|>", -0.5F, {{"<|im_end|>", -0.5F}, {"q", -1.0F}}, false},
      {7, "y", -4.0F, {{"z", -1.0F}, {"z", -2.0F}}}};
  return tokens;
}

json whole() {
  Writer writer(Kind::completion, true, false);
  writer.begin({"req-1", 1, "m", 1});
  Choice choice;
  for (const TokenLogprob& token : answer()) {
    choice.logprobs.append(token);
    if (token.in_text) choice.text += token.bytes;
  }
  std::string body;
  EXPECT_FALSE(writer.whole({&choice, 1}, {}, body));
  EXPECT_TRUE(read_json(body)) << body;  // which refuses a key that is there twice
  return json::parse(body)["choices"][0];
}

TEST(LegacyLogprobs, ListTheSampledTokenAndTheLikeliest) {
  const json choice = whole();
  EXPECT_EQ(choice["text"], "caf\u00e9\u4e2dxy");
  const json& logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"],
            json({"caf", "\u00e9", "bytes:\\xe4", "bytes:\\xb8", "bytes:\\xad", "x", "<|im_end|>", "y"}));
  EXPECT_EQ(logprobs["token_logprobs"], json({-0.5, -3.0, -0.25, -0.5, -0.75, -2.0, -0.5, -4.0}));
  EXPECT_EQ(logprobs["text_offset"], json({0, 3, 4, 4, 4, 5, 6, 6}));
  EXPECT_EQ(logprobs["top_logprobs"], json::parse(R"([{"caf":-0.5,"the":-1.0},{"e":-0.5,"a":-1.0,"é":-3.0},
                            {"bytes:\\xe4":-0.25,"bytes:\\xe5":-2.0},{"bytes:\\xb8":-0.5,"bytes:\\xb9":-2.5},
                            {"bytes:\\xad":-0.75,"bytes:\\xae":-3.0},{"x":-2.0},{"<|im_end|>":-0.5,"q":-1.0},{"z":-1.0,"y":-4.0}])"));
  for (std::size_t i = 0; i < logprobs["tokens"].size(); ++i)
    EXPECT_EQ(logprobs["top_logprobs"][i][logprobs["tokens"][i].get<std::string>()],
              logprobs["token_logprobs"][i]);
}

TEST(LegacyLogprobs, AreTheSameStreamedAndWhole) {
  const json expected = whole()["logprobs"];
  const std::vector<TokenLogprob>& tokens = answer();
  for (std::size_t at_once = 1; at_once <= tokens.size(); ++at_once) {
    Writer writer(Kind::completion, true, false);
    writer.begin({"req-1", 1, "m", 1});
    std::string out;
    Frames frames(StreamFraming::ndjson, out);
    for (std::size_t i = 0; i < tokens.size(); i += at_once) {
      const std::span<const TokenLogprob> some(tokens.data() + i, std::min(at_once, tokens.size() - i));
      const AnswerEvents events{event::Logprobs{some}};  // their text comes later
      writer.write(0, events, frames);
    }
    json got;
    for (std::size_t at = 0; at < out.size();) {
      const std::size_t end = out.find('\n', at);
      const json chunk = json::parse(out.substr(at, end - at));
      for (const auto& [name, list] : chunk["choices"][0]["logprobs"].items())
        for (const json& one : list) got[name].push_back(one);
      at = end + 1;
    }
    EXPECT_EQ(got, expected) << at_once;
  }
}

TEST(LegacyLogprobs, OfNoneListedAreThoseOfTheSampledTokens) {
  Writer writer(Kind::completion, true, false);
  writer.begin({"req-1", 1, "m", 1});
  Choice choice;
  choice.logprobs.append({1, "a", -0.5F, {}});
  choice.logprobs.append({2, "b", -std::numeric_limits<float>::infinity(), {}});
  std::string body;
  EXPECT_FALSE(writer.whole({&choice, 1}, {}, body));
  const json logprobs = json::parse(body)["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["token_logprobs"], json({-0.5, -9999.0}));
  EXPECT_EQ(logprobs["top_logprobs"], json::parse(R"([{"a":-0.5},{"b":-9999.0}])"));
}

// The list of an answer that echoes its prompt, whole and streamed.
TEST(LegacyLogprobs, OfAPromptsFirstTokenThereIsNone) {
  std::vector<TokenLogprob> tokens{{3, "a", 0.0F, {}}, {4, "b", -0.5F, {{"b", -0.5F}}}};
  tokens[0].known = false;
  for (const bool hidden : {false, true}) {
    tokens[0].in_text = !hidden;
    const std::string offsets = hidden ? "[0,0]" : "[0,1]";
    const std::string lists =
        R"({"tokens":["a","b"],"token_logprobs":[null,-0.5],"top_logprobs":[null,{"b":-0.5}],"text_offset":)" +
        offsets + "}";
    Writer writer(Kind::completion, true, false);
    writer.begin({"req-1", 1, "m", 1});
    Choice choice;
    for (const TokenLogprob& token : tokens) choice.logprobs.append(token);
    std::string body;
    EXPECT_FALSE(writer.whole({&choice, 1}, {}, body));
    EXPECT_NE(body.find(lists), std::string::npos) << body;

    Writer streamed(Kind::completion, true, false);
    streamed.begin({"req-1", 1, "m", 1});
    std::string out;
    Frames frames(StreamFraming::ndjson, out);
    streamed.write(0, AnswerEvents{event::Logprobs{tokens}, event::Text{"ab"}}, frames);
    EXPECT_NE(out.find(lists), std::string::npos) << out;
  }
}

// Chats have a list: tokens of one text stand beside each other, and bytes tell halves of characters apart.
TEST(ChatLogprobs, HaveTheBytesOfEachToken) {
  Writer writer(Kind::chat, true, false);
  writer.begin({"req-1", 1, "m", 2});
  std::vector<Choice> choices(2);
  choices[0].logprobs.append({1, "\xE4", -0.5F, {{"\xE4", -0.5F}, {"\xE5", -2.0F}}});
  std::string body;
  EXPECT_FALSE(writer.whole(choices, {}, body));
  const json document = json::parse(body);
  const json& one = document["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(one["bytes"], json({0xE4}));
  EXPECT_EQ(one["top_logprobs"][1]["bytes"], json({0xE5}));
  EXPECT_TRUE(document["choices"][0]["logprobs"]["refusal"].is_null());
  EXPECT_EQ(document["choices"][1]["logprobs"]["content"], json::array());
}

}  // namespace
}  // namespace flyball::api::openai
