#include "daemon/api/openai/messages.hpp"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/api/chat_history.hpp"
#include "daemon/api/json_rewriter.hpp"

namespace flyball::api::openai {
namespace {

// The template gets these from fields that were checked, or from the model file: no further variable replaces
// them.
constexpr std::array<std::string_view, 4> kOwnVariables{"messages", "tools", "bos_token", "eos_token"};

std::unexpected<Error> invalid(ErrorCode code, std::string param, const std::string& what) {
  std::string message = "'" + param + "' " + what + ".";
  return fail(code, std::move(message), std::move(param));
}

// Fields accepted without an effect have none in the prompt either. Unknown fields are there by the app's
// wish.
bool is_for_template(FieldOf of, std::string_view name) noexcept {
  const FieldGroup* const field = find_field(of, kChat, name);
  return field == nullptr || field->use == FieldUse::served;
}

bool is_for_template(HistoryObject of, std::string_view name) noexcept {
  return is_for_template(of == HistoryObject::message ? FieldOf::message
                         : of == HistoryObject::call  ? FieldOf::call
                                                      : FieldOf::called_function,
                         name);
}

// Tools without members that are null, which templates would print, or that are not for them: of a tool and
// of its function. What stands in a schema is its author's.
PackedJson for_template(JsonView tools) {
  JsonRewriter out(tools.bytes().size());
  out.open(JsonKind::array);
  for (const auto& [index, tool] : tools.members()) {
    out.open(JsonKind::object);
    for (const auto& [key, value] : tool.members()) {
      if (value.is_null() || !is_for_template(FieldOf::tool, key)) continue;
      out.key(key);
      if (key != "function") {
        out.value(value);
        continue;
      }
      out.open(JsonKind::object);
      for (const auto& [name, member] : value.members()) {
        if (member.is_null() || !is_for_template(FieldOf::tool_function, name)) continue;
        out.key(name);
        out.value(member);
      }
      out.close();
    }
    out.close();
  }
  out.close();
  return out.take();
}

// Precondition: read_chat_history() has taken the messages.
Result<void> check_messages(JsonView messages, UnknownFields& unknown) {
  const auto each = [&](JsonView array, const std::string& place, auto check) -> Result<void> {
    std::size_t i = 0;
    for (const auto& [key, one] : array.members())
      if (auto ok = check(one, place + "[" + std::to_string(i++) + "]"); !ok) return ok;
    return {};
  };
  const auto check_part = [&](JsonView part, const std::string& place) {
    return check_members(part, FieldOf::part, kChat, place, unknown);
  };
  const auto check_call = [&](JsonView call, const std::string& place) -> Result<void> {
    if (auto ok = check_members(call, FieldOf::call, kChat, place, unknown); !ok) return ok;
    return check_members(call.find("function"), FieldOf::called_function, kChat, place + ".function",
                         unknown);
  };
  return each(messages, "messages", [&](JsonView message, const std::string& place) -> Result<void> {
    auto ok = check_members(message, FieldOf::message, kChat, place, unknown);
    if (const JsonView content = message.member("content"); ok && content.is_array())
      ok = each(content, place + ".content", check_part);
    if (const JsonView calls = message.member("tool_calls"); ok && calls)
      ok = each(calls, place + ".tool_calls", check_call);
    return ok;
  });
}

Result<PackedJson> read_tools(const Fields& body, UnknownFields& unknown) {
  const JsonView choice = body.member("tool_choice");
  if (choice && !(choice.is_string() && (choice.text() == "none" || choice.text() == "auto")))
    return invalid(ErrorCode::unsupported_value, "tool_choice", "is served as 'none' or 'auto' only");
  const JsonView tools = body.member("tools");
  if (!tools) return PackedJson();
  if (!tools.is_array()) return invalid(ErrorCode::invalid_value, "tools", "must be an array");
  std::size_t i = 0;
  for (const auto& [key, tool] : tools.members()) {
    const std::string place = "tools[" + std::to_string(i++) + "]";
    const JsonView type = tool.is_object() ? tool.find("type") : JsonView();
    if (!type.is_string()) return invalid(ErrorCode::invalid_value, place, "must be an object with a 'type'");
    if (type.text() != "function")
      return invalid(ErrorCode::unsupported_value, place + ".type", "is served as 'function' only");
    const JsonView function = tool.find("function");
    if (!function.is_object() || !function.find("name").is_string())
      return invalid(ErrorCode::invalid_value, place + ".function", "must be an object with a 'name'");
    auto ok = check_members(tool, FieldOf::tool, kChat, place, unknown);
    if (ok) ok = check_members(function, FieldOf::tool_function, kChat, place + ".function", unknown);
    if (!ok) return pass(ok);
  }
  if (tools.size() == 0 || (choice && choice.text() == "none")) return PackedJson();
  return for_template(tools);
}

}  // namespace

Result<ChatPrompt> read_chat_prompt(const Fields& body, std::string& note, UnknownFields& unknown) {
  const JsonView messages = body.member("messages");
  if (!messages) return missing("messages", unknown);
  auto history = read_chat_history(messages, &is_for_template);
  if (!history) return pass(history);
  if (auto ok = check_messages(messages, unknown); !ok) return pass(ok);

  ChatPrompt prompt;
  prompt.messages = std::move(history->messages);
  note = std::move(history->note);

  auto tools = read_tools(body, unknown);
  if (!tools) return pass(tools);
  prompt.tools = std::move(*tools);

  if (const JsonView args = body.member("chat_template_kwargs")) {
    if (!args.is_object())
      return invalid(ErrorCode::invalid_value, "chat_template_kwargs", "must be an object");
    for (const std::string_view own : kOwnVariables)
      if (args.find(own))
        return invalid(ErrorCode::invalid_value, "chat_template_kwargs." + std::string(own),
                       "is set by the daemon alone");
    prompt.template_args = PackedJson(args);
  }
  if (const JsonView generation = body.member("add_generation_prompt")) {
    if (!generation.is_boolean())
      return invalid(ErrorCode::invalid_value, "add_generation_prompt", "must be a boolean");
    prompt.add_generation_prompt = generation.as_bool();
  }
  return prompt;
}

}  // namespace flyball::api::openai
