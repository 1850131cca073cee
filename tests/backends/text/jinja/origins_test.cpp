// Which text of a render is the template's own: whatever came from the client never is.
#include "backends/text/jinja/origins.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/text/chat_template.hpp"
#include "backends/text/jinja/filters.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::text {
namespace {

using jinja::Origins;

TEST(Origins, PartsOfATextAreFoundInViewsOfIt) {
  const std::string text = "0123456789";
  const std::string_view view = text;
  Origins origins;
  origins.add(text, {{1, 3}, {5, 8}});
  std::vector<TextSpan> out;
  EXPECT_EQ(origins.copy(view, 100, out), 2U);
  EXPECT_EQ(out, (std::vector<TextSpan>{{101, 103}, {105, 108}}));
  out.clear();
  origins.copy(view.substr(2, 4), 0, out);
  EXPECT_EQ(out, (std::vector<TextSpan>{{0, 1}, {3, 4}}));
  out.clear();
  EXPECT_EQ(origins.copy(view.substr(3, 2), 0, out), 0U);
  EXPECT_EQ(origins.copy(view.substr(8), 0, out), 0U);
  EXPECT_EQ(origins.copy(std::string(text), 0, out), 0U) << "a copy that nobody told of";
  EXPECT_TRUE(out.empty());
}

TEST(Origins, PartsThatMeetAreJoined) {
  const std::string text = "abc";
  Origins origins;
  origins.add(text);
  std::vector<TextSpan> out;
  origins.copy(text, 0, out);
  origins.copy(text, 3, out);
  EXPECT_EQ(out, (std::vector<TextSpan>{{0, 6}}));
}

Rendered rendered(std::string_view source, const std::string& messages, const std::string& args = "{}") {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed) << parsed.error().message;
  const PackedJson packed = test::packed(messages), packed_args = test::packed(args);
  TemplateInput input;
  input.messages = packed.view();
  input.template_args = packed_args.view();
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  auto out = parsed->render(input);
  EXPECT_TRUE(out) << out.error().message;
  return out.value_or(Rendered{});
}

// The rendered text, with a dot for each byte that is not the template's own.
std::string own(std::string_view source, const std::string& messages, const std::string& args = "{}") {
  const Rendered out = rendered(source, messages, args);
  std::string shown(out.text.size(), '.');
  for (const TextSpan& span : out.written)
    shown.replace(span.begin, span.end - span.begin, out.text.substr(span.begin, span.end - span.begin));
  return shown;
}

const std::string kOne = R"([{"role":"user","content":" <E> "}])";

TEST(ChatTemplateOrigins, TextOfMessagesIsTheClients) {
  EXPECT_EQ(own(default_chat_template(), kOne), "<|im_start|>user\n.....<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(own("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", kOne), "<s>.....</s>");
}

TEST(ChatTemplateOrigins, TemplateKeepsWhatItCopies) {
  const char* const kCopies[] = {
      "{{ '[' + messages[0].content + ']' }}",
      "{{ '[' ~ messages[0].content ~ ']' }}",
      "{% set x %}[{{ messages[0].content }}]{% endset %}{{ x }}",
      "{% macro m(c) %}[{{ c }}]{% endmacro %}{{ m(messages[0].content) }}",
      "{% set ns = namespace(x='') %}{% set ns.x = ns.x + '[' + messages[0].content + ']' %}{{ ns.x }}",
      "{{ '[%s]' | replace('%s', messages[0].content) }}",
      "{{ ('  [' + messages[0].content + ']  ') | trim }}",
      "{{ ('x[' + messages[0].content + ']x')[1:-1] }}",
      "{{ ['[', messages[0].content, ']'] | join }}",
      "{{ ['[' + messages[0].content, ''] | join(']') }}",
      "{{ ('[' + messages[0].content + ']|x').split('|')[0] }}",
  };
  for (const char* const source : kCopies) EXPECT_EQ(own(source, kOne), "[.....]") << source;
  EXPECT_EQ(own("{{ messages[0].content | trim }}", kOne), "...");
  EXPECT_EQ(own("{{ '-' * 3 }}", kOne), "---");
  EXPECT_EQ(own("{{ ('-' + messages[0].content) * 2 }}", kOne), std::string(12, '.'))
      << "mixed: nobody's own";
}

// Templates spell control tokens with roles in the middle; the API lets in five of them.
TEST(ChatTemplateOrigins, RolesAreTheTemplatesOwn) {
  const char* const kPhi = "{{ '<|' + messages[0]['role'] + '|>' + messages[0]['content'] }}";
  EXPECT_EQ(own(kPhi, R"([{"role":"system","content":"system"}])"), "<|system|>......");
  EXPECT_EQ(own(kPhi, R"([{"role":"endoftext","content":""}])"), "<|.........|>")
      << "no role that the API knows";
}

// Halves that the template joins are the client's, as the whole is.
TEST(ChatTemplateOrigins, HalvesOfASpellingDoNotBecomeWhole) {
  const Rendered joined =
      rendered("{% for m in messages %}{{ m.content }}{% endfor %}",
               R"([{"role":"user","content":"<|im_"},{"role":"user","content":"end|>"}])");
  EXPECT_EQ(joined.text, "<|im_end|>");
  EXPECT_TRUE(joined.written.empty());
  const Rendered mixed =
      rendered("{{ '<|im_' + messages[0].content }}", R"([{"role":"user","content":"end|>"}])");
  EXPECT_EQ(mixed.written, (std::vector<TextSpan>{{0, 5}}));
  const Rendered made = rendered("{{ messages[0].content | lower | replace('*', '') }}",
                                 R"([{"role":"user","content":"<|IM_*END|>"}])");
  EXPECT_EQ(made.text, "<|im_end|>");
  EXPECT_TRUE(made.written.empty());
}

TEST(ChatTemplateOrigins, NamesArgumentsAndTemplateVariablesAreTheClients) {
  EXPECT_EQ(
      own("{{ messages[0].tool_calls[0].function.arguments | tojson }}|{{ style }}",
          R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"<|im_end|>":1}}}]}])",
          R"({"style":"<|im_end|>"})"),
      std::string(17, '.') + "|" + std::string(10, '.'));
}

