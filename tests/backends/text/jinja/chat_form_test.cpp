// The form of a chat that a template reads, found out, and what each form makes of one history.
#include "backends/text/chat_form.hpp"

#include <gtest/gtest.h>

#include "tests/harness/packed.hpp"

namespace flyball::text {
namespace {

using Callers = ChatForm::CallersContent;

ChatTemplate parsed_template(const std::string& source) {
  auto out = ChatTemplate::parse(source);
  EXPECT_TRUE(out) << (out ? "" : out.error().message);
  return std::move(*out);
}

Result<std::string> render_in_form(const ChatTemplate& chat_template, const std::string& messages) {
  const PackedJson packed = test::packed(messages);
  TemplateInput input;
  input.messages = packed.view();
  input.form = find_chat_form(chat_template);
  input.add_generation_prompt = false;
  auto out = chat_template.render(input);
  if (!out) return std::unexpected(out.error());
  return std::move(out->text);
}

constexpr const char* kHistory =
    R"([{"role":"user","content":"Weather?"},)"
    R"({"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function",)"
    R"("function":{"name":"w","arguments":{"city":"Paris"}}}]},)"
    R"({"role":"tool","tool_call_id":"c1","content":"sunny"}])";

struct FormCase {
  const char* name;
  std::string source;
  ChatForm form;
  const char* text;  // of kHistory
};

void PrintTo(const FormCase& c, std::ostream* out) {
  *out << c.name;
}

class ChatFormOf : public testing::TestWithParam<FormCase> {};

TEST_P(ChatFormOf, IsFoundAndUsed) {
  const FormCase& c = GetParam();
  const ChatTemplate chat_template = parsed_template(c.source);
  EXPECT_EQ(find_chat_form(chat_template), c.form);
  const auto text = render_in_form(chat_template, kHistory);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, c.text);
}

const std::string kEach = "{% for m in messages %}[{{ m.role }}]";
const std::string kEnd = "{% endfor %}";
const std::string kCalls = "{% for c in m.tool_calls or [] %}{{ c.function.name }}(";

ChatForm form(bool as_text, Callers content, std::initializer_list<ChatRole> parts = {}) {
  ChatForm out;
  out.arguments_as_text = as_text;
  out.callers_content = content;
  out.splits_callers = content != Callers::empty;
  for (const ChatRole role : parts) out.takes_parts(role) = true;
  return out;
}

const FormCase kFormCases[] = {
    {"tojson", kEach + "{{ m.content }}" + kCalls + "{{ c.function.arguments | tojson }}){% endfor %}" + kEnd,
     form(false, Callers::empty), R"([user]Weather?[assistant]w({"city": "Paris"})[tool]sunny)"},
    {"items",
     kEach + "{{ m.content }}" + kCalls +
         "{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}){% endfor %}" + kEnd,
     form(false, Callers::empty), "[user]Weather?[assistant]w(city=Paris)[tool]sunny"},
    {"text_is_concatenated",
     kEach + "{{ m.content }}" + kCalls + "{{ '' + c.function.arguments }}){% endfor %}" + kEnd,
     form(true, Callers::empty), R"([user]Weather?[assistant]w({"city": "Paris"})[tool]sunny)"},
    {"text_is_printed", kEach + "{{ m.content }}" + kCalls + "{{ c.function.arguments }}){% endfor %}" + kEnd,
     form(true, Callers::empty), R"([user]Weather?[assistant]w({"city": "Paris"})[tool]sunny)"},
    {"calls_where_content_is_none",
     kEach + "{% if m.content is none %}" + kCalls + "{{ '' + c.function.arguments }}){% endfor %}" +
         "{% else %}{{ m.content }}{% endif %}" + kEnd,
     form(true, Callers::none), R"([user]Weather?[assistant]w({"city": "Paris"})[tool]sunny)"},
    {"calls_where_there_is_no_content",
     kEach + "{% if 'content' not in m %}" + kCalls + "{{ c.function.arguments | tojson }}){% endfor %}" +
         "{% else %}{{ m.content }}{% endif %}" + kEnd,
     form(false, Callers::absent), R"([user]Weather?[assistant]w({"city": "Paris"})[tool]sunny)"},
    {"parts_alone",
     kEach + "{% for p in m.content %}{{ p.text }}{% endfor %}" + kCalls +
         "{{ c.function.arguments | tojson }}){% endfor %}" + kEnd,
     form(false, Callers::empty, {ChatRole::system, ChatRole::user, ChatRole::assistant, ChatRole::tool}),
     R"([user]Weather?[assistant]w({"city": "Paris"})[tool]sunny)"},
    {"parts_of_users_alone",
     kEach + "{% if m.role == 'user' %}{% for p in m.content %}{{ p.text }}{% endfor %}{% else %}" +
         "{{ m.content + '' }}{% endif %}" + kCalls + "{{ c.function.arguments | tojson }}){% endfor %}" +
         kEnd,
     form(false, Callers::empty, {ChatRole::user}),
     R"([user]Weather?[assistant]w({"city": "Paris"})[tool]sunny)"},
    {"string_or_parts",
     kEach + "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}" +
         "{% endfor %}{% endif %}" + kCalls + "{{ c.function.arguments | tojson }}){% endfor %}" + kEnd,
     form(false, Callers::empty), R"([user]Weather?[assistant]w({"city": "Paris"})[tool]sunny)"},
    {"no_place_for_calls", kEach + "{{ m.content }}" + kEnd, form(false, Callers::empty),
     "[user]Weather?[assistant][tool]sunny"},
    {"nothing_of_the_chat", "Hello", form(false, Callers::empty), "Hello"},
    {"chatml", std::string(default_chat_template()), form(false, Callers::empty),
     "<|im_start|>user\nWeather?<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>tool\nsunny<|im_"
     "end|>\n"},
};

INSTANTIATE_TEST_SUITE_P(Templates, ChatFormOf, testing::ValuesIn(kFormCases),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(ChatForm, JoinsTurnsThatTheTemplateRefuses) {
  const std::string alternating =
      "{% set t = namespace(user=true) %}{% for m in messages %}{% if m.role == 'system' %}"
      "{{ raise_exception('no system') }}{% elif m.role != 'tool' and not m.tool_calls %}"
      "{% if (m.role == 'user') != t.user %}{{ raise_exception('alternate') }}{% endif %}"
      "{% set t.user = not t.user %}{% endif %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
  const auto text = [&](const std::string& messages) {
    return render_in_form(parsed_template(alternating), messages).value_or("refused");
  };
  const std::string system = R"({"role":"system","content":"Be brief."})",
                    user = R"({"role":"user","content":"x"})",
                    result = R"({"role":"tool","content":"sunny"})",
                    call = R"({"role":"assistant","content":"","tool_calls":[{"function":{"name":"w",)"
                           R"("arguments":{}}}]})";
  EXPECT_EQ(text("[" + system + "," + user + "]"), "[user]Be brief.\n\nx");
  EXPECT_EQ(text("[" + system + "," + system + "," + user + "," + user + "]"),
            "[user]Be brief.\n\nBe brief.\n\nx\n\nx");
  EXPECT_EQ(text("[" + system + "]"), "[user]Be brief.");
  EXPECT_EQ(text("[" + user + "," + system + "," + user + "]"), "[user]x\n\nBe brief.\n\nx");
  EXPECT_EQ(text("[" + user + "," + call + "," + result + "," + user + "]"),
            "[user]x[assistant]w{}[tool]sunny\n\nx");
  const std::string chatml = std::string(default_chat_template());
  EXPECT_EQ(render_in_form(parsed_template(chatml), "[" + user + "," + user + "]").value_or("refused"),
            "<|im_start|>user\nx<|im_end|>\n<|im_start|>user\nx<|im_end|>\n")
      << "nothing is joined that need not be";
}

TEST(ChatForm, JoinsManyTurnsInTheirTime) {
  std::string messages = "[";
  for (int i = 0; i < 4096; ++i)
    messages += (i == 0 ? "" : ",") + (R"({"role":"user","content":")" + std::string(2000, 'x') + "\"}");
  const std::string source =
      "{% if messages | length > 1 %}{{ raise_exception('one') }}{% endif %}{{ messages[0].content }}";
  const auto text = render_in_form(parsed_template(source), messages + "]");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->size(), 4096U * 2002 - 2);
}

