// Structural tags: what each format accepts, the errors of malformed ones, and all short words of random
// tags judged by the definition.
#include "backends/grammar/structural_tag.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "backends/grammar/string_search.hpp"
#include "config/json_reader.hpp"
#include "config/utf8.hpp"
#include "tests/backends/grammar/recognizer.hpp"
#include "tests/backends/grammar/sampler.hpp"

namespace flyball::grammar {
namespace {

using Strings = std::vector<std::string>;

Result<Grammar> made_of(const std::string& tag, const Limits& limits = {}) {
  const auto packed = read_packed(tag);
  if (!packed) return pass(packed);
  Fuel fuel(limits.steps);
  return from_structural_tag(packed->view(), {}, limits, fuel);
}

bool takes(const Grammar& grammar, const std::string& word) {
  return Recognizer(grammar, word).accepts();
}

struct Accepting {
  const char* name;
  std::string tag;
  Strings words, others;
};
void PrintTo(const Accepting& one, std::ostream* out) {
  *out << one.name;
}
class StructuralTagFormats : public testing::TestWithParam<Accepting> {};

TEST_P(StructuralTagFormats, AcceptTheirWordsAndNoOthers) {
  const auto grammar = made_of(GetParam().tag);
  ASSERT_TRUE(grammar) << grammar.error().where << ": " << grammar.error().message;
  for (const auto& word : GetParam().words) EXPECT_TRUE(takes(*grammar, word)) << word;
  for (const auto& word : GetParam().others) EXPECT_FALSE(takes(*grammar, word)) << word;
}

std::string format(const std::string& of) {
  return R"({"type":"structural_tag","format":)" + of + "}";
}
// The format is the content of a tag.
std::string in_tag(const std::string& content, const std::string& end = R"("</t>")") {
  return format(R"({"type":"tag","begin":"<t>","content":)" + content + R"(,"end":)" + end + "}");
}
const std::string kCall = R"({"begin":"<f=a>","content":{"type":"json_schema","json_schema":)"
                          R"({"type":"integer"}},"end":"</f>"})";
std::string triggered(const std::string& members = "") {
  return R"({"type":"triggered_tags","triggers":["<f="],"tags":[)" + kCall + "]" + members + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Formats, StructuralTagFormats,
    testing::Values(
        Accepting{"structures",
                  R"({"type":"structural_tag","structures":[)"
                  R"({"begin":"<f=a>","schema":{"type":"integer"},"end":"</f>"},)"
                  R"({"begin":"<f=b>","schema":{"enum":["x"]},"end":"</f>"}],"triggers":["<f="]})",
                  {"", "free", "<f=a>12</f>", "one <f=a>1</f> two <f=b>\"x\"</f><f=a>3</f> three", "<f <f",
                   "<<f=a>1</f>", "a</f>", "é<f=b>\"x\"</f>é"},
                  {"<f=", "text <f=a>", "<f=c>1</f>", "<f=a>\"x\"</f>", "<f=a>1</f",
                   "<f=a>1</f><f=", "<f=a>1 2</f>", "\xC3", "\xA9", "\xC3<f=a>1</f>"}},
        Accepting{"two triggers",
                  R"({"structures":[{"begin":"<a>","schema":{"type":"null"},"end":"."},)"
                  R"({"begin":"[b]","schema":{"type":"null"},"end":""}],"triggers":["<a>","[b"]})",
                  {"<a>null.", "[b]null[b]null<a>null.", "<a [a] [", "[b]nullnull"},
                  {"[b", "[b]", "<a>null", "[b]true"}},
        Accepting{
            "a trigger that overlaps itself",
            R"({"structures":[{"begin":"```x","schema":{"type":"null"},"end":"```"}],"triggers":["```"]})",
            {"``", "``x```xnull```", "```xnull```", "```xnull``````xnull```", "```xnull```x", "```xnull````"},
            {"```", "````xnull```", "`````xnull```", "```xnull``````", "```xnull```y```"}},
        Accepting{
            "const_string", format(R"({"type":"const_string","value":"ab"})"), {"ab"}, {"", "a", "abb"}},
        Accepting{
            "json_schema",
            format(
                R"({"type":"json_schema","json_schema":{"type":"boolean"},"style":"json","any_order":false})"),
            {"true", "false"},
            {"", "null"}},
        Accepting{"regex",
                  format(R"({"type":"regex","pattern":"[a-c]{2}","excludes":[]})"),
                  {"ab", "cc"},
                  {"a", "abc", "xaby"}},
        Accepting{"grammar",
                  format(R"({"type":"grammar","grammar":"root ::= \"a\" b*\nb ::= [xy]"})"),
                  {"a", "axyx"},
                  {"", "x", "ab"}},
        Accepting{"any_text", format(R"({"type":"any_text"})"), {"", "é", "<f="}, {"\xFF", "a\xC3"}},
        Accepting{"any_text with excludes",
                  format(R"({"type":"any_text","excludes":["ab","é"]})"),
                  {"", "a", "b a", "ba", "è"},
                  {"ab", "aab", "xé"}},
        Accepting{"sequence",
                  format(R"({"type":"sequence","elements":[{"type":"const_string","value":"A"},)"
                         R"({"type":"any_text","excludes":["."]},{"type":"const_string","value":"."},)"
                         R"({"type":"any_text"}]})"),
                  {"A.", "Ax.", "A.x.y"},
                  {"", "A", "Ax", ".", "B."}},
        Accepting{"or",
                  format(R"({"type":"or","elements":[{"type":"const_string","value":"yes"},)"
                         R"({"type":"regex","pattern":"no+"}]})"),
                  {"yes", "no", "noo"},
                  {"", "yesno"}},
        Accepting{
            "optional, plus, star and repeat",
            format(R"({"type":"sequence","elements":[)"
                   R"({"type":"optional","content":{"type":"const_string","value":"a"}},)"
                   R"({"type":"plus","content":{"type":"const_string","value":"b"}},)"
                   R"({"type":"star","content":{"type":"const_string","value":"c"}},)"
                   R"({"type":"repeat","min":1,"max":2,"content":{"type":"const_string","value":"d"}},)"
                   R"({"type":"repeat","min":0,"max":-1,"content":{"type":"const_string","value":"e"}}]})"),
            {"abcd", "bd", "bbccdd", "bdee"},
            {"", "d", "b", "aabd", "bddd"}},
        Accepting{"optional free text at the end",
                  in_tag(R"({"type":"optional","content":{"type":"any_text"}})"),
                  {"<t></t>", "<t>a</t>"},
                  {"<t>", "<t>a</t></t>", "<t></t>a"}},
        Accepting{"calls before a text, exactly one",
                  format(R"({"type":"sequence","elements":[)" +
                         triggered(R"(,"at_least_one":true,"stop_after_first":true)") +
                         R"(,{"type":"any_text"}]})"),
                  {"<f=a>1</f>", "<f=a>1</f>y<f="},
                  {"", "x<f=a>1</f>"}},
        Accepting{
            "tag", in_tag(R"({"type":"regex","pattern":"[a-z]+"})"), {"<t>ab</t>"}, {"", "<t></t>", "<t>ab"}},
        Accepting{"tag of free text",
                  in_tag(R"({"type":"any_text"})"),
                  {"<t></t>", "<t>a</t </T></t>", "<t><t></t>"},
                  {"<t>", "<t></t>x", "<t></t></t>", "<t>\xC3</t>"}},
        Accepting{"tag of free text with an end that overlaps itself",
                  in_tag(R"({"type":"any_text"})", R"("aba")"),
                  {"<t>aba", "<t>aaba", "<t>abbaba"},
                  {"<t>ababa", "<t>ab", "<t>abaa"}},
        Accepting{"tag with several ends",
                  in_tag(R"({"type":"any_text","excludes":["x"]})", R"(["</t>","</u>"])"),
                  {"<t>a</t>", "<t></u>"},
                  {"<t>x</t>", "<t></u></t>", "<t></v>"}},
        Accepting{"tag without an end",
                  in_tag(R"({"type":"json_schema","json_schema":{"type":"boolean"}})", R"("")"),
                  {"<t>true"},
                  {"<t>", "<t>true</t>"}},
        Accepting{"tag of alternatives",
                  in_tag(R"({"type":"or","elements":[{"type":"any_text"},)" + triggered() +
                         R"(,{"type":"const_string","value":"</t>"}]})"),
                  {"<t></t>", "<t></t></t>", "<t><f=</t>", "<t><f=a>1</f></t>"},
                  {"<t></t></t></t>", "<t>"}},
        Accepting{
            "triggered_tags", format(triggered()), {"", "x<f=a>1</f>y<f=a>2</f>"}, {"<f=", "<f=a>x</f>"}},
        Accepting{"triggered_tags, at least one",
                  format(triggered(R"(,"at_least_one":true)")),
                  {"<f=a>1</f>", "<f=a>1</f>y<f=a>2</f>z"},
                  {"", "x", "x<f=a>1</f>"}},
        Accepting{"triggered_tags, at most one",
                  format(triggered(R"(,"stop_after_first":true)")),
                  {"", "x", "x<f=a>1</f>"},
                  {"<f=a>1</f>y", "<f=a>1</f><f=a>1</f>"}},
        Accepting{"triggered_tags, exactly one",
                  format(triggered(R"(,"at_least_one":true,"stop_after_first":true)")),
                  {"<f=a>1</f>"},
                  {"", "x<f=a>1</f>", "<f=a>1</f>y"}},
        Accepting{"triggered_tags with excludes",
                  format(triggered(R"(,"excludes":["<g"])")),
                  {"a<", "<f=a>1</f>a"},
                  {"<g", "a<g<f=a>1</f>", "<f=a>1</f><g"}},
        Accepting{"triggered_tags in a tag",
                  in_tag(triggered()),
                  {"<t></t>", "<t>x<f=a>1</f>y</t>", "<t></f></t>"},
                  {"<t>", "<t></t>y", "<t></t><f=a>1</f></t>", "<t><f=a>1</t>"}},
        Accepting{"triggered_tags in a tag, at most one",
                  in_tag(triggered(R"(,"stop_after_first":true)")),
                  {"<t>x</t>", "<t>x<f=a>1</f></t>"},
                  {"<t>x", "<t>x<f=a>1</f>", "<t><f=a>1</f>y</t>"}},
        Accepting{"triggered_tags in a tag, exactly one",
                  in_tag(triggered(R"(,"at_least_one":true,"stop_after_first":true)"), R"(["</t>",""])"),
                  {"<t><f=a>1</f></t>", "<t><f=a>1</f>"},
                  {"<t></t>", "<t>x<f=a>1</f></t>"}},
        Accepting{"tags_with_separator",
                  format(R"({"type":"tags_with_separator","separator":", ","tags":[)" + kCall + "]}"),
                  {"", "<f=a>1</f>", "<f=a>1</f>, <f=a>2</f>"},
                  {"<f=a>1</f>,", "<f=a>1</f><f=a>2</f>", "x"}},
        Accepting{"tags_with_separator, exactly one",
                  format(R"({"type":"tags_with_separator","separator":",","at_least_one":true,)"
                         R"("stop_after_first":true,"tags":[)" +
                         kCall + "]}"),
                  {"<f=a>1</f>"},
                  {"", "<f=a>1</f>,<f=a>2</f>"}},
        Accepting{"tags_with_separator in a tag",
                  in_tag(R"({"type":"tags_with_separator","separator":"","at_least_one":true,"tags":[)" +
                         kCall + "]}"),
                  {"<t><f=a>1</f><f=a>2</f></t>"},
                  {"<t></t>", "<t><f=a>1</f>"}},
        Accepting{
            "reasoning before calls",
            format(R"({"type":"sequence","elements":[)"
                   R"({"type":"tag","begin":"<think>","content":{"type":"any_text"},"end":"</think>"},)" +
                   triggered() + "]}"),
            {"<think>a <f= b</think>", "<think></think>x<f=a>1</f>"},
            {"x", "<think></think><f="}}),
    [](const auto& one) {
      std::string name = one.param.name;
      std::ranges::replace_if(
          name, [](char c) { return c == ' ' || c == ','; }, '_');
      return name;
    });

struct Wrong {
  const char* name;
  std::string tag;
  ErrorCode code;
  const char* where;
};
void PrintTo(const Wrong& one, std::ostream* out) {
  *out << one.name;
}
class StructuralTagErrors : public testing::TestWithParam<Wrong> {};

TEST_P(StructuralTagErrors, NameThePlace) {
  const auto grammar = made_of(GetParam().tag);
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().code, GetParam().code) << grammar.error().message;
  EXPECT_EQ(grammar.error().where, GetParam().where) << grammar.error().message;
  EXPECT_TRUE(is_utf8(grammar.error().message) && !grammar.error().message.empty());
}

std::string structures(const std::string& all, const std::string& triggers = R"(["<f="])") {
  return R"({"structures":[)" + all + R"(],"triggers":)" + triggers + "}";
}
const std::string kOne = R"({"begin":"<f=a>","schema":{},"end":"</f>"})";

INSTANTIATE_TEST_SUITE_P(
    Errors, StructuralTagErrors,
    testing::Values(
        Wrong{"neither_form", R"({"type":"structural_tag"})", ErrorCode::invalid_value, ""},
        Wrong{"both_forms", R"({"format":{},"triggers":[]})", ErrorCode::invalid_value, ""},
        Wrong{"other_type", R"({"type":"tag","format":{}})", ErrorCode::invalid_value, "/type"},
        Wrong{"unknown_member", R"({"form":{}})", ErrorCode::unsupported_feature, ""},
        Wrong{"no_structure", structures(""), ErrorCode::invalid_value, "/structures"},
        Wrong{"no_trigger", structures(kOne, "[]"), ErrorCode::invalid_value, "/triggers"},
        Wrong{"triggers_absent", R"({"structures":[)" + kOne + "]}", ErrorCode::invalid_value, ""},
        Wrong{"empty_trigger", structures(kOne, R"(["<f=",""])"), ErrorCode::invalid_value, "/triggers/1"},
        Wrong{"trigger_of_no_begin", structures(kOne, R"(["<f=","<g="])"), ErrorCode::invalid_value,
              "/triggers/1"},
        Wrong{"begin_without_trigger", structures(kOne + R"(,{"begin":"<g=a>","schema":{},"end":""})"),
              ErrorCode::invalid_value, "/structures/1/begin"},
        Wrong{"empty_begin", structures(R"({"begin":"","schema":{},"end":"x"})"), ErrorCode::invalid_value,
              "/structures/0/begin"},
        Wrong{"trigger_within_another", structures(kOne, R"(["<f=","<f"])"), ErrorCode::invalid_value,
              "/triggers"},
        Wrong{"trigger_twice", structures(kOne, R"(["<f=","<f="])"), ErrorCode::invalid_value, "/triggers"},
        Wrong{"schema_absent", structures(R"({"begin":"<f=","end":"x"})"), ErrorCode::invalid_value,
              "/structures/0"},
        Wrong{"schema_that_is_wrong",
              structures(R"({"begin":"<f=","schema":{"items":{"type":"text"}},"end":"x"})"),
              ErrorCode::invalid_value, "/structures/0/schema/items/type"},
        Wrong{"schema_without_values", structures(R"({"begin":"<f=","schema":false,"end":"x"})"),
              ErrorCode::invalid_value, "/structures/0/schema"},
        Wrong{"end_absent", structures(R"({"begin":"<f=","schema":{}})"), ErrorCode::invalid_value,
              "/structures/0/end"},
        Wrong{"format_without_type", format("{}"), ErrorCode::invalid_value, "/format"},
        Wrong{"format_of_no_object", format("[]"), ErrorCode::invalid_value, "/format"},
        Wrong{"unknown_format", format(R"({"type":"any_txt"})"), ErrorCode::unsupported_feature,
              "/format/type"},
        Wrong{"tokens", format(R"({"type":"any_tokens"})"), ErrorCode::unsupported_feature, "/format/type"},
        Wrong{"dispatch", format(R"({"type":"dispatch","rules":[]})"), ErrorCode::unsupported_feature,
              "/format/type"},
        Wrong{"misspelt_member", format(R"({"type":"const_string","vlue":"a"})"),
              ErrorCode::unsupported_feature, "/format"},
        Wrong{"const_of_no_string", format(R"({"type":"const_string","value":1})"), ErrorCode::invalid_value,
              "/format/value"},
        Wrong{"xml_style", format(R"({"type":"json_schema","json_schema":{},"style":"qwen_xml"})"),
              ErrorCode::unsupported_feature, "/format/style"},
        Wrong{"any_order", format(R"({"type":"json_schema","json_schema":{},"any_order":true})"),
              ErrorCode::unsupported_feature, "/format/any_order"},
        Wrong{"limit_of_text", format(R"({"type":"any_text","max_tokens":5})"),
              ErrorCode::unsupported_feature, "/format/max_tokens"},
        Wrong{"pattern", format(R"({"type":"regex","pattern":"a("})"), ErrorCode::invalid_value,
              "/format/pattern"},
        Wrong{"gbnf", format(R"({"type":"grammar","grammar":"root ::= ("})"), ErrorCode::invalid_value,
              "/format/grammar"},
        Wrong{"undefined_rule", format(R"({"type":"grammar","grammar":"root ::= a"})"),
              ErrorCode::invalid_value, "/format/grammar"},
        Wrong{
            "free_text_in_the_middle",
            format(
                R"({"type":"sequence","elements":[{"type":"any_text"},{"type":"const_string","value":"a"}]})"),
            ErrorCode::unsupported_feature, "/format/elements/0"},
        Wrong{"repeated_free_text", format(R"({"type":"star","content":)" + triggered() + "}"),
              ErrorCode::unsupported_feature, "/format/content"},
        Wrong{"calls_in_the_middle",
              format(R"({"type":"sequence","elements":[)" +
                     triggered(R"(,"excludes":["."],"stop_after_first":true)") + R"(,{"type":"any_text"}]})"),
              ErrorCode::unsupported_feature, "/format/elements/0"},
        Wrong{"excluded_text_that_a_trigger_ends", format(triggered(R"(,"excludes":["x<"])")),
              ErrorCode::unsupported_feature, "/format/excludes"},
        Wrong{"excluded_text_that_begins_a_trigger", format(triggered(R"(,"excludes":["<f"])")),
              ErrorCode::unsupported_feature, "/format/excludes"},
        Wrong{"excluded_text_within_a_trigger", format(triggered(R"(,"excludes":["f"])")),
              ErrorCode::unsupported_feature, "/format/excludes"},
        Wrong{"excluded_text_that_has_a_trigger", format(triggered(R"(,"excludes":["x<f=a>"])")),
              ErrorCode::unsupported_feature, "/format/excludes"},
        Wrong{"excluded_text_that_an_end_ends", in_tag(R"({"type":"any_text","excludes":["x<"]})"),
              ErrorCode::unsupported_feature, "/format/content/excludes"},
        Wrong{"excludes_of_exactly_one",
              format(triggered(R"(,"excludes":["."],"at_least_one":true,"stop_after_first":true)")),
              ErrorCode::invalid_value, "/format/excludes"},
        Wrong{"excludes_of_a_pattern", format(R"({"type":"regex","pattern":"a","excludes":["b"]})"),
              ErrorCode::unsupported_feature, "/format/excludes"},
        Wrong{"free_text_without_an_end", in_tag(R"({"type":"any_text"})", R"("")"), ErrorCode::invalid_value,
              "/format/content"},
        Wrong{"trigger_within_the_end", in_tag(triggered(), R"("<f=x>")"), ErrorCode::invalid_value,
              "/format/content/triggers"},
        Wrong{"no_ends", in_tag(R"({"type":"any_text"})", "[]"), ErrorCode::invalid_value, "/format/end"},
        Wrong{"token_as_an_end", in_tag(R"({"type":"any_text"})", R"({"type":"token","token":7})"),
              ErrorCode::unsupported_feature, "/format/end"},
        Wrong{
            "tags_of_another_type",
            format(
                R"({"type":"triggered_tags","triggers":["a"],"tags":[{"type":"or","begin":"a","content":{},"end":""}]})"),
            ErrorCode::invalid_value, "/format/tags/0/type"},
        Wrong{"tag_of_no_object", format(R"({"type":"triggered_tags","triggers":["a"],"tags":["a"]})"),
              ErrorCode::invalid_value, "/format/tags/0"},
        Wrong{"flag_of_no_boolean", format(triggered(R"(,"at_least_one":1)")), ErrorCode::invalid_value,
              "/format/at_least_one"},
        Wrong{"wrong_counts",
              format(R"({"type":"repeat","min":3,"max":2,"content":{"type":"const_string","value":"a"}})"),
              ErrorCode::invalid_value, "/format"}),
    [](const auto& one) { return std::string(one.param.name); });

// ---- judged by the definition -----------------------------------------------------------------------------

std::string random_text(std::mt19937& random, std::size_t least, std::size_t most, std::size_t letters = 2) {
  static constexpr std::array kLetters{"a", "b", "é"};
  std::string out;
  for (std::size_t n = least + random() % (most - least + 1); n > 0; --n) out += kLetters[random() % letters];
  return out;
}
Strings random_texts(std::mt19937& random, std::size_t count, std::size_t least, std::size_t most) {
  Strings out;
  for (; count > 0; --count) out.push_back(random_text(random, least, most, 3));
  return out;
}

struct Called {
  std::string begin;
  Strings ends;
};

// Free text with calls in it; the document of a call is 1.
struct FreeTextWithCalls {
  std::vector<Called> tags = {};
  Strings triggers = {}, excludes = {};
  bool at_least_one = false, stop_after_first = false;
  Strings ends = {};  // of the tag around it; none where it is in no tag

  // The definition: reads `text` from the left.
  bool is_answer(std::string_view text) const { return at_least_one ? any_call(text, "") : is_free(text); }

 private:
  bool is_end(std::string_view text) const {
    return ends.empty() ? text.empty() : std::ranges::find(ends, text) != ends.end();
  }
  bool is_free(std::string_view text) const {
    for (std::size_t end = 0; end <= text.size(); ++end) {
      const std::string_view read = text.substr(0, end);
      for (const auto& exclude : excludes)
        if (read.ends_with(exclude)) return false;
      for (const auto& stop : ends)
        if (read.ends_with(stop)) return end == text.size();
      for (const auto& trigger : triggers)
        if (read.ends_with(trigger)) return any_call(text.substr(end - trigger.size()), trigger);
    }
    return ends.empty();
  }
  bool any_call(std::string_view text, std::string_view trigger) const {
    for (const Called& tag : tags)
      for (const auto& end : tag.ends)
        if (const std::string call = tag.begin + "1" + end;
            call.starts_with(trigger) && text.starts_with(call))
          if (const auto rest = text.substr(call.size()); stop_after_first ? is_end(rest) : is_free(rest))
            return true;
    return false;
  }
};

std::string array_of(const Strings& texts) {
  std::string out;
  for (const auto& text : texts) out += (out.empty() ? "\"" : ",\"") + text + "\"";
  return "[" + out + "]";
}

Strings words_up_to(std::size_t longest, const Strings& letters) {
  Strings out{""};
  for (std::size_t length = 0, from = 0; length < longest; ++length)
    for (const std::size_t to = out.size(); from < to; ++from)
      for (const auto& letter : letters) out.push_back(out[from] + letter);
  return out;
}

TEST(StructuralTag, ShortWordsOfRandomTagsAreThoseOfTheDefinition) {
  std::mt19937 random(3);
  const Strings words = words_up_to(7, {"a", "b", "1"});
  int made = 0, accepted = 0;
  for (int round = 0; round < 400 && made < 60; ++round) {
    FreeTextWithCalls one;
    for (std::size_t n = 1 + random() % 2; n > 0; --n) one.triggers.push_back(random_text(random, 1, 3));
    std::string listed;
    for (const auto& trigger : one.triggers)
      for (std::size_t n = 1 + random() % 2; n > 0; --n)
        one.tags.push_back({trigger + random_text(random, 0, 2), {random_text(random, 0, 2)}});
    for (const auto& tag : one.tags)
      listed += (listed.empty() ? "" : ",") +
                (R"({"begin":")" + tag.begin + R"(","schema":{"const":1},"end":")" + tag.ends[0] + R"("})");
    const std::string tag = structures(listed, array_of(one.triggers));
    const auto grammar = made_of(tag);
    if (!grammar) {
      EXPECT_EQ(grammar.error().where, "/triggers") << tag << grammar.error().message;
      continue;
    }
    ++made;
    for (const auto& word : words) {
      const bool is_word = one.is_answer(word);
      accepted += is_word;
      ASSERT_EQ(takes(*grammar, word), is_word) << tag << " " << word;
    }
  }
  EXPECT_EQ(made, 60);
  EXPECT_GT(accepted, 10'000);
}

// Every member of triggered_tags, alone, in a tag with ends, behind a text and before one.
TEST(StructuralTag, ShortWordsOfRandomTriggeredTagsAreThoseOfTheDefinition) {
  std::mt19937 random(7);
  const Strings words = words_up_to(6, {"a", "b", "é", "1"});
  int made = 0, with_excludes = 0, in_a_tag = 0, accepted = 0;
  for (int round = 0; round < 4'000 && made < 150; ++round) {
    FreeTextWithCalls one;
    one.triggers = random_texts(random, 1 + random() % 2, 1, 2);
    std::string listed;
    for (const auto& trigger : one.triggers) {
      one.tags.push_back(
          {trigger + random_text(random, 0, 1, 3), random_texts(random, 1 + random() % 2, 0, 2)});
      listed += (listed.empty() ? "" : ",") + (R"({"begin":")" + one.tags.back().begin +
                                               R"(","content":{"type":"const_string","value":"1"},"end":)" +
                                               array_of(one.tags.back().ends) + "}");
    }
    if (random() % 2 == 0) one.excludes = random_texts(random, 1 + random() % 2, 1, 3);
    one.at_least_one = random() % 3 == 0;
    one.stop_after_first = random() % 3 == 0;
    if (random() % 2 == 0) one.ends = random_texts(random, 1 + random() % 2, 1, 2);
    enum class Within { alone, behind, before } within = Within{static_cast<int>(random() % 3)};
    std::string of = R"({"type":"triggered_tags","triggers":)" + array_of(one.triggers) + R"(,"tags":[)" +
                     listed + R"(],"excludes":)" + array_of(one.excludes) + R"(,"at_least_one":)" +
                     (one.at_least_one ? "true" : "false") + R"(,"stop_after_first":)" +
                     (one.stop_after_first ? "true" : "false") + "}";
    if (within == Within::behind)
      of = R"({"type":"sequence","elements":[{"type":"const_string","value":"a"},)" + of + "]}";
    if (within == Within::before)
      of = R"({"type":"sequence","elements":[)" + of + R"(,{"type":"any_text"}]})";
    if (!one.ends.empty())
      of = R"({"type":"tag","begin":"1","content":)" + of + R"(,"end":)" + array_of(one.ends) + "}";
    const auto grammar = made_of(format(of));
    if (!grammar) {
      EXPECT_TRUE(grammar.error().where.starts_with("/format")) << of << grammar.error().message;
      continue;
    }
    ++made;
    with_excludes += !one.excludes.empty();
    in_a_tag += !one.ends.empty();
    FreeTextWithCalls first = one;  // what an any_text follows
    first.ends = {};
    const FreeTextWithCalls rest{.ends = one.ends};
    const auto is_answer = [&](std::string_view word) {
      const auto skip = [&](std::string_view begin) {
        const bool is_there = word.starts_with(begin);
        if (is_there) word.remove_prefix(begin.size());
        return is_there;
      };
      if (!one.ends.empty() && !skip("1")) return false;
      if (within == Within::behind && !skip("a")) return false;
      if (within != Within::before) return one.is_answer(word);
      for (std::size_t i = 0; i <= word.size(); ++i)
        if (first.is_answer(word.substr(0, i)) && rest.is_answer(word.substr(i))) {
          // No trigger begins in free text and ends in what follows it.
          return first.at_least_one && first.stop_after_first;
        }
      return false;
    };
    for (const auto& word : words) {
      const bool is_word = is_answer(word);
      accepted += is_word;
      ASSERT_EQ(takes(*grammar, word), is_word) << of << " " << word;
    }
  }
  EXPECT_EQ(made, 150);
  EXPECT_GT(with_excludes, 15);
  EXPECT_GT(in_a_tag, 30);
  EXPECT_GT(accepted, 20'000);
}

TEST(StringSearch, TextsAreThoseOfTheDefinition) {
  std::mt19937 random(5);
  const Strings words = words_up_to(7, {"a", "b", "1"});
  Fuel fuel(1'000'000'000);
  for (int round = 0; round < 200; ++round) {
    Strings strings;
    for (std::size_t n = 1 + random() % 4; n > 0; --n) strings.push_back(random_text(random, 1, 4));
    const auto search = StringSearch::of(strings, {&fuel}).value();
    const auto holds = [&](std::string_view text) {
      return std::ranges::any_of(strings, [&](const auto& s) { return text.find(s) != text.npos; });
    };
    for (std::size_t i = 0; i < strings.size(); ++i) {
      bool expected = false;
      for (std::size_t j = 0; j < strings.size(); ++j)
        expected |=
            i != j && strings[i].find(strings[j]) != std::string::npos && (strings[i] != strings[j] || j > i);
      EXPECT_EQ(search.within(i).has_value(), expected) << strings[i];
    }
    const Dfa without = search.texts_without({&fuel}).value(), up_to = search.texts_up_to({&fuel}).value();
    for (const auto& word : words) {
      ASSERT_EQ(without.accepts(word), !holds(word)) << word;
      bool meets = holds(word);
      for (std::size_t from = 0; from < word.size(); ++from)
        meets |=
            std::ranges::any_of(strings, [&](const auto& s) { return s.starts_with(word.substr(from)); });
      ASSERT_EQ(search.meets(word), meets) << word;
      ASSERT_EQ(up_to.accepts(word), holds(word) && !holds(word.substr(0, word.size() - 1))) << word;
    }
  }
}

TEST(StructuralTag, RandomWordsAreText) {
  const auto grammar = made_of(format(triggered()));
  ASSERT_TRUE(grammar);
  Sampler sampler(*grammar);
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::string word = sampler.word(random, 40);
    EXPECT_TRUE(is_utf8(word)) << word;
    EXPECT_TRUE(takes(*grammar, word)) << word;
  }
}

// ---- bounds -----------------------------------------------------------------------------------------------

std::string many(std::size_t n, const std::function<std::string(std::size_t)>& each) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += (i > 0 ? "," : "") + each(i);
  return out;
}

TEST(StructuralTag, AHundredToolsAreServed) {
  const std::string tools = many(100, [](std::size_t i) {
    return R"({"begin":"<function=tool_)" + std::to_string(i) +
           R"(>","schema":{"type":"object","properties":{"query":{"type":"string"},"count":{"type":"integer"},"key_)" +
           std::to_string(i) +
           R"(":{"type":"string"}},"required":["query"],"additionalProperties":false},"end":"</function>"})";
  });
  EXPECT_TRUE(made_of(structures(tools, R"(["<function="])")));
  // A trigger for each tool.
  const std::string triggers =
      many(100, [](std::size_t i) { return "\"<function=tool_" + std::to_string(i) + ">\""; });
  EXPECT_TRUE(made_of(structures(tools, "[" + triggers + "]")));
}

