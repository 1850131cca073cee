#include "daemon/api/openai/messages.hpp"

#include <utility>

#include "daemon/api/chat_messages.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/openai/field_table.hpp"
#include "daemon/api/openai/template_variables.hpp"
#include "daemon/api/openai/tool_choice.hpp"

namespace flyball::api::openai {

Result<ChatPrompt> read_chat_prompt(const Fields& body, Generate& out) {
  const JsonView messages = body.member("messages");
  if (!messages) return missing("messages", out.unknown);
  auto history = read_chat_messages(messages, field_table(), kChat, out.unknown);
  if (!history) return pass(history);
  out.note = std::move(history->note);

  auto tools = read_tool_set(body, out.unknown);
  if (!tools) return pass(tools);
  auto variables = read_variables(body, body.member("reasoning_effort"), "reasoning_effort");
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
