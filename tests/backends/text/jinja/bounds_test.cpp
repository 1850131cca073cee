// Templates and inputs are untrusted: whatever they ask for ends soon, in little memory and little stack.
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <functional>

#include "tests/backends/text/jinja/render_helper.hpp"
#include "tests/harness/case_name.hpp"
#include "tests/harness/cpu_time.hpp"

namespace flyball::text {
namespace {

ErrorCode code_of(const Result<std::string>& result) {
  return result ? ErrorCode::internal : result.error().code;
}

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// As a small worker's thread has it.
void on_small_stack(const std::function<void()>& body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, std::size_t{1} << 20), 0);
  pthread_t thread{};
  const auto entry = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, entry, const_cast<std::function<void()>*>(&body)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

class Bounded : public testing::TestWithParam<const char*> {};

TEST_P(Bounded, EndsWithTemplateBudget) {
  const auto start = test::cpu_time();
  EXPECT_EQ(code_of(render(GetParam())), ErrorCode::template_budget) << GetParam();
  // Without its price each of these takes hours; with it a second, or ten under a sanitizer on a busy machine.
  EXPECT_LT(test::cpu_time() - start, std::chrono::seconds(60));
}

INSTANTIATE_TEST_SUITE_P(
    Template, Bounded,
    testing::Values(
        "{% for a in range(999) %}{% for b in range(999) %}{% for c in range(999) %}{% endfor %}{% endfor "
        "%}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ "
        "ns.s }}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "{{ 'x' * 999999999 }}", "{{ 999999999999 * 'abc' }}", "{{ [1] * 999999999 }}",
        "{{ 'x'|center(999999999) }}", "{{ 'x'.ljust(999999999) }}", "{{ 'a\nb'|indent(999999999) }}",
        "{{ [1]|tojson(indent=999999999) }}", "{{ '%999999999d' % 1 }}", "{{ '7'.zfill(999999999) }}",
        "{{ [1]|batch(999999999, 0)|list }}", "{{ ('x' * 100000)|replace('x', 'y' * 100000) }}",
        "{{ ('x' * 100000)|list|join('y' * 100000) }}",
        "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
        "{% macro m(a) %}{{ m(a) }}{% endmacro %}{{ m(1) }}",
        "{% macro m() %}{% for i in [1] %}{% if 1 %}{{ [m()] }}{% endif %}{% endfor %}{% endmacro %}{{ m() "
        "}}",
        "{% for i in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
        "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a "
        "}}",
        "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}{% set ns.a = [ns.a] %}{% endfor %}{{ "
        "ns.a|tojson }}",
        "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ "
        "ns.a }}",
        "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
        "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
        "{% set l = range(90000)|list %}{% for i in l %}{% if i in l %}{% endif %}{% endfor %}",
        "{% set ns = namespace(d={}) %}{% for i in range(99999) %}{% set ns.d = dict(ns.d, x=1) %}"
        "{% set ns.d = dict(ns.d.items()|list + [(i, 1)]) %}{% endfor %}",
        // What reads much and writes little is paid for by what it reads.
        "{% set s='a'*4000000 %}{% for i in range(90000) %}{% set x=s|int %}{% endfor %}",
        "{% set s='a'*4000000 %}{% for i in range(90000) %}{% set x=s|float %}{% endfor %}",
        "{% set s='a'*4000000 %}{% for i in range(90000) %}{% set x='b'|truncate(5000000,end=s) %}{% endfor "
        "%}",
        "{% set s='a'*4000000 %}{% for i in range(90000) %}{% set x=s.count('') %}{% endfor %}",
        "{% set s='{'~'a'*4000000~'}' %}{% set d={'a'*4000000:1} %}{% for i in range(90000) %}"
        "{% set x=s.format(**d) %}{% endfor %}",
        "{% set k='a'*4000000 %}{% set s='%('~k~')s' %}{% set d={k:1} %}{% for i in range(90000) %}"
        "{% set x=s%d %}{% endfor %}",
        "{% set k='a'*4000000 %}{% set d={k~'b':1,k~'c':1} %}{% set q=k~'d' %}{% for i in range(90000) %}"
        "{% set x=d[q] %}{% endfor %}",
        "{% set l=[0]*500000 %}{% for i in range(90000) %}{% set x=l|sum %}{% endfor %}",
        "{% set l=['']*500000 %}{% for i in range(90000) %}{% set x=''.join(l) %}{% endfor %}",
        "{% set p='0'*4000000~'x' %}{% set l=[{}]*90000 %}{% set x=l|map(attribute=p)|list %}",
        "{% set e=[]|select %}{% set a=[0]*300000 %}{% set l=[e]*90000 %}"
        "{% set x=l|map('select','eq',*a)|list %}"),
    [](const auto& i) { return test::case_name(i.index, i.param); });

// Many names in one scope, and many keywords for many parameters.
TEST(TemplateBounds, NamesAreLookedUpAtTheirPrice) {
  std::string sets, parameters, entries;
  for (int i = 0; i < 9000; ++i) {
    const std::string n = std::to_string(i);
    sets += "{%set a" + n + "=1%}";
    parameters += (i == 0 ? "a" : ",a") + n;
    entries += (i == 0 ? "k" : ",k") + n + "=1";
  }
  EXPECT_EQ(code_of(render("{% for i in range(99999) %}" + sets + "{% endfor %}")),
            ErrorCode::template_budget);
  EXPECT_EQ(code_of(render("{% macro m(" + parameters + ") %}{{ kwargs }}{% endmacro %}{{ m(**dict(" +
                           entries + ")) }}")),
            ErrorCode::template_budget);
}

// A name of n parts was once kept n times over.
TEST(TemplateBounds, ALongDottedFilterNameTakesItsOwnLength) {
  EXPECT_EQ(shown(render("{% if 0 %}{{ 1|a" + repeated(".a", 100000) + " }}{% endif %}y")), "y");
}

TEST(TemplateBounds, MessagesAreShort) {
  const auto raised = render("{{ raise_exception('é' * 100000) }}");
  ASSERT_FALSE(raised);
  EXPECT_EQ(raised.error().message, repeated("é", 500) + "...");
}

// Undefined behaviour once: results beyond 64 bits.
TEST(TemplateBounds, IntegersBeyondTheirRange) {
  EXPECT_EQ(code_of(render("{{ 9223372036854775807|round(-1) }}")), ErrorCode::template_error);
  EXPECT_EQ(code_of(render("{{ 9223372036854775807|round(-19) }}")), ErrorCode::template_error);
  EXPECT_EQ(shown(render("{{ 1234|round(-2) }}")), "1200");
  EXPECT_EQ(shown(render("{{ range(9223372036854775806, 9223372036854775807, 5)[:1]|list }}")),
            "[9223372036854775806]");
}

TEST(TemplateBounds, NestingOfTheSource) {
  on_small_stack([] {
    for (const auto& [open, close] : {std::pair<std::string, std::string>{"(", ")"},
                                      {"[", "]"},
                                      {"{'a':", "}"},
                                      {"-", ""},
                                      {"not ", ""},
                                      {"range(", ")"},
                                      {"'a'|default(", ")"},
                                      {"1 if 1 else ", ""}}) {
      EXPECT_EQ(code_of(render("{{ " + repeated(open, 5000) + "1" + repeated(close, 5000) + " }}")),
                ErrorCode::template_budget)
          << open;
    }
    for (const auto& [open, close] : {std::pair<std::string, std::string>{"{% if 1 %}", "{% endif %}"},
                                      {"{% for a in [1] %}", "{% endfor %}"},
                                      {"{% macro m() %}", "{% endmacro %}"},
                                      {"{% set a %}", "{% endset %}"},
                                      {"{% with %}", "{% endwith %}"}}) {
      EXPECT_EQ(code_of(render(repeated(open, 5000) + "x" + repeated(close, 5000))),
                ErrorCode::template_budget)
          << open;
    }
    EXPECT_EQ(code_of(render("{% set " + repeated("(", 5000) + "a" + repeated(")", 5000) + " = 1 %}")),
              ErrorCode::template_budget);
  });
}

// Chains are no nesting: they may be long.
TEST(TemplateBounds, LongChainsRender) {
  on_small_stack([] {
    EXPECT_EQ(shown(render("{{ 0" + repeated(" + 1", 5000) + " }}")), "5000");
    EXPECT_EQ(shown(render("{{ ' x '" + repeated("|trim", 5000) + " }}")), "x");
    EXPECT_EQ(shown(render("{{ 1" + repeated(" and 1", 5000) + " }}")), "1");
    EXPECT_EQ(shown(render("{{ 'a'" + repeated(".strip()", 5000) + " }}")), "a");
    EXPECT_EQ(shown(render("{% if 0 %}" + repeated("{% elif 0 %}", 5000) + "{% else %}y{% endif %}")), "y");
  });
}

// The deepest recursion that the limits allow, in every kind of frame, on a small stack.
TEST(TemplateBounds, DeepestRecursionFitsASmallStack) {
  on_small_stack([] {
    const std::string body = repeated("{% if 1 %}{% for i in [1] %}", 12) + "{{ [{'a': (m(a)|upper,)}] }}" +
                             repeated("{% endfor %}{% endif %}", 12);
    EXPECT_EQ(code_of(render("{% macro m(a) %}" + body + "{% endmacro %}{{ m(1) }}")),
              ErrorCode::template_budget);
    EXPECT_EQ(code_of(render("{{ ['a']|map('map'" + repeated(", 'map'", 9999) + ")|list }}")),
              ErrorCode::template_budget);
    EXPECT_EQ(code_of(render("{% macro m(a=m()) %}{{ a }}{% endmacro %}{{ m() }}")),
              ErrorCode::template_budget);
    EXPECT_EQ(
        code_of(render("{% macro m() %}{{ caller() }}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}"
                       "{% call m() %}{{ m() }}{% endcall %}")),
        ErrorCode::template_error);
    const std::string nested = repeated("(", 50) + "m()" + repeated(")", 50);
    EXPECT_EQ(code_of(render("{% macro m() %}{{ [" + nested + "] }}{% endmacro %}{{ m() }}")),
              ErrorCode::template_budget);
    const std::string deep = repeated("[", 60) + "m()" + repeated("]", 60);
    EXPECT_EQ(code_of(render("{% macro m() %}{{ " + deep + " }}{% endmacro %}{{ m() }}")),
              ErrorCode::template_budget);
    const std::string filters = repeated("1|default(", 25) + "m()" + repeated(")", 25);
    EXPECT_EQ(code_of(render("{% macro m() %}{{ " + filters + " }}{% endmacro %}{{ m() }}")),
              ErrorCode::template_budget);
    const std::string calls = repeated("m(", 25) + "1" + repeated(")", 25);
    EXPECT_EQ(code_of(render("{% macro m(a) %}{{ " + calls + " }}{% endmacro %}{{ m(1) }}")),
              ErrorCode::template_budget);
    EXPECT_EQ(
        code_of(render(
            "{% set ns = namespace(a=[]) %}{% for i in range(9999) %}{% set ns.a = [ns.a] %}{% endfor %}"
            "{{ ns.a }}")),
        ErrorCode::template_budget);
  });
}

TEST(TemplateBounds, NestingOfTheInput) {
  on_small_stack([] {
    EXPECT_EQ(code_of(render("{{ messages }}", repeated("[", 100000) + repeated("]", 100000))),
              ErrorCode::json_too_deep);
    EXPECT_EQ(code_of(render("x", "[]", repeated("{\"a\":", 100000))), ErrorCode::json_too_deep);
    EXPECT_EQ(
        shown(render("{{ messages|tojson == messages|string }}", repeated("[", 60) + repeated("]", 60))),
        "True");
  });
}

TEST(TemplateBounds, OutputAndSource) {
  TemplateLimits limits;
  limits.output_bytes = 1000;
  EXPECT_EQ(shown(render("{{ 'x' * 999 }}", "[]", "", limits)).size(), 999U);
  EXPECT_EQ(code_of(render("{{ 'x' * 999 }}yy", "[]", "", limits)), ErrorCode::template_budget);
  limits.source_bytes = 10;
  EXPECT_EQ(shown(render("0123456789", "[]", "", limits)), "0123456789");
  const auto refused = render("0123456789a", "[]", "", limits);
  EXPECT_EQ(shown(refused), "template_budget: the chat template has 11 bytes, more than the limit of 10 ()");
}

TEST(TemplateBounds, ALongConversationFitsTheDefaultBudget) {
  std::string messages = "[";
  for (int i = 0; i < 2000; ++i) {
    messages += std::string(i == 0 ? "" : ",") + R"({"role":")" + (i % 2 == 0 ? "user" : "assistant") +
                R"(","content":")" + repeated("text ", 200) + "\"}";
  }
  const auto text = render(default_chat_template(), messages + "]");
  ASSERT_TRUE(text) << shown(text);
  EXPECT_GT(text->size(), 2'000'000U);
}

}  // namespace
}  // namespace flyball::text