struct Costly {
  const char* name;
  std::function<std::string()> tag;
};
void PrintTo(const Costly& one, std::ostream* out) {
  *out << one.name;
}
class CostlyStructuralTags : public testing::TestWithParam<Costly> {};

TEST_P(CostlyStructuralTags, AreRefusedWithinTheFuel) {
  const auto grammar = made_of(GetParam().tag());
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().code, ErrorCode::unsupported_value) << grammar.error().message;
  EXPECT_FALSE(grammar.error().where.empty());
  EXPECT_LT(grammar.error().message.size(), 600U);
}

std::string distinct_schema(std::size_t i) {
  return R"({"properties":{"a)" + std::to_string(i) + R"(":{}}})";
}

INSTANTIATE_TEST_SUITE_P(
    Costly, CostlyStructuralTags,
    testing::Values(
        Costly{"ten_thousand_schemas",
               [] {
                 return structures(many(10'000, [](std::size_t i) {
                   return R"({"begin":"<f=)" + std::to_string(i) + R"(>","schema":)" + distinct_schema(i) +
                          R"(,"end":"x"})";
                 }));
               }},
        Costly{"trigger_of_a_megabyte",
               [] {
                 const std::string trigger(1'000'000, 'x');
                 return structures(R"({"begin":")" + trigger + R"(","schema":{},"end":""})",
                                   "[\"" + trigger + "\"]");
               }},
        Costly{"many_long_triggers",
               [] {
                 const auto trigger = [](std::size_t i) {
                   return std::to_string(i) + std::string(90, 'y') + ".";
                 };
                 return structures(
                     many(5'000,
                          [&](std::size_t i) {
                            return R"({"begin":")" + trigger(i) + R"(","schema":{},"end":""})";
                          }),
                     "[" + many(5'000, [&](std::size_t i) { return "\"" + trigger(i) + "\""; }) + "]");
               }},
        Costly{"triggers_that_overlap",
               [] {
                 const auto trigger = [](std::size_t i) { return "a" + std::to_string(100'000 + i) + "a"; };
                 return structures(
                     many(2'000,
                          [&](std::size_t i) {
                            return R"({"begin":")" + trigger(i) + R"(","schema":{},"end":""})";
                          }),
                     "[" + many(2'000, [&](std::size_t i) { return "\"" + trigger(i) + "\""; }) + "]");
               }}),
    [](const auto& one) { return std::string(one.param.name); });

// The alternatives of a tag share its ends.
TEST(StructuralTag, ManyAlternativesOfManyEndsAreServed) {
  const std::string ends =
      "[" + many(1'500, [](std::size_t i) { return "\"</" + std::to_string(i) + ">\""; }) + "]";
  const auto tag_of = [&](std::size_t alternatives) {
    return in_tag(R"({"type":"or","elements":[)" +
                      many(alternatives,
                           [](std::size_t i) {
                             return R"({"type":"const_string","value":")" + std::to_string(i) + R"("})";
                           }) +
                      "]}",
                  ends);
  };
  const auto few = made_of(tag_of(2)), all = made_of(tag_of(110));
  ASSERT_TRUE(few && all);
  EXPECT_TRUE(takes(*all, "<t>109</1499>"));
  EXPECT_FALSE(takes(*all, "<t>109</1500>"));
  EXPECT_LT(all->memory(), 2 * few->memory());
}

TEST(StructuralTag, TriggersThatBeginOneAnotherAreRefused) {
  const auto trigger = [](std::size_t i) { return "\"" + std::string(i + 1, 'a') + "b\""; };
  const auto grammar =
      made_of(structures(R"({"begin":"ab","schema":{},"end":""})", "[" + many(500, trigger) + "]"));
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().code, ErrorCode::invalid_value);
  EXPECT_EQ(grammar.error().where, "/triggers");
}

TEST(StructuralTag, FormatsNestWithinTheDepth) {
  const auto nested = [](std::size_t n) {
    std::string out = R"({"type":"const_string","value":"a"})";
    for (std::size_t i = 0; i < n; ++i) out = R"({"type":"optional","content":)" + out + "}";
    return format(out);
  };
  const Limits limits{.depth = 8};
  EXPECT_TRUE(made_of(nested(7), limits));
  const auto deep = made_of(nested(8), limits);
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().code, ErrorCode::unsupported_value);
}

TEST(StructuralTag, AGrammarWithinTheMemoryIsServedOnly) {
  const Limits limits{.memory = 1000};
  const auto large = made_of(format(R"({"type":"regex","pattern":"[a-z]{50}"})"), limits);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::unsupported_value);
  EXPECT_EQ(large.error().where, "/format");
}

}  // namespace
}  // namespace flyball::grammar
