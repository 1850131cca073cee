#include "daemon/api/openai/messages.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "daemon/api/json_text.hpp"
#include "daemon/api/openai/completion_request.hpp"

namespace flyball::api::openai {
namespace {

constexpr std::array<std::string_view, 5> kRoles{"system", "developer", "user", "assistant", "tool"};

// The template gets these from fields that were checked, or from the model file: no further variable replaces
// them.
constexpr std::array<std::string_view, 4> kOwnVariables{"messages", "tools", "bos_token", "eos_token"};

std::unexpected<Error> invalid(ErrorCode code, std::string param, const std::string& what) {
  std::string message = "'" + param + "' " + what + ".";
  return fail(code, std::move(message), std::move(param));
}

// The text parts of a message, joined.
Result<std::string> flatten_content(JsonView parts, const std::string& place) {
  std::string out;
  std::size_t i = 0;
  for (const auto& [key, part] : parts.members()) {
    const std::string here = place + "[" + std::to_string(i) + "]";
    const JsonView type = part.is_object() ? part.find("type") : JsonView();
    if (!type.is_string()) return invalid(ErrorCode::invalid_value, here, "must be an object with a 'type'");
    if (type.text() != "text")
      return invalid(ErrorCode::unsupported_value, here + ".type", "is served as 'text' only");
    const JsonView text = part.find("text");
    if (!text.is_string()) return invalid(ErrorCode::invalid_value, here + ".text", "must be a string");
    if (i++ > 0) out.push_back('\n');
    out += text.text();
  }
  return out;
}

std::size_t json_size(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json.size();
}

// The length of a value as JSON: of a container as the client wrote it, of any other without needless
// escapes.
std::size_t json_size(JsonView value) {
  std::string json;
  switch (value.kind()) {
    case JsonKind::array:
    case JsonKind::object:
      return value.json_bytes();
    case JsonKind::string:
      return json_size(value.text());
    case JsonKind::digits:
      return value.text().size();
    case JsonKind::integer:
      return std::to_string(value.as_integer()).size();
    case JsonKind::real:
      append_json_number(json, value.as_double());
      return json.size();
    case JsonKind::no:
      return std::string_view("false").size();
    case JsonKind::null:
    case JsonKind::yes:
      break;
  }
  return std::string_view("null").size();
}

bool all_objects(JsonView array) {
  for (const auto& [key, value] : array.members())
    if (!value.is_object()) return false;
  return true;
}

// Appends the message as the template shall see it: as it came, but for the members that are rewritten.
// Returns its length as JSON.
Result<std::size_t> append_message(JsonPacker& out, JsonView message, const std::string& place) {
  if (!message.is_object()) return invalid(ErrorCode::invalid_value, place, "must be an object");
  const JsonView role = message.find("role");
  if (!role) return invalid(ErrorCode::missing_field, place + ".role", "is required");
  if (!role.is_string()) return invalid(ErrorCode::invalid_value, place + ".role", "must be a string");
  const std::string_view name = role.text();
  if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end())
    return invalid(ErrorCode::invalid_value, place + ".role",
                   "must be one of system, developer, user, assistant, tool");
  const JsonView calls = message.member("tool_calls");
  if (calls && (!calls.is_array() || !all_objects(calls)))
    return invalid(ErrorCode::invalid_value, place + ".tool_calls", "must be an array of objects");
  const JsonView content = message.member("content");
  if (!content && name != "assistant")
    return invalid(ErrorCode::missing_field, place + ".content", "is required for this role");
  if (!content && !calls)
    return invalid(ErrorCode::missing_field, place + ".content", "is required where there are no tool calls");
  if (content && !content.is_string() && !content.is_array())
    return invalid(ErrorCode::invalid_value, place + ".content", "must be a string or an array of parts");

  const bool rewrite_content = content.is_array();
  const bool rewrite_role = name == "developer";
  if (!rewrite_content && !rewrite_role) {
    out.value(message);
    return message.json_bytes();
  }
  std::size_t length = 1;  // each member has a comma or the last brace behind it
  out.open(JsonKind::object);
  for (const auto& [key, value] : message.members()) {
    out.key(key);
    length += json_size(key) + 2;
    if (key == "content" && rewrite_content) {
      auto text = flatten_content(content, place + ".content");
      if (!text) return pass(text);
      out.string(*text);
      length += json_size(*text);
    } else if (key == "role" && rewrite_role) {
      constexpr std::string_view kSystem = "system";
      out.string(kSystem);
      length += json_size(kSystem);
    } else {
      out.value(value);
      length += json_size(value);
    }
  }
  out.close(static_cast<std::uint32_t>(length));
  return length;
}

Result<PackedJson> read_tools(const Fields& body) {
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
  }
  if (tools.size() == 0 || (choice && choice.text() == "none")) return PackedJson();
  return PackedJson(tools);
}

}  // namespace

Result<ChatPrompt> read_chat_prompt(const Fields& body) {
  const JsonView messages = body.member("messages");
  if (!messages) return fail(ErrorCode::missing_field, "'messages' is required.", "messages");
  if (!messages.is_array() || messages.size() == 0)
    return invalid(ErrorCode::invalid_value, "messages", "must be an array with at least one message");
  if (messages.size() > kMaxMessages)
    return invalid(ErrorCode::invalid_value, "messages",
                   "has more than " + std::to_string(kMaxMessages) + " messages");

  ChatPrompt prompt;
  JsonPacker packer;
  packer.reserve(messages.bytes().size());
  packer.open(JsonKind::array);
  std::size_t i = 0, length = 1;  // each message has a comma or the last bracket behind it
  for (const auto& [key, message] : messages.members()) {
    auto size = append_message(packer, message, "messages[" + std::to_string(i++) + "]");
    if (!size) return pass(size);
    length += *size + 1;
  }
  packer.close(static_cast<std::uint32_t>(length));
  prompt.messages = packer.take();

  auto tools = read_tools(body);
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