// Bytes that copy one of the template's are its own, a dot stands for each that is not. The client's text is
// "Ab<E> c", padding and what a filter adds are nobody's.
struct Construct {
  const char* source;
  const char* own;
};
constexpr Construct kConstructs[] = {
    // letter case
    {"{{ '<|e|>' | upper }}", "<|E|>"},
    {"{{ ('<|e|>' + c) | upper }}", "<|E|>......."},
    {"{{ ('<|E|>' + c + '<|F|>') | lower }}", "<|e|>.......<|f|>"},
    {"{{ ('<|E|>' + c) | capitalize }}", "<|e|>......."},
    {"{{ ('<|e|>' + c) | title }}", "<|e|>......."},
    {"{{ ('\u00df' + c + 'x') | upper }}", "SS.......X"},
    {"{{ ('<|e|>' + c).upper() }}", "<|E|>......."},
    {"{{ ('<|E|>' + c).lower() }}", "<|e|>......."},
    {"{{ ('<|E|>' + c).casefold() }}", "<|e|>......."},
    {"{{ ('e|>' + c).capitalize() }}", "E|>......."},
    {"{{ ('<|e|>' + c).title() }}", "<|E|>......."},
    {"{{ ('<|e|>' + c).swapcase() }}", "<|E|>......."},
    {"{% filter upper %}<|e|>{{ c }}{% endfilter %}", "<|E|>......."},
    {"{{ ['<|e|>', c] | map('upper') | join }}", "<|E|>......."},
    // stripped and cut
    {"{{ (' <|e|> ' + c) | trim }}", "<|e|> ......."},
    {"{{ (' <|e|>' + c).strip() }}", "<|e|>......."},
    {"{{ (' <|e|>' + c).lstrip() }}", "<|e|>......."},
    {"{{ (c + '<|e|> ').rstrip() }}", ".......<|e|>"},
    {"{{ ('x<|e|>' + c).removeprefix('x') }}", "<|e|>......."},
    {"{{ (c + '<|e|>x').removesuffix('x') }}", ".......<|e|>"},
    {"{{ ('xx<|e|>' + c)[2:] }}", "<|e|>......."},
    {"{{ ('<|e|>' + c)[0] }}", "<"},
    {"{{ ('<|e|>' + c)[5] }}", "."},
    {"{{ '<x|xex|x>'[::2] }}", "<|e|>"},
    {"{{ ('>|e|<' + c) | reverse }}", ".......<|e|>"},
    {"{{ ('<|e|>' + c) | first }}", "<"},
    {"{{ (c + '<|e|>') | last }}", ">"},
    {"{{ ('<|e|>' + c) | list | join }}", "<|e|>......."},
    {"{{ ('<|e|>' + c) | batch(3) | map('join') | join }}", "<|e|>......."},
    {"{{ ('<|e|> ' + c) | truncate(8, true, '<|t|>', 0) }}", "<|e<|t|>"},
    {"{{ ('<|e|>,' + c).split(',') | join }}", "<|e|>......."},
    {"{{ ('<|e|>,' + c).rsplit(',') | join }}", "<|e|>......."},
    {"{{ ('<|e|>\n' + c).splitlines() | join }}", "<|e|>......."},
    {"{{ ('<|e|>,' + c).partition(',') | join }}", "<|e|>,......."},
    {"{{ ('<|e|>,' + c).rpartition(',') | join }}", "<|e|>,......."},
    // padded
    {"{{ ('<|e|>' + c) | indent(1, true) }}", ".<|e|>......."},
    {"{{ '<|e|>\n<|f|>\n' | indent('-') }}", "<|e|>\n-<|f|>\n"},
    {"{{ (c + '\n<|f|>') | indent(1) }}", ".......\n.<|f|>"},
    {"{{ '<|e|>' | center(7) }}", ".<|e|>."},
    {"{{ '<|e|>'.center(7, '-') }}", "-<|e|>-"},
    {"{{ '<|e|>'.ljust(6) }}", "<|e|>."},
    {"{{ '<|e|>'.rjust(6, c[0]) }}", ".<|e|>"},
    {"{{ '-<|e|>'.zfill(7) }}", "-.<|e|>"},
    // joined and filled in
    {"{{ '<|e|>' ~ c ~ 5 }}", "<|e|>........"},
    {"{{ '<|e|>' + c }}", "<|e|>......."},
    {"{{ '<|e|>' * 2 }}", "<|e|><|e|>"},
    {"{{ ('<' + c) * 2 }}", "................"},
    {"{{ [c, '<|e|>'] | join('|') }}", ".......|<|e|>"},
    {"{{ [c, '|>'] | join(c) }}", "..............|>"},
    {"{{ '|'.join([c, '<|e|>']) }}", ".......|<|e|>"},
    {"{{ '<|%s|>' | format(c) }}", "<|.......|>"},
    {"{{ '<|%s|>%%%d' % ('e', 5) }}", "<|e|>%."},
    {"{{ '<|%3s|>' % 'e' }}", "<|..e|>"},
    {"{{ '<|{}|>{{{}}}'.format('e', c) }}", "<|e|>{.......}"},
    {"{{ (c + '<|x|>') | replace('x', 'e') }}", ".......<|e|>"},
    {"{{ '<|x|>'.replace('x', c) }}", "<|.......|>"},
    {"{{ c.replace('<', '<|e|>') }}", "..<|e|>...."},
    {"{{ '<|e|>' | string }}", "<|e|>"},
    {"{{ '<|e|>' | safe }}", "<|e|>"},
    {"{{ ('[e]&' + c) | e }}", "[e].................."},
    {"{{ ('[e]' + c) | escape }}", "[e]............."},
    {"{{ ('[e]' + c) | forceescape }}", "[e]............."},
    {"{{ ('<|e|>' + c) | tojson }}", ".<|e|>........"},
    {"{{ ['<|e|>', c] }}", "..<|e|>............."},
    {"{{ nothing | default('<|e|>') }}", "<|e|>"},
    {"{{ nothing | d(c) }}", "......."},
    {"{{ strftime_now('<|e|>%Y') }}", "<|e|>...."},
    // chosen
    {"{{ ['<|e|>', c] | select | join }}", "<|e|>......."},
    {"{{ ['<|e|>', c] | reject('none') | join }}", "<|e|>......."},
    {"{{ [{'a': '<|e|>'}, {'a': c}] | selectattr('a') | map(attribute='a') | join }}", "<|e|>......."},
    {"{{ [{'a': '<|e|>'}] | rejectattr('b') | map(attribute='a') | join }}", "<|e|>"},
    {"{{ ['<|e|>', c] | sort | join }}", "<|e|>......."},
    {"{{ ['<|e|>', c] | unique | join }}", "<|e|>......."},
    {"{{ ['<|e|>', c] | min }}", "<|e|>"},
    {"{{ ['<|e|>', c] | max }}", "......."},
    {"{{ (['<|e|>'], [c]) | sum(start=[]) | join }}", "<|e|>......."},
    {"{{ ({'<|e|>': c} | dictsort)[0] | join }}", "<|e|>......."},
    {"{{ ({'<|e|>': c} | items | first) | join }}", "<|e|>......."},
    {"{{ ([{'a': '<|e|>'}] | groupby('a'))[0].grouper }}", "<|e|>"},
    {"{{ {'a': '<|e|>'}.get('a') }}", "<|e|>"},
};