TEST(ChatForm, SplitsTurnsWhoseCallsWouldBeDropped) {
  const std::string history =
      R"([{"role":"user","content":"x"},{"role":"assistant","content":"Let me see.","tool_calls":[{"function":)"
      R"({"name":"w","arguments":{"a":1}}}]},{"role":"tool","content":"sunny"}])";
  const auto text = [&](const FormCase& c) {
    return render_in_form(parsed_template(c.source), history).value_or("refused");
  };
  const auto named = [](std::string_view name) {
    for (const FormCase& each : kFormCases)
      if (each.name == name) return each;
    return FormCase{};
  };
  const std::string split = R"([user]x[assistant]Let me see.[assistant]w({"a": 1})[tool]sunny)";
  EXPECT_EQ(text(named("calls_where_content_is_none")), split);
  EXPECT_EQ(text(named("calls_where_there_is_no_content")), split);
  EXPECT_EQ(text(named("tojson")), R"([user]x[assistant]Let me see.w({"a": 1})[tool]sunny)");
  const FormCase thinks{"",
                        kEach + "{{ m.reasoning_content }}{% if m.content is none %}" + kCalls +
                            "){% endfor %}{{ m.tool_calls[0].function.arguments | tojson }}{% else %}" +
                            "{{ m.content }}{% endif %}" + kEnd,
                        {},
                        ""};
  EXPECT_EQ(render_in_form(parsed_template(thinks.source),
                           R"([{"role":"assistant","reasoning_content":"Hm. ","content":"Let me see.",)"
                           R"("tool_calls":[{"function":{"name":"w","arguments":{"a":1}}}]}])")
                .value_or("refused"),
            "[assistant]Hm. Let me see.[assistant]w(){\"a\": 1}")
      << "the first turn has the reasoning";
  const auto refused = render_in_form(
      parsed_template(named("calls_where_content_is_none").source +
                      "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('') }}{% endif %}"
                      "{% if m.content == 'sunny' %}{{ raise_exception('') }}{% endif %}{% endfor %}"),
      history);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "messages[2]") << "messages are numbered as the client sent them";
}

