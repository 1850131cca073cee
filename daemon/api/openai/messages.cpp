#include "daemon/api/openai/messages.hpp"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/api/chat_messages.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/openai/field_table.hpp"

namespace flyball::api::openai {
namespace {

// The template gets these from fields that were checked, or from the model file: no further variable replaces
// them.
constexpr std::array<std::string_view, 4> kOwnVariables{"messages", "tools", "bos_token", "eos_token"};

Result<PackedJson> read_chosen_tools(const Fields& body, UnknownFields& unknown) {
  const JsonView choice = body.member("tool_choice");
  if (choice && !(choice.is_string() && (choice.text() == "none" || choice.text() == "auto")))
    return field_error(ErrorCode::unsupported_value, "tool_choice", "is served as 'none' or 'auto' only");
  const JsonView tools = body.member("tools");
  if (!tools) return PackedJson();
  auto read = read_tools(tools, field_table(), kChat, unknown);
  if (read && choice && choice.text() == "none") return PackedJson();
  return read;
}

}  // namespace

Result<ChatPrompt> read_chat_prompt(const Fields& body, std::string& note, UnknownFields& unknown) {
  const JsonView messages = body.member("messages");
  if (!messages) return missing("messages", unknown);
  auto history = read_chat_messages(messages, field_table(), kChat, unknown);
  if (!history) return pass(history);

  ChatPrompt prompt;
  prompt.messages = std::move(history->messages);
  note = std::move(history->note);

  auto tools = read_chosen_tools(body, unknown);
  if (!tools) return pass(tools);
  prompt.tools = std::move(*tools);

  if (const JsonView args = body.member("chat_template_kwargs")) {
    if (!args.is_object())
      return field_error(ErrorCode::invalid_value, "chat_template_kwargs", "must be an object");
    for (const std::string_view own : kOwnVariables)
      if (args.find(own))
        return field_error(ErrorCode::invalid_value, "chat_template_kwargs." + std::string(own),
                           "is set by the daemon alone");
    prompt.template_args = PackedJson(args);
  }
  if (const JsonView generation = body.member("add_generation_prompt")) {
    if (!generation.is_boolean())
      return field_error(ErrorCode::invalid_value, "add_generation_prompt", "must be a boolean");
    prompt.add_generation_prompt = generation.as_bool();
  }
  return prompt;
}

}  // namespace flyball::api::openai
