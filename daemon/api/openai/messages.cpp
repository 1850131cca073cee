#include "daemon/api/openai/messages.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/api/chat_messages.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/openai/field_table.hpp"
#include "daemon/api/openai/tool_choice.hpp"
#include "daemon/api/reasoning_variables.hpp"

namespace flyball::api::openai {
namespace {

// The template gets these from fields that were checked, or from the model file: no further variable replaces
// them.
constexpr std::array<std::string_view, 4> kOwnVariables{"messages", "tools", "bos_token", "eos_token"};

constexpr std::array<std::string_view, 6> kEfforts{"none", "minimal", "low", "medium", "high", "xhigh"};

// `chat_template_kwargs`, and `reasoning_effort` beside them.
Result<PackedJson> read_variables(const Fields& body) {
  const JsonView given = body.member("chat_template_kwargs");
  if (given) {
    if (!given.is_object())
      return field_error(ErrorCode::invalid_value, "chat_template_kwargs", "must be an object");
    for (const std::string_view own : kOwnVariables)
      if (given.find(own))
        return field_error(ErrorCode::invalid_value, "chat_template_kwargs." + std::string(own),
                           "is set by the daemon alone");
  }
  const JsonView effort = body.member("reasoning_effort");
  if (!effort) return given ? PackedJson(given) : PackedJson();
  if (!effort.is_string() || std::ranges::find(kEfforts, effort.text()) == kEfforts.end())
    return field_error(ErrorCode::invalid_value, "reasoning_effort",
                       "must be one of none, minimal, low, medium, high, xhigh");
  return reasoning_variables({.on = effort.text() != "none", .effort = effort.text()}, given);
}

}  // namespace

Result<ChatPrompt> read_chat_prompt(const Fields& body, Generate& out) {
  const JsonView messages = body.member("messages");
  if (!messages) return missing("messages", out.unknown);
  auto history = read_chat_messages(messages, field_table(), kChat, out.unknown);
  if (!history) return pass(history);
  out.note = std::move(history->note);

  auto tools = read_tool_set(body, out.unknown);
  if (!tools) return pass(tools);
  auto variables = read_variables(body);
  if (!variables) return pass(variables);

  ChatPrompt prompt;
  prompt.messages = std::move(history->messages);
  prompt.template_args = std::move(*variables);
  out.tools = std::move(*tools);
  if (out.tools) prompt.tools = out.tools->tools;
  if (const JsonView generation = body.member("add_generation_prompt")) {
    if (!generation.is_boolean())
      return field_error(ErrorCode::invalid_value, "add_generation_prompt", "must be a boolean");
    prompt.add_generation_prompt = generation.as_bool();
  }
  return prompt;
}

}  // namespace flyball::api::openai
