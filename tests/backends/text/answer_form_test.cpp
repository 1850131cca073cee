#include "backends/text/answer_form.hpp"

#include <gtest/gtest.h>

#include <string>

namespace flyball::text {
namespace {

struct KnownTemplate {
  const char* markers;  // of public templates
  CallFormat calls;
  ReasoningFormat reasoning = ReasoningFormat::none;
};
void PrintTo(const KnownTemplate& one, std::ostream* out) {
  *out << one.markers;
}

class AnswerForms : public ::testing::TestWithParam<KnownTemplate> {};

TEST_P(AnswerForms, AreFoundByTheirMarkers) {
  const AnswerForm form = find_answer_form(GetParam().markers);
  EXPECT_EQ(to_string(form.calls), to_string(GetParam().calls));
  EXPECT_EQ(to_string(form.reasoning), to_string(GetParam().reasoning));
  EXPECT_FALSE(form.in_reasoning);
}

INSTANTIATE_TEST_SUITE_P(
    Table, AnswerForms,
    ::testing::Values(
        KnownTemplate{"<|im_start|>{{ message.content }}", CallFormat::json},
        KnownTemplate{"<tool_call>\\n{\"name\": <|im_start|>", CallFormat::hermes},
        KnownTemplate{"<think> </think> <tool_call>", CallFormat::hermes, ReasoningFormat::think},
        KnownTemplate{"<|start_of_role|> <tool_call>", CallFormat::hermes},
        KnownTemplate{"<|start_header_id|>ipython<|end_header_id|> <|python_tag|>", CallFormat::llama3},
        KnownTemplate{"<|start_header_id|>ipython<|end_header_id|>", CallFormat::llama3},
        KnownTemplate{"<|header_start|>ipython<|header_end|>", CallFormat::llama3},
        KnownTemplate{"<|start_header_id|> <|python_tag|> <tool_call>", CallFormat::hermes},
        KnownTemplate{"[AVAILABLE_TOOLS] [TOOL_CALLS]", CallFormat::mistral},
        KnownTemplate{"[TOOL_CALLS] [CALL_ID] [ARGS]", CallFormat::mistral_v11},
        KnownTemplate{"[THINK] [/THINK] [TOOL_CALLS] [ARGS]", CallFormat::mistral_v11,
                      ReasoningFormat::brackets},
        KnownTemplate{"<tool_call>\\n<function= <parameter=", CallFormat::qwen3_coder},
        KnownTemplate{"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜> ```json </think>", CallFormat::deepseek_v3,
                      ReasoningFormat::think},
        KnownTemplate{"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜> <think>", CallFormat::deepseek_v31,
                      ReasoningFormat::think},
        KnownTemplate{"<|start|>assistant<|channel|>analysis<|message|>", CallFormat::harmony},
        KnownTemplate{"<|start_of_role|> <|tool_call|>", CallFormat::granite},
        KnownTemplate{"<|START_THINKING|> <|START_ACTION|>", CallFormat::command_r7b},
        KnownTemplate{"<|start_header_id|> <function=", CallFormat::functionary_v31},
        KnownTemplate{">>>all", CallFormat::functionary_v32},
        KnownTemplate{"<|tool|> <|/tool|>", CallFormat::phi4},
        KnownTemplate{"<|user|> <|observation|>", CallFormat::glm4},
        KnownTemplate{"<|observation|> <tool_call> <arg_key> <think>", CallFormat::glm45,
                      ReasoningFormat::think},
        KnownTemplate{"<|tool_calls_section_begin|>", CallFormat::kimi_k2},
        KnownTemplate{"<minimax:tool_call> <think>", CallFormat::minimax_m2, ReasoningFormat::think}),
    [](const auto& row) {
      return std::to_string(row.index) + "_" + std::string(to_string(row.param.calls));
    });

TEST(AnswerForm, APromptMayEndWithinReasoning) {
  const AnswerForm think{CallFormat::json, ReasoningFormat::think, false}, none,
      brackets{CallFormat::mistral, ReasoningFormat::brackets, false},
      command{CallFormat::command_r7b, ReasoningFormat::none, false};
  EXPECT_TRUE(ends_in_reasoning("<|im_start|>assistant\n<think>\n", think));
  EXPECT_FALSE(ends_in_reasoning("assistant\n<think>\n\n</think>\n\n", think));
  EXPECT_FALSE(ends_in_reasoning("assistant\n<think>", none));
  EXPECT_TRUE(ends_in_reasoning("[THINK]", brackets));
  EXPECT_TRUE(ends_in_reasoning("<|CHATBOT_TOKEN|><|START_THINKING|>", command));
  EXPECT_FALSE(ends_in_reasoning(" \n", think));
  EXPECT_FALSE(ends_in_reasoning("", think));
  EXPECT_EQ(reasoning_end(think), "</think>\n\n");
  EXPECT_EQ(reasoning_end(command), "<|END_THINKING|>");
  EXPECT_EQ(reasoning_end(none), "");
}

TEST(AnswerForm, NamesAreReadAsTheyAreWritten) {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(kLastCallFormat); ++i) {
    const auto format = static_cast<CallFormat>(i);
    EXPECT_EQ(call_format_from(to_string(format)), format);
  }
  for (std::size_t i = 0; i <= static_cast<std::size_t>(kLastReasoningFormat); ++i) {
    const auto format = static_cast<ReasoningFormat>(i);
    EXPECT_EQ(reasoning_format_from(to_string(format)), format);
  }
  EXPECT_EQ(call_format_from("hermes2"), std::nullopt);
  EXPECT_EQ(reasoning_format_from(""), std::nullopt);
}

}  // namespace
}  // namespace flyball::text
