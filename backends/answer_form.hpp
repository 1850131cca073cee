// How a model writes reasoning and calls of tools into the text of its answer.
#pragma once

#include <cstdint>

namespace flyball {

// The formats of the field's chat templates. text/answer_form finds a template's; daemon/api/calls reads the
// answers.
enum class CallFormat : std::uint8_t {
  json,             // {"name": , "arguments": {}} and nothing else: of templates that show no other
  hermes,           // <tool_call>{"name": , "arguments": {}}</tool_call>: Hermes, Qwen 2.5 and 3, SmolLM3
  llama3,           // {"name": , "parameters": {}}, <|python_tag|> before it or not
  mistral,          // [TOOL_CALLS][{"name": , "arguments": {}}]
  mistral_v11,      // [TOOL_CALLS]name[ARGS]{}
  qwen3_coder,      // <tool_call><function=name><parameter=key>value</parameter></function></tool_call>
  deepseek_v3,      // its markers around function<|tool_sep|>name and a fenced block of JSON; R1, too
  deepseek_v31,     // its markers around name<|tool_sep|>{}
  harmony,          // gpt-oss: channels
  granite,          // <|tool_call|>[{"name": , "arguments": {}}]
  command_r7b,      // <|START_ACTION|>[{"tool_name": , "parameters": {}}]<|END_ACTION|>
  functionary_v31,  // <function=name>{}</function>
  functionary_v32,  // >>>name, a line's end, {}
  phi4,             // functools[{"name": , "arguments": {}}], or <|tool_call|>[]<|/tool_call|>
  glm4,             // name, a line's end, {}
  glm45,            // <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>
  kimi_k2,          // its markers around functions.name:0 and {}
  minimax_m2,       // <minimax:tool_call><invoke name=""><parameter name="">value</parameter></invoke>
};
inline constexpr CallFormat kLastCallFormat = CallFormat::minimax_m2;

enum class ReasoningFormat : std::uint8_t {
  none,      // the answer has none, or the call format has its own (harmony, command_r7b)
  think,     // <think></think>
  brackets,  // [THINK][/THINK]
};
inline constexpr ReasoningFormat kLastReasoningFormat = ReasoningFormat::brackets;

struct AnswerForm {
  CallFormat calls = CallFormat::json;
  ReasoningFormat reasoning = ReasoningFormat::none;
  bool in_reasoning = false;  // the prompt ends within reasoning: the answer begins there
  bool operator==(const AnswerForm&) const = default;
};

}  // namespace flyball
