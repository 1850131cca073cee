// Calls that public chat templates render are read back as they were. The templates are not ours to keep:
// docs/contributing.md says how to fill the folder that FLYBALL_TEMPLATE_DIR names.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "backends/call_markers.hpp"
#include "backends/constrain/constraint.hpp"
#include "backends/constrain/matcher.hpp"
#include "backends/text/chat_form.hpp"
#include "backends/text/chat_template.hpp"
#include "daemon/api/calls/structure.hpp"
#include "tests/daemon/api/calls/parsed.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::api::calls {
namespace {

using Json = nlohmann::ordered_json;
using text::ChatTemplate;

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The tools and conversations of tests/daemon/api/calls/conversations.json.
const Json& conversations() {
  static const Json all =
      Json::parse(contents_of(FLYBALL_SOURCE_DIR "/tests/daemon/api/calls/conversations.json"));
  return all;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// The markers that end a turn, where an engine stops.
constexpr std::array<std::string_view, 17> kTurnEnds{"<|im_end|>",
                                                     "<|eot_id|>",
                                                     "<|eom_id|>",
                                                     "</s>",
                                                     "<|end|>",
                                                     "<|end_of_text|>",
                                                     "<｜end▁of▁sentence｜>",
                                                     "<|END_OF_TURN_TOKEN|>",
                                                     "<|observation|>",
                                                     "<|user|>",
                                                     "[e~[",
                                                     "<|endoftext|>",
                                                     "<|eot|>",
                                                     "<seed:eos>",
                                                     "<sep>",
                                                     "<|role_end|>",
                                                     "</assistant>"};

// The turn without its end. A turn of harmony has several messages, whose ends the parser reads.
std::string_view up_to_turn_end(std::string_view words, CallFormat format) {
  if (format == CallFormat::harmony) return trimmed(words);
  for (const std::string_view end : kTurnEnds) words = words.substr(0, words.find(end));
  return trimmed(words);
}

class PublicTemplate {
 public:
  explicit PublicTemplate(const std::string& source)
      : template_(ChatTemplate::parse(source).value()), form_(text::find_chat_form(template_)) {}

  AnswerForm answer_form() const { return template_.answer_form(); }

  struct Answer {
    AnswerForm form;
    std::string words;
  };
  // The words that the template gives a conversation's last turn; nullopt where it refuses the conversation,
  // or writes no such turn behind its own prompt.
  std::optional<Answer> answer(const Json& conversation) const {
    const bool calls = !conversation["calls"].empty();
    if (form_.splits_callers && calls && conversation.contains("text")) return std::nullopt;
    Json messages = Json::array();
    if (conversation.contains("system"))
      messages.push_back({{"role", "system"}, {"content", conversation["system"]}});
    messages.push_back({{"role", "user"}, {"content", "What is it?"}});
    const auto prompt = rendered(messages, true);
    messages.push_back(turn(conversation));
    const auto whole = rendered(messages, false);
    if (!prompt || !whole) return std::nullopt;
    Answer out{answer_form(), {}};
    out.form.in_reasoning = text::ends_in_reasoning(*prompt, out.form);
    const std::size_t begin = begin_of_turn(*prompt, *whole, out.form);
    if (begin == 0) return std::nullopt;
    out.words = up_to_turn_end(std::string_view(*whole).substr(begin), out.form.calls);
    // A model that begins within reasoning ends it, also where the template forgets it.
    if (out.form.in_reasoning && !out.words.contains(trimmed(text::reasoning_end(out.form))))
      out.words = text::reasoning_end(out.form) + out.words;
    return out;
  }

 private:
  // The turn begins there, behind the prompt, which may say less or more about reasoning than the turn does; 0:
  // they differ in more.
  static std::size_t begin_of_turn(std::string_view prompt, std::string_view whole, const AnswerForm& form) {
    if (whole.starts_with(prompt)) return prompt.size();
    std::size_t same = 0;
    while (same < whole.size() && whole[same] == prompt[same]) ++same;
    const std::size_t open = prompt.substr(0, same).rfind('<');
    if (open != std::string_view::npos && !prompt.substr(open, same - open).contains('>')) same = open;
    const auto& markers = markers_of_reasoning(form);
    for (const std::string_view marker : markers)
      if (trimmed(prompt.substr(0, same)).ends_with(marker)) same = prompt.rfind(marker, same);
    const std::string_view rest = trimmed(prompt.substr(same));
    if (rest.empty()) return same;
    for (const std::string_view marker : markers)
      if (rest.starts_with(marker)) return same;
    return 0;
  }
  static std::span<const std::string_view> markers_of_reasoning(const AnswerForm& form) {
    if (form.calls == CallFormat::command_r7b) return std::span(call_markers::kCommandR7b).first(2);
    return markers_of(form.reasoning);
  }

  static Json turn(const Json& conversation) {
    Json out{{"role", "assistant"}, {"content", conversation.value("text", "")}};
    if (conversation.contains("reasoning"))
      for (const char* name : {"reasoning_content", "reasoning", "thinking"})
        out[name] = conversation["reasoning"];
    for (const Json& call : conversation["calls"])
      out["tool_calls"].push_back({{"id", "abcdefgh" + std::to_string(out["tool_calls"].size())},
                                   {"type", "function"},
                                   {"function", call}});
    return out;
  }

  std::optional<std::string> rendered(const Json& messages, bool prompt) const {
    const auto chat = test::packed(messages.dump()), tools = test::packed(conversations()["tools"].dump());
    text::TemplateInput input;
    input.messages = chat.view();
    input.tools = tools.view();
    input.bos_token = "<s>";
    input.eos_token = "</s>";
    input.form = form_;
    input.add_generation_prompt = prompt;
    auto out = template_.render(input);
    if (!out) return std::nullopt;
    return std::move(out->text);
  }

  ChatTemplate template_;
  text::ChatForm form_;
};

struct Family {
  std::string_view file;  // of llama.cpp's models/templates, without ".jinja"
  CallFormat format;
  std::size_t most_calls = SIZE_MAX;  // that the template writes into one turn
  // It spells calls as our constraints do not: with ids, as a bare object, or with other white space.
  bool own_words = false;
};
// Templates of Granite 3, of GLM-4 and of models that write bare JSON render no calls.
constexpr Family kFamilies[] = {
    {.file = "Bielik-11B-v3.0-Instruct", .format = CallFormat::hermes},
    {.file = "ibm-granite-granite-4.0", .format = CallFormat::hermes},
    {.file = "ibm-granite-granite-4.1", .format = CallFormat::hermes},
    {.file = "MiMo-VL", .format = CallFormat::hermes},
    {.file = "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", .format = CallFormat::hermes},
    {.file = "NousResearch-Hermes-3-Llama-3.1-8B-tool_use", .format = CallFormat::hermes},
    {.file = "Qwen-Qwen2.5-7B-Instruct", .format = CallFormat::hermes},
    {.file = "Qwen-Qwen3-0.6B", .format = CallFormat::hermes},
    {.file = "Qwen-QwQ-32B", .format = CallFormat::hermes},
    {.file = "Reka-Edge", .format = CallFormat::hermes, .own_words = true},
    {.file = "meta-llama-Llama-3.1-8B-Instruct", .format = CallFormat::llama3},
    {.file = "meta-llama-Llama-3.2-3B-Instruct", .format = CallFormat::llama3},
    {.file = "meta-llama-Llama-3.3-70B-Instruct", .format = CallFormat::llama3},
    {.file = "mistralai-Mistral-Nemo-Instruct-2407", .format = CallFormat::mistral, .own_words = true},
    {.file = "Mistral-Small-3.2-24B-Instruct-2506", .format = CallFormat::mistral_v11, .own_words = true},
    {.file = "mistralai-Ministral-3-14B-Reasoning-2512", .format = CallFormat::mistral_v11},
    {.file = "unsloth-mistral-Devstral-Small-2507", .format = CallFormat::mistral_v11},
    {.file = "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", .format = CallFormat::qwen3_coder},
    {.file = "Qwen3-Coder", .format = CallFormat::qwen3_coder},
    {.file = "Qwen3.5-4B", .format = CallFormat::qwen3_coder},
    {.file = "StepFun3.5-Flash", .format = CallFormat::qwen3_coder, .own_words = true},
    {.file = "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
     .format = CallFormat::deepseek_v3,
     .most_calls = 2,
     .own_words = true},
    {.file = "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", .format = CallFormat::deepseek_v3},
    {.file = "deepseek-ai-DeepSeek-V3.1", .format = CallFormat::deepseek_v31},
    {.file = "openai-gpt-oss-120b", .format = CallFormat::harmony, .most_calls = 1},
    {.file = "Cohere2MoE", .format = CallFormat::command_r7b},
    {.file = "CohereForAI-c4ai-command-r7b-12-2024-tool_use", .format = CallFormat::command_r7b},
    {.file = "meetkai-functionary-medium-v3.1", .format = CallFormat::functionary_v31},
    {.file = "meetkai-functionary-medium-v3.2", .format = CallFormat::functionary_v32},
    {.file = "llama-cpp-microsoft-Phi-4-mini-instruct", .format = CallFormat::phi4, .own_words = true},
    {.file = "GLM-4.6", .format = CallFormat::glm45},
    {.file = "GLM-4.7-Flash", .format = CallFormat::glm45, .own_words = true},
    {.file = "glm_4_5", .format = CallFormat::glm45, .own_words = true},
    {.file = "inclusionai-ling-3.0-flash", .format = CallFormat::glm45, .own_words = true},
    {.file = "poolside-Laguna-S-2.1", .format = CallFormat::glm45, .own_words = true},
    {.file = "poolside-Laguna-XS-2.1", .format = CallFormat::glm45},
    {.file = "poolside-Laguna-XS.2", .format = CallFormat::glm45},
    {.file = "Spark2.5", .format = CallFormat::glm45, .own_words = true},
    {.file = "moonshotai-Kimi-K2", .format = CallFormat::kimi_k2},
    {.file = "MiniMax-M2", .format = CallFormat::minimax_m2},
};

std::filesystem::path folder() {
  const char* const name = std::getenv("FLYBALL_TEMPLATE_DIR");
  return name == nullptr ? "" : name;
}

testing::Case case_of(const Json& conversation, PublicTemplate::Answer answer, std::size_t most_calls) {
  static const auto tools = testing::tools_of(conversations()["tools"].dump());
  Choice want;
  for (const char* member : {"text", "reasoning"})
    if (const std::string said = conversation.value(member, ""); answer.words.contains(said))
      (member == std::string_view("text") ? want.text : want.reasoning) = said;
  for (const Json& call : conversation["calls"])
    want.calls.push_back({"", call["name"], call["arguments"].dump(), true});
  if (want.calls.size() > most_calls) want.calls.resize(most_calls);
  // The template of gpt-oss writes text before a call as reasoning.
  if (answer.form.calls == CallFormat::harmony && !want.calls.empty() && want.reasoning.empty())
    want.reasoning = std::exchange(want.text, {});
  return {conversation["name"], answer.form, tools, std::move(answer.words), std::move(want)};
}

std::vector<testing::Case> cases_of_template(const PublicTemplate& rendering, std::size_t most_calls) {
  std::vector<testing::Case> out;
  for (const Json& conversation : conversations()["conversations"])
    if (auto answer = rendering.answer(conversation))
      out.push_back(case_of(conversation, *std::move(answer), most_calls));
  return out;
}

// The values of arguments, however they are spelled.
nlohmann::json values(const std::string& arguments) {
  return nlohmann::json::parse(arguments, nullptr, false);
}

std::string read_as(const Choice& choice) {
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const auto& call : choice.calls) calls.push_back({call.name, values(call.arguments), call.complete});
  return nlohmann::ordered_json{
      {"text", trimmed(choice.text)}, {"reasoning", trimmed(choice.reasoning)}, {"calls", calls}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Runs the check for each template of the table that the folder has.
void for_each_template(const std::function<void(const Family&, const std::vector<testing::Case>&)>& check) {
  if (folder().empty()) GTEST_SKIP() << "FLYBALL_TEMPLATE_DIR names no folder of public templates";
  std::size_t tried = 0;
  for (const Family& family : kFamilies) {
    const auto path = folder() / (std::string(family.file) + ".jinja");
    if (!std::filesystem::exists(path)) continue;
    SCOPED_TRACE(family.file);
    ++tried;
    check(family, cases_of_template(PublicTemplate(contents_of(path)), family.most_calls));
  }
  EXPECT_GT(tried, 0U) << "no file of the table is in " << folder();
}

void print_unknown_files() {
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(folder(), none))
    if (file.path().extension() == ".jinja" &&
        std::ranges::find(kFamilies, file.path().stem().string(), &Family::file) ==
            std::ranges::end(kFamilies))
      std::cout << "not in the table: " << file.path().filename().string() << "\n";
}

TEST(PublicTemplates, CallsAreReadBackAsTheyWereRendered) {
  print_unknown_files();
  for_each_template([](const Family& family, const std::vector<testing::Case>& cases) {
    EXPECT_GE(cases.size(), 30U);
    std::size_t calls = 0;
    for (const testing::Case& each : cases) {
      EXPECT_EQ(each.form.calls, family.format);
      const Choice got = testing::parsed(each, {});
      EXPECT_EQ(read_as(got), read_as(each.want)) << each.name << ": " << each.text;
      calls += got.calls.size();
    }
    EXPECT_GE(calls, 30U);
    std::cout << family.file << ": " << text::to_string(family.format) << ", " << cases.size() << " answers, "
              << calls << " calls\n";
  });
}

TEST(PublicTemplates, ItDoesNotMatterHowRenderedCallsAreCut) {
  for_each_template([](const Family&, const std::vector<testing::Case>& cases) {
    for (const testing::Case& each : cases) {
      const std::string whole = testing::shown(testing::parsed(each, {}), true);
      std::vector<std::size_t> cuts;
      for (std::size_t cut = 0; cut < each.text.size(); ++cut) cuts.push_back(cut);
      ASSERT_EQ(testing::shown(testing::parsed(each, cuts), true), whole) << each.name;
      for (const std::size_t cut : cuts)
        ASSERT_EQ(testing::shown(testing::parsed(each, {cut}), true), whole) << each.name << " at " << cut;
    }
  });
}

TEST(PublicTemplates, CallsOfABrokenOffAnswerAreTheFirstOfTheWhole) {
  for_each_template([](const Family&, const std::vector<testing::Case>& cases) {
    for (testing::Case each : cases) {
      const std::string whole = each.text;
      for (std::size_t end = 0; end < whole.size(); ++end) {
        each.text = whole.substr(0, end);
        const Choice got = testing::parsed(each, {});
        ASSERT_LE(got.calls.size(), each.want.calls.size()) << each.name << ": " << each.text;
        for (std::size_t i = 0; i < got.calls.size(); ++i) {
          ASSERT_EQ(got.calls[i].name, each.want.calls[i].name) << each.text;
          if (!got.calls[i].complete) continue;
          ASSERT_EQ(values(got.calls[i].arguments), values(each.want.calls[i].arguments)) << each.text;
        }
      }
    }
  });
}

// The calls without the reasoning before them and the token that ends the turn.
std::string constrained_part(std::string_view words, CallFormat format) {
  if (format == CallFormat::harmony) {
    // The blank belongs to the recipient, which the header of the prompt's role precedes.
    const std::size_t to = words.rfind("to=functions.");
    return " " + std::string(words.substr(to, words.find("<|call|>", to) - to));
  }
  for (const std::string_view end : {"</think>", "<|END_THINKING|>", "[/THINK]"})
    if (const std::size_t at = words.find(end); at != std::string_view::npos)
      words = words.substr(at + end.size());
  return std::string(trimmed(words));
}

TEST(PublicTemplates, ConstraintsTakeTheWordsThatTemplatesRender) {
  for_each_template([](const Family& family, const std::vector<testing::Case>& cases) {
    if (family.own_words) return;
    ToolSet set = *cases.at(0).tools;
    set.choice = ToolSet::Choice::required;
    const auto constraint = call_constraint(set, {.calls = family.format});
    ASSERT_TRUE(constraint && *constraint);
    auto program = constrain::compile((*constraint)->constraint);
    ASSERT_TRUE(program) << program.error().message;
    const auto automaton = std::make_shared<constrain::Automaton>(
        std::make_shared<const constrain::Program>(std::move(*program)));
    std::size_t taken = 0;
    for (const testing::Case& each : cases) {
      if (each.want.calls.empty() || !each.want.text.empty()) continue;
      const std::string words = constrained_part(each.text, family.format);
      // Constraints write JSON where Qwen3-Coder's template prints Python's words.
      const auto has = [&](std::string_view word) { return words.contains(word); };
      if (has("\nTrue\n") || has("\nFalse\n") || has("\nNone\n")) continue;
      constrain::Matcher at = constrain::Matcher::begin(automaton).value();
      const bool takes = at.accept(words).value() && at.can_end();
      taken += takes;
      EXPECT_TRUE(takes) << each.name << ": " << words;
    }
    EXPECT_GE(taken, 25U);
  });
}

}  // namespace
}  // namespace flyball::api::calls
