#include "daemon/api/chat_history.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/api/call_arguments.hpp"
#include "daemon/api/features.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/message_writer.hpp"

namespace flyball::api {
namespace {

constexpr std::array<std::string_view, 5> kRoles{"system", "developer", "user", "assistant", "tool"};

std::string item(const std::string& list, std::size_t i) {
  return list + "[" + std::to_string(i) + "]";
}

// null, "", [] and {}: SDKs send their optional members back so.
bool is_empty(JsonView value) noexcept {
  switch (value.kind()) {
    case JsonKind::null:
      return true;
    case JsonKind::string:
      return value.text().empty();
    case JsonKind::array:
    case JsonKind::object:
      return value.size() == 0;
    default:
      return false;
  }
}

// The feature that a part of this type asks for; nullopt: none.
std::optional<config::Feature> feature_of_part(std::string_view type) noexcept {
  if (type == "image_url" || type == "image" || type == "input_image" || type == "video_url" ||
      type == "video")
    return config::Feature::vision;
  if (type == "input_audio" || type == "audio_url" || type == "audio") return config::Feature::audio;
  return std::nullopt;
}

// Members of a message and a call that are texts, whatever the template makes of them.
bool is_text_member(HistoryObject of, std::string_view name) noexcept {
  constexpr std::array<std::string_view, 8> kOfMessage{
      "name",      "tool_call_id", "refusal",   "reasoning_content",
      "reasoning", "thinking",     "tool_plan", "tool_name"};
  if (of == HistoryObject::message) return std::ranges::find(kOfMessage, name) != kOfMessage.end();
  return of == HistoryObject::call && name == "id";
}

Result<void> check_text_member(HistoryObject of, std::string_view name, JsonView value,
                               const std::string& place) {
  if (value.is_string() || !is_text_member(of, name)) return {};
  return field_error(ErrorCode::invalid_value, place + "." + std::string(name), "must be a string");
}

class HistoryReader {
 public:
  HistoryReader(JsonView messages, const IsForTemplate& is_for_template)
      : is_for_template_(is_for_template), out_(messages.bytes().size()) {}

  Result<ChatHistory> read(JsonView messages) {
    out_.open(JsonKind::array);
    std::size_t i = 0;
    for (const auto& [key, message] : messages.members())
      if (auto ok = message_of(message, item("messages", i++)); !ok) return pass(ok);
    out_.close();
    return ChatHistory{out_.take(), arguments_.note()};
  }

 private:
  Result<void> message_of(JsonView message, const std::string& place) {
    if (!message.is_object()) return field_error(ErrorCode::invalid_value, place, "must be an object");
    auto role = role_of(message, place);
    if (!role) return pass(role);
    const JsonView calls = message.member("tool_calls");
    if (calls && !calls.is_array())
      return field_error(ErrorCode::invalid_value, place + ".tool_calls", "must be an array of objects");
    if (message.member("function_call") && !is_empty(message.find("function_call")))
      return field_error(ErrorCode::unsupported_value, place + ".function_call",
                         "is served as 'tool_calls' only");
    auto content = content_of(message, *role, calls && calls.size() > 0, place);
    if (!content) return pass(content);

    bool has_content = false;
    out_.open(JsonKind::object);
    for (const auto& [key, value] : message.members()) {
      if (key == "content") {
        has_content = true;
        if (*content)
          out_.member(key, **content);
        else
          copy(key, value);
      } else if (key == "role") {
        out_.member(key, *role);
      } else if (is_empty(value)) {
        continue;
      } else if (key == "tool_calls") {
        out_.key(key);
        if (auto ok = calls_of(value, place + ".tool_calls"); !ok) return pass(ok);
      } else if (is_for_template_(HistoryObject::message, key)) {
        if (auto ok = check_text_member(HistoryObject::message, key, value, place); !ok) return ok;
        copy(key, value);
      }
    }
    if (!has_content) out_.member("content", content->value_or(""));
    if (*role == "assistant") add_alias(message, "reasoning_content", {"reasoning", "thinking"});
    if (*role == "tool") add_alias(message, "name", {"tool_name"});
    out_.close();
    return {};
  }

  // The member `name` with the first of the others that is a text, where the message has no such member.
  void add_alias(JsonView message, std::string_view name, std::initializer_list<std::string_view> others) {
    if (const JsonView own = message.find(name); own && !is_empty(own)) return;
    for (const std::string_view other : others) {
      const JsonView value = message.find(other);
      if (!value.is_string() || is_empty(value) || !is_for_template_(HistoryObject::message, other)) continue;
      out_.member(name, value.text());
      return;
    }
  }

  static Result<std::string_view> role_of(JsonView message, const std::string& place) {
    const JsonView role = message.find("role");
    if (!role) return field_error(ErrorCode::missing_field, place + ".role", "is required");
    if (!role.is_string()) return field_error(ErrorCode::invalid_value, place + ".role", "must be a string");
    if (std::ranges::find(kRoles, role.text()) == kRoles.end())
      return field_error(ErrorCode::invalid_value, place + ".role",
                         "must be one of system, developer, user, assistant, tool");
    return role.text() == "developer" ? std::string_view("system") : role.text();
  }