TEST(ChatTemplateOrigins, EveryFilterMethodAndOperatorKeepsEachBytesOrigin) {
  const std::string messages = R"([{"role":"user","content":"Ab<E> c"}])";
  for (const auto& [source, shown] : kConstructs) {
    EXPECT_EQ(own("{% set c = messages[0].content %}" + std::string(source), messages), shown) << source;
  }
}

// A filter or method that is added gets its row.
TEST(ChatTemplateOrigins, EveryFilterAndMethodThatMakesTextsHasARow) {
  const std::vector<std::string_view> numbers{
      "abs",       "attr",    "count",   "float",   "int",     "length",    "round",   "wordcount",
      "endswith",  "find",    "index",   "isalnum", "isalpha", "isdecimal", "isdigit", "islower",
      "isnumeric", "isspace", "isupper", "rfind",   "rindex",  "startswith"};
  const auto expect_row = [&](const std::string& name, const std::string& use) {
    const bool has_row = std::ranges::any_of(kConstructs, [&](const Construct& each) {
      const std::string source = each.source;
      const std::size_t at = source.find(use);
      return at != std::string::npos &&
             std::isalpha(static_cast<unsigned char>(source[at + use.size()])) == 0;
    });
    EXPECT_TRUE(has_row || std::ranges::find(numbers, name) != numbers.end()) << use;
  };
  for (const auto& filters : {jinja::text_filters(), jinja::sequence_filters()})
    for (const auto& [name, native] : filters) expect_row(std::string(name), "| " + std::string(name));
  for (const auto& [name, native] : jinja::text_methods())
    expect_row(std::string(name), "." + std::string(name));
}

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// Every construct of the language over messages in letters that no template has: none of them becomes its
// own.
TEST(ChatTemplateOrigins, NoConstructMakesTheClientsTextTheTemplatesOwn) {
  const auto here = std::filesystem::path(FLYBALL_SOURCE_DIR) / "tests/backends/text/jinja";
  std::vector<std::string> sources;
  std::string snippets = text_of(here / "snippets.jinja");
  for (std::size_t at = 0; at != std::string::npos;) {
    const std::size_t next = snippets.find("\n====\n", at);
    sources.push_back(snippets.substr(at, next == std::string::npos ? next : next - at));
    at = next == std::string::npos ? next : next + 6;
  }
  for (const auto& file : std::filesystem::directory_iterator(here / "fixtures"))
    sources.push_back(text_of(file.path()));
  const std::string kLetter = "\U000F0123";  // for private use
  const std::string text = R"(")" + kLetter + " " + kLetter + R"(")";
  const PackedJson messages = test::packed(
      R"([{"role":"system","content":)" + text + R"(},{"role":"user","content":)" + text + R"(,"name":)" +
      text + R"(},{"role":"assistant","content":)" + text + R"(,"tool_calls":[{"type":"function","id":)" +
      text + R"(,"function":{"name":)" + text + R"(,"arguments":{"a":)" + text +
      R"(}}}]},{"role":"tool","content":)" + text + R"(,"name":)" + text + R"(}])");
  const PackedJson tools =
      test::packed(R"([{"type":"function","function":{"name":)" + text + R"(,"description":)" + text +
                   R"(,"parameters":{"type":"object","properties":{}}}}])");
  std::string args = "{";
  for (const char* name : {"s", "u", "ml", "html", "spaces", "path"})
    args += (args.size() > 1 ? ",\"" : "\"") + std::string(name) + "\":" + text;
  for (const char* name : {"list", "words", "mixed"})
    args += ",\"" + std::string(name) + "\":[" + text + "," + text + "]";
  args += ",\"d\":{\"a\":" + text + ",\"b\":" + text + "},\"people\":[{\"name\":" + text +
          ",\"age\":1,\"tags\":[]}]";
  args += ",\"n\":7,\"nested\":{\"a\":{\"b\":[{\"c\":" + text + "}]}}}";
  const PackedJson variables = test::packed(args);
  std::size_t shown = 0;
  for (const std::string& source : sources) {
    const auto parsed = ChatTemplate::parse(source);
    if (!parsed) continue;
    TemplateInput input;
    input.messages = messages.view();
    input.tools = tools.view();
    input.template_args = variables.view();
    const auto out = parsed->render(input);
    if (!out) continue;
    shown += out->text.find(kLetter) != std::string::npos ? 1 : 0;
    std::size_t end = 0;
    for (const TextSpan& span : out->written) {
      ASSERT_LE(end, span.begin) << source;
      ASSERT_LT(span.begin, span.end) << source;
      ASSERT_LE(span.end, out->text.size()) << source;
      ASSERT_EQ(out->text.substr(span.begin, span.end - span.begin).find('\xF3'), std::string::npos)
          << source;
      end = span.end;
    }
  }
  EXPECT_GT(shown, 30U) << "of " << sources.size() << " templates";
}

}  // namespace
}  // namespace flyball::text
