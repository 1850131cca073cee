// What templates render to, against literal results. Each construct's agreement with Jinja2 is in
// jinja_oracle.py.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/backends/text/jinja/render_helper.hpp"
#include "tests/harness/case_name.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::text {
namespace {

struct Case {
  const char* source;
  const char* expected;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.source;
}

class Renders : public testing::TestWithParam<Case> {};

TEST_P(Renders, AsJinja2Does) {
  const auto [source, expected] = GetParam();
  EXPECT_EQ(shown(render(source, R"([{"role":"user","content":"hi"}])",
                         R"({"n":7,"d":{"b":1,"items":2},"l":[3,1,2],"s":"Hello","u":"é日🦙"})")),
            expected)
      << source;
}

INSTANTIATE_TEST_SUITE_P(
    Template, Renders,
    testing::Values(
        Case{"{{ n }} {{ 1.0 }} {{ none }} {{ true }} [{{ missing }}]", "7 1.0 None True []"},
        Case{"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }}", "3 -4 2 3.5 64"},
        Case{"{{ 'a' ~ 1 ~ none }} {{ 'ab' * 2 }} {{ [1] + [2] }}", "a1None abab [1, 2]"},
        Case{"{{ 1 < 2 < 3 }} {{ 'l' in s }} {{ 5 not in l }} {{ not n }}", "True True True False"},
        Case{"{{ s[::-1] }} {{ s[1:3] }} {{ l[-1] }} {{ u[1] }} {{ u|length }}", "olleH el 2 日 3"},
        Case{"{{ d.b }} {{ d['items'] }} {{ d.items()|list }}", "1 2 [('b', 1), ('items', 2)]"},
        Case{"{{ d }} {{ ['it\\'s', 'q'] }} {{ (1,) }}", "{'b': 1, 'items': 2} [\"it's\", 'q'] (1,)"},
        Case{"{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{% if not loop.last %},{% endif %}{% else "
             "%}e{% endfor %}",
             "13,22"},
        Case{"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "b=1;items=2;"},
        Case{"{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% "
             "endif %}"
             "{{ i }}{% endfor %}",
             "023"},
        Case{"{% set a = 1 %}{% for x in l %}{% set a = a + x %}{% endfor %}{{ a }}", "1"},
        Case{"{% set ns = namespace(a=1) %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}",
             "7"},
        Case{"{% set b %}x{{ n }}{% endset %}{{ b|upper }}", "X7"},
        Case{"{% macro m(a, b='d') %}{{ a }}{{ b }}{{ varargs }}{% endmacro %}{{ m(1) }}{{ m(1, 2, 3) }}",
             "1d()12(3,)"},
        Case{"{% macro w() %}[{{ caller('x') }}]{% endmacro %}{% call(v) w() %}{{ v }}{{ n }}{% endcall %}",
             "[x7]"},
        Case{"{% filter upper %}a{{ s }}{% endfilter %}{% with q = 1 %}{{ q }}{% endwith %}[{{ q }}]",
             "AHELLO1[]"},
        Case{"{% generation %}g{% endgeneration %}{% raw %}{{ n }}{% endraw %}{# c #}", "g{{ n }}"},
        Case{"  {% if n %}\n    x\n  {% endif %}\ny\n", "    x\ny"},
        Case{"a {%- if n -%}  b  {%- endif -%} c {{- 'd' -}} e", "abcde"},
        Case{"{{ 'a' if missing else 'b' }}{{ 'x' if false }}", "b"},
        Case{"{{ d|tojson }}{{ u|tojson }}{{ [1, {}]|tojson(indent=1) }}",
             "{\"b\": 1, \"items\": 2}\"é日🦙\"[\n 1,\n {}\n]"},
        Case{"{{ ' x '|trim }}{{ l|sort|join('-') }}{{ l|map('string')|list }}{{ l|max }}",
             "x1-2-3['3', '1', '2']3"},
        Case{"{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join }}", "hi"},
        Case{"{{ 'a,b'.split(',') }}{{ s.startswith('He') }}{{ s.replace('l', 'L', 1) }}",
             "['a', 'b']TrueHeLlo"},
        Case{
            "{{ n is defined }}{{ m is defined }}{{ s is string }}{{ d is mapping }}{{ 3 is divisibleby 3 }}",
            "TrueFalseTrueTrueTrue"},
        Case{"{{ '%s-%03d' % ('a', 7) }} {{ '{} {x}'.format(1, x=2) }}", "a-007 1 2"},
        Case{"{{ bos_token }}{{ eos_token }}{{ tools is none }}{{ documents is none }}{{ "
             "add_generation_prompt }}",
             "<s></s>TrueTrueTrue"},
        Case{"{{ '<b>'|e }} {{ ('<b>'|safe) + '<' }}", "&lt;b&gt; <b>&lt;"},
        Case{"{{ strftime_now('%Y') }}", "1970"}),
    [](const auto& i) { return test::case_name(i.index, i.param.source); });

struct Failing {
  const char* source;
  const char* expected;
};

void PrintTo(const Failing& c, std::ostream* out) {
  *out << c.source;
}

class Fails : public testing::TestWithParam<Failing> {};

TEST_P(Fails, WithLineAndReason) {
  EXPECT_EQ(shown(render(GetParam().source, "[]", R"({"n":7,"d":{},"l":[1]})")), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Template, Fails,
    testing::Values(
        Failing{"\n\n{{ missing.x }}", "template_error: 'missing' is undefined (line 3)"},
        Failing{"{{ d.a.b }}", "template_error: 'dict object' has no attribute 'a' (line 1)"},
        Failing{"{{ l[3].x }}", "template_error: list object has no element 3 (line 1)"},
        Failing{"x\n{{ raise_exception('roles must alternate') }}",
                "template_error: roles must alternate (line 2)"},
        Failing{"{% if n %}\nx", "template_error: the block opened here is not closed with 'endif' (line 1)"},
        Failing{"{{ n", "template_error: a tag is not closed with '}}' (line 1)"},
        Failing{"{% endfor %}", "template_error: unknown tag 'endfor' (line 1)"},
        Failing{"a\n{{ n | nope }}", "template_error: no filter named 'nope' (line 2)"},
        Failing{"{{ n is nope }}", "template_error: no test named 'nope' (line 1)"},
        Failing{"{{ 'a' + n }}", "template_error: unsupported operand types for +: 'str' and 'int' (line 1)"},
        Failing{"{{ n / 0 }}", "template_error: division by zero (line 1)"},
        Failing{"{{ 9223372036854775807 + n }}",
                "template_error: the result of integer arithmetic is out of range (line 1)"},
        Failing{"{{ l.append(1) }}", "template_error: 'list object' has no attribute 'append' (line 1)"},
        Failing{"{{ d.__class__.__mro__ }}",
                "template_error: 'dict object' has no attribute '__class__' (line 1)"},
        Failing{"{{ n 5 }}", "template_error: expected '}}', got '5' (line 1)"},
        Failing{"{% break %}", "template_error: 'break' outside of a loop (line 1)"}),
    [](const auto& i) { return test::case_name(i.index, i.param.source); });

TEST(ChatTemplate, TellsWhichVariablesItReads) {
  const auto reads_tools = [](std::string_view source) {
    return ChatTemplate::parse(source)->reads("tools");
  };
  EXPECT_TRUE(reads_tools("{% if tools %}{{ tools | tojson }}{% endif %}"));
  EXPECT_TRUE(reads_tools("{% for tool in tools %}{{ tool }}{% endfor %}"));
  EXPECT_FALSE(
      reads_tools("{% for message in messages %}{{ message.tools }} tools {{ 'tools' }}{% endfor %}"));
}

TEST(ChatTemplate, DefaultIsChatMl) {
  EXPECT_EQ(
      shown(render(
          default_chat_template(),
          R"([{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"U"}]}])")),
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, ArgumentsMustBeAnObject) {
  const auto list = render("x", "[]", "[1]");
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, ErrorCode::invalid_json);
  EXPECT_EQ(list.error().param, "template_args");
  EXPECT_EQ(render("\xff").error().code, ErrorCode::template_error);
}

TEST(ChatTemplate, BigIntegersOfTheInputKeepTheirDigits) {
  EXPECT_EQ(shown(render("{{ messages|tojson }} {{ messages[0] }}", "[123456789012345678901234567890]")),
            "[123456789012345678901234567890] 123456789012345678901234567890");
  EXPECT_EQ(render("{{ messages[0] + 1 }}", "[123456789012345678901234567890]").error().code,
            ErrorCode::template_error);
}

TEST(ChatTemplate, OneTemplateServesManyThreads) {
  const auto parsed = ChatTemplate::parse("{% for m in messages %}{{ m.content|upper }}{% endfor %}");
  ASSERT_TRUE(parsed);
  std::vector<std::string> texts(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      threads.emplace_back([&, i] {
        TemplateInput input;
        const PackedJson messages = test::packed(R"([{"content":"t)" + std::to_string(i) + "\"}]");
        input.messages = messages.view();
        for (int k = 0; k < 50; ++k) texts[i] = parsed->render(input).value_or(Rendered{"failed", {}}).text;
      });
    }
  }
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], "T" + std::to_string(i));
}

}  // namespace
}  // namespace flyball::text