  // The content where it is not the client's own string; nullopt: it is.
  static Result<std::optional<std::string>> content_of(JsonView message, std::string_view role, bool calls,
                                                       const std::string& message_place) {
    const std::string place = message_place + ".content";
    const JsonView content = message.member("content");
    if (content.is_string()) return std::nullopt;
    if (content.is_array()) return joined(content, role, place);
    if (content) return field_error(ErrorCode::invalid_value, place, "must be a string or an array of parts");
    if (role != "assistant") return field_error(ErrorCode::missing_field, place, "is required for this role");
    if (const JsonView refusal = message.member("refusal"); refusal.is_string())
      return std::string(refusal.text());
    if (!calls)
      return field_error(ErrorCode::missing_field, place, "is required where there are no tool calls");
    return std::string();
  }

  static Result<std::optional<std::string>> joined(JsonView parts, std::string_view role,
                                                   const std::string& place) {
    std::string out;
    std::size_t i = 0;
    for (const auto& [key, part] : parts.members()) {
      const std::string here = item(place, i);
      const JsonView type = part.is_object() ? part.find("type") : JsonView();
      if (!type.is_string())
        return field_error(ErrorCode::invalid_value, here, "must be an object with a 'type'");
      const bool refusal = role == "assistant" && type.text() == "refusal";
      if (const auto feature = feature_of_part(type.text()))
        return std::unexpected(unserved(config::capability(*feature), here + ".type"));
      if (type.text() != "text" && !refusal)
        return field_error(ErrorCode::unsupported_value, here + ".type", "is served as 'text' only");
      const JsonView text = part.find(type.text());
      if (!text.is_string())
        return field_error(ErrorCode::invalid_value, here + "." + std::string(type.text()),
                           "must be a string");
      if (i++ > 0) out.push_back('\n');
      out += text.text();
    }
    return out;
  }

  Result<void> calls_of(JsonView calls, const std::string& place) {
    out_.open(JsonKind::array);
    std::size_t i = 0;
    for (const auto& [key, call] : calls.members())
      if (auto ok = call_of(call, item(place, i++)); !ok) return pass(ok);
    out_.close();
    return {};
  }

  Result<void> call_of(JsonView call, const std::string& place) {
    if (!call.is_object()) return field_error(ErrorCode::invalid_value, place, "must be an object");
    if (const JsonView type = call.member("type"); type && !(type.is_string() && type.text() == "function"))
      return field_error(ErrorCode::unsupported_value, place + ".type", "is served as 'function' only");
    const JsonView function = call.member("function");
    const JsonView name = function.is_object() ? function.find("name") : JsonView();
    if (!name.is_string() || name.text().empty())
      return field_error(ErrorCode::invalid_value, place + ".function", "must be an object with a 'name'");
    bool has_type = false;  // templates print it, and some clients leave it out
    out_.open(JsonKind::object);
    for (const auto& [key, value] : call.members()) {
      if (key == "function") {
        out_.key(key);
        if (auto ok = function_of(value, place + ".function"); !ok) return pass(ok);
      } else if (key == "type") {
        has_type = true;
        out_.member(key, "function");
      } else if (!is_empty(value) && is_for_template_(HistoryObject::call, key)) {
        if (auto ok = check_text_member(HistoryObject::call, key, value, place); !ok) return ok;
        copy(key, value);
      }
    }
    if (!has_type) out_.member("type", "function");
    out_.close();
    return {};
  }

  Result<void> function_of(JsonView function, const std::string& place) {
    out_.open(JsonKind::object);
    bool has_arguments = false;
    for (const auto& [key, value] : function.members()) {
      if (key == "arguments") {
        has_arguments = true;
        out_.key(key);
        if (auto ok = arguments_.read(value, place + ".arguments", out_); !ok) return pass(ok);
      } else if (!is_empty(value) && is_for_template_(HistoryObject::function, key)) {
        copy(key, value);
      }
    }
    if (!has_arguments) {
      out_.key("arguments");
      CallArguments::write_none(out_);
    }
    out_.close();
    return {};
  }

  void copy(std::string_view key, JsonView value) {
    out_.key(key);
    out_.value(value);
  }

  const IsForTemplate& is_for_template_;
  MessageWriter out_;
  CallArguments arguments_;
};

}  // namespace

Result<ChatHistory> read_chat_history(JsonView messages, const IsForTemplate& is_for_template) {
  if (!messages.is_array() || messages.size() == 0)
    return field_error(ErrorCode::invalid_value, "messages", "must be an array with at least one message");
  if (messages.size() > kMaxMessages)
    return field_error(ErrorCode::invalid_value, "messages",
                       "has " + std::to_string(messages.size()) + " messages, more than the limit of " +
                           std::to_string(kMaxMessages));
  return HistoryReader(messages, is_for_template).read(messages);
}

}  // namespace flyball::api
