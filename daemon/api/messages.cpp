#include "daemon/api/messages.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <nlohmann/json.hpp>

#include "daemon/api/completion_request.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kRoles{"system", "developer", "user", "assistant", "tool"};

// What the template gets from fields that were checked, or from the model file: no further variable replaces
// it.
constexpr std::array<std::string_view, 4> kOwnVariables{"messages", "tools", "bos_token", "eos_token"};

std::unexpected<Error> invalid(ErrorCode code, std::string param, const std::string& what) {
  std::string message = "'" + param + "' " + what + ".";
  return fail(code, std::move(message), std::move(param));
}

// A string, or text parts; the joined text.
Result<std::string> flatten_content(const json& parts, const std::string& place) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const json& part = parts[i];
    const std::string here = place + "[" + std::to_string(i) + "]";
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (!part.is_object() || type == part.end() || !type->is_string())
      return invalid(ErrorCode::invalid_value, here, "must be an object with a 'type'");
    if (*type != "text")
      return invalid(ErrorCode::unsupported_value, here + ".type", "is served as 'text' only");
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string())
      return invalid(ErrorCode::invalid_value, here + ".text", "must be a string");
    if (i > 0) out.push_back('\n');
    out += text->get_ref<const std::string&>();
  }
  return out;
}

// Appends the message as the template shall see it: its own bytes, but for the members that are rewritten.
Result<void> append_message(std::string& out, const json& message, std::string_view raw,
                            const std::string& place) {
  if (!message.is_object()) return invalid(ErrorCode::invalid_value, place, "must be an object");
  const auto role = message.find("role");
  if (role == message.end()) return invalid(ErrorCode::missing_field, place + ".role", "is required");
  if (!role->is_string()) return invalid(ErrorCode::invalid_value, place + ".role", "must be a string");
  const std::string& name = role->get_ref<const std::string&>();
  if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end())
    return invalid(ErrorCode::invalid_value, place + ".role",
                   "must be one of system, developer, user, assistant, tool");
  const auto calls = message.find("tool_calls");
  const bool has_calls = calls != message.end() && !calls->is_null();
  if (has_calls && (!calls->is_array() ||
                    !std::all_of(calls->begin(), calls->end(), [](const json& c) { return c.is_object(); })))
    return invalid(ErrorCode::invalid_value, place + ".tool_calls", "must be an array of objects");
  const auto content = message.find("content");
  const bool no_content = content == message.end() || content->is_null();
  if (no_content && name != "assistant")
    return invalid(ErrorCode::missing_field, place + ".content", "is required for this role");
  if (no_content && !has_calls)
    return invalid(ErrorCode::missing_field, place + ".content", "is required where there are no tool calls");
  if (!no_content && !content->is_string() && !content->is_array())
    return invalid(ErrorCode::invalid_value, place + ".content", "must be a string or an array of parts");

  const bool rewrite_content = !no_content && content->is_array();
  const bool rewrite_role = name == "developer";
  if (!rewrite_content && !rewrite_role) {
    out.append(raw);
    return {};
  }
  out.push_back('{');
  bool first = true;
  for (const JsonMember& m : json_members(raw)) {
    if (!first) out.push_back(',');
    first = false;
    // A key may be spelled with escapes; its meaning is what counts.
    const std::string key = json::parse(m.key).get<std::string>();
    out.append(m.key).push_back(':');
    if (key == "content" && rewrite_content) {
      auto text = flatten_content(*content, place + ".content");
      if (!text) return std::unexpected(std::move(text.error()));
      append_json_string(out, *text);
    } else if (key == "role" && rewrite_role) {
      out.append("\"system\"");
    } else {
      out.append(m.value);
    }
  }
  out.push_back('}');
  return {};
}

// The bytes of one top-level member of the validated document.
std::string_view raw_member(std::string_view document, std::string_view name) {
  for (const JsonMember& m : json_members(document))
    if (json::parse(m.key).get_ref<const std::string&>() == name) return m.value;
  return {};
}

Result<std::string> read_tools(const json& body, std::string_view text) {
  const auto choice = body.find("tool_choice");
  bool none = false;
  if (choice != body.end() && !choice->is_null()) {
    if (!choice->is_string() || (*choice != "none" && *choice != "auto"))
      return invalid(ErrorCode::unsupported_value, "tool_choice", "is served as 'none' or 'auto' only");
    none = *choice == "none";
  }
  const auto tools = body.find("tools");
  if (tools == body.end() || tools->is_null()) return std::string();
  if (!tools->is_array()) return invalid(ErrorCode::invalid_value, "tools", "must be an array");
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const json& tool = (*tools)[i];
    const std::string place = "tools[" + std::to_string(i) + "]";
    if (!tool.is_object() || !tool.contains("type") || !tool["type"].is_string())
      return invalid(ErrorCode::invalid_value, place, "must be an object with a 'type'");
    if (tool["type"] != "function")
      return invalid(ErrorCode::unsupported_value, place + ".type", "is served as 'function' only");
    const auto function = tool.find("function");
    if (function == tool.end() || !function->is_object() || !function->contains("name") ||
        !(*function)["name"].is_string())
      return invalid(ErrorCode::invalid_value, place + ".function", "must be an object with a 'name'");
  }
  if (none || tools->empty()) return std::string();
  return std::string(raw_member(text, "tools"));
}

}  // namespace

Result<ChatPrompt> read_chat_prompt(const json& body, std::string_view text) {
  const auto messages = body.find("messages");
  if (messages == body.end() || messages->is_null())
    return fail(ErrorCode::missing_field, "'messages' is required.", "messages");
  if (!messages->is_array() || messages->empty())
    return invalid(ErrorCode::invalid_value, "messages", "must be an array with at least one message");
  if (messages->size() > kMaxMessages)
    return invalid(ErrorCode::invalid_value, "messages",
                   "has more than " + std::to_string(kMaxMessages) + " messages");

  ChatPrompt prompt;
  const auto raw = json_elements(raw_member(text, "messages"));
  if (raw.size() != messages->size())
    return fail(ErrorCode::internal, "The messages could not be cut apart.", "messages");
  prompt.messages_json.push_back('[');
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (i > 0) prompt.messages_json.push_back(',');
    auto ok =
        append_message(prompt.messages_json, (*messages)[i], raw[i], "messages[" + std::to_string(i) + "]");
    if (!ok) return std::unexpected(std::move(ok.error()));
  }
  prompt.messages_json.push_back(']');

  auto tools = read_tools(body, text);
  if (!tools) return std::unexpected(std::move(tools.error()));
  prompt.tools_json = std::move(*tools);

  const auto args = body.find("chat_template_kwargs");
  if (args != body.end() && !args->is_null()) {
    if (!args->is_object())
      return invalid(ErrorCode::invalid_value, "chat_template_kwargs", "must be an object");
    for (const std::string_view own : kOwnVariables)
      if (args->contains(own))
        return invalid(ErrorCode::invalid_value, "chat_template_kwargs." + std::string(own),
                       "is set by the daemon alone");
    prompt.template_args_json = std::string(raw_member(text, "chat_template_kwargs"));
  }
  const auto generation = body.find("add_generation_prompt");
  if (generation != body.end() && !generation->is_null()) {
    if (!generation->is_boolean())
      return invalid(ErrorCode::invalid_value, "add_generation_prompt", "must be a boolean");
    prompt.add_generation_prompt = generation->get<bool>();
  }
  return prompt;
}

}  // namespace flyball::api
