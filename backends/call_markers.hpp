// The spellings of control tokens that models write calls and reasoning with. daemon/api/calls reads them in
// answers, and under a constraint of calls these tokens stand for their spellings. From the chat templates of
// the models that answer_form.hpp names.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "backends/answer_form.hpp"

namespace flyball {

namespace call_markers {
inline constexpr std::array<std::string_view, 2> kToolCall{"<tool_call>", "</tool_call>"};
inline constexpr std::array<std::string_view, 1> kPythonTag{"<|python_tag|>"};
inline constexpr std::array<std::string_view, 3> kMistral{"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"};
inline constexpr std::array<std::string_view, 5> kDeepseek{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                                                           "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
                                                           "<｜tool▁sep｜>"};
inline constexpr std::array<std::string_view, 7> kHarmony{
    "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};
inline constexpr std::array<std::string_view, 3> kGranite{"<|tool_call|>", "<tool_call>", "</tool_call>"};
inline constexpr std::array<std::string_view, 8> kCommandR7b{
    "<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>", "<|END_ACTION|>",
    "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>",   "<|END_TEXT|>"};
inline constexpr std::array<std::string_view, 2> kPhi4{"<|tool_call|>", "<|/tool_call|>"};
inline constexpr std::array<std::string_view, 6> kGlm45{"<tool_call>", "</tool_call>", "<arg_key>",
                                                        "</arg_key>",  "<arg_value>",  "</arg_value>"};
inline constexpr std::array<std::string_view, 5> kKimiK2{"<|tool_calls_section_begin|>",
                                                         "<|tool_calls_section_end|>", "<|tool_call_begin|>",
                                                         "<|tool_call_argument_begin|>", "<|tool_call_end|>"};
inline constexpr std::array<std::string_view, 2> kMinimaxM2{"<minimax:tool_call>", "</minimax:tool_call>"};
inline constexpr std::array<std::string_view, 2> kThink{"<think>", "</think>"};
inline constexpr std::array<std::string_view, 2> kBrackets{"[THINK]", "[/THINK]"};
}  // namespace call_markers

// The markers of calls, and of reasoning where the format has its own. Empty: the format has no such tokens.
constexpr std::span<const std::string_view> markers_of(CallFormat format) noexcept {
  using enum CallFormat;
  switch (format) {
    case json:
    case functionary_v31:
    case functionary_v32:
    case glm4:
      return {};
    case hermes:
    case qwen3_coder:
      return call_markers::kToolCall;
    case llama3:
      return call_markers::kPythonTag;
    case mistral:
    case mistral_v11:
      return call_markers::kMistral;
    case deepseek_v3:
    case deepseek_v31:
      return call_markers::kDeepseek;
    case harmony:
      return call_markers::kHarmony;
    case granite:
      return call_markers::kGranite;
    case command_r7b:
      return call_markers::kCommandR7b;
    case phi4:
      return call_markers::kPhi4;
    case glm45:
      return call_markers::kGlm45;
    case kimi_k2:
      return call_markers::kKimiK2;
    case minimax_m2:
      return call_markers::kMinimaxM2;
  }
  return {};
}

// The beginning and the end of reasoning; empty of none.
constexpr std::span<const std::string_view> markers_of(ReasoningFormat format) noexcept {
  switch (format) {
    case ReasoningFormat::none:
      break;
    case ReasoningFormat::think:
      return call_markers::kThink;
    case ReasoningFormat::brackets:
      return call_markers::kBrackets;
  }
  return {};
}

}  // namespace flyball