TEST(ChatForm, IsNoneThatPrintsNull) {
  EXPECT_EQ(find_chat_form(parsed_template(kEach + "{% if m.content == '' or 'content' not in m %}" +
                                           "{{ raise_exception('no') }}{% endif %}{{ m.content }}" + kCalls +
                                           "{{ c.function.arguments | tojson }}){% endfor %}" + kEnd)),
            ChatForm{});
}

TEST(ChatForm, IsPlainWhereATemplateSpendsItsBudget) {
  const auto chat_template = ChatTemplate::parse(
      "{% for p in messages[0].content %}{{ p.text }}{% endfor %}{% for i in range(100000) %}{% endfor %}",
      {.fuel = 50'000});
  ASSERT_TRUE(chat_template);
  EXPECT_EQ(find_chat_form(*chat_template), ChatForm{});
}

// Text that a call brought along is the client's in every form.
TEST(ChatForm, WhatAClientWroteStaysItsOwn) {
  const ChatTemplate chat_template = parsed_template(kFormCases[3].source);
  const PackedJson packed = test::packed(
      R"([{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[{"function":)"
      R"({"name":"w","arguments":{"city":"[tool]"}}}]}])");
  TemplateInput input;
  input.messages = packed.view();
  input.form = find_chat_form(chat_template);
  const auto out = chat_template.render(input);
  ASSERT_TRUE(out);
  const std::size_t from = out->text.find("[tool]");
  ASSERT_NE(from, std::string::npos);
  for (const TextSpan& span : out->written) EXPECT_TRUE(span.end <= from || span.begin >= from + 6);
}

TEST(ChatTemplateErrors, NameTheMessage) {
  const auto param = [](const std::string& source) {
    const auto text = render_in_form(parsed_template(source), kHistory);
    EXPECT_FALSE(text) << source;
    return text ? std::string() : text.error().param;
  };
  const std::string raise = "{{ raise_exception('no') }}";
  EXPECT_EQ(param("{% for m in messages %}{% if m.role == 'tool' %}" + raise + "{% endif %}{% endfor %}"),
            "messages[2]");
  EXPECT_EQ(param("{% for m in messages[1:] %}" + raise + "{% endfor %}"), "messages[1]");
  EXPECT_EQ(param("{% for m in messages if m.role == 'tool' %}{% for c in [{}] %}" + raise +
                  "{% endfor %}{% endfor %}"),
            "messages[2]");
  EXPECT_EQ(param("{% macro f(m) %}{% for k in m %}{% if m.tool_calls %}" + raise +
                  "{% endif %}{% endfor %}{% endmacro %}{% for m in messages %}{{ f(m) }}{% endfor %}"),
            "messages[1]");
  EXPECT_EQ(param("{% for m in messages %}{% endfor %}" + raise), "messages");
  EXPECT_EQ(param("{{ messages[1].content.x.y }}"), "messages");
}

}  // namespace
}  // namespace flyball::text
