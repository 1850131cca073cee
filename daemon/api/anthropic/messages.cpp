#include "daemon/api/anthropic/messages.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "config/capabilities.hpp"
#include "config/name_list.hpp"
#include "daemon/api/anthropic/billing_line.hpp"
#include "daemon/api/anthropic/field_table.hpp"
#include "daemon/api/anthropic/tools.hpp"
#include "daemon/api/features.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/joined_text.hpp"
#include "daemon/api/message_writer.hpp"

namespace flyball::api::anthropic {
namespace {

constexpr std::string_view kOfUser = "text or tool_result";
constexpr std::string_view kOfAssistant = "text, thinking, redacted_thinking or tool_use";

// The block has a type that its place does not have.
std::unexpected<Error> not_served(std::string_view type, const std::string& place, std::string_view served) {
  if (type == "image")
    return std::unexpected(unserved(config::capability(config::Feature::vision), place + ".type"));
  const ErrorCode code = type == "document" ? ErrorCode::unsupported_feature : ErrorCode::unsupported_value;
  return field_error(code, place + ".type",
                     "is " + config::quoted(type) + ", but is served as " + std::string(served) + " only");
}

class MessagesReader {
 public:
  MessagesReader(std::size_t bytes, UnknownFields& unknown) : unknown_(unknown), out_(bytes) {}

  Result<ChatHistory> read(JsonView system, JsonView messages) {
    out_.open(JsonKind::array);
    if (auto ok = read_system(system); !ok) return pass(ok);
    std::size_t i = 0;
    for (const auto& [key, message] : messages.members())
      if (auto ok = read_message(message, "messages[" + std::to_string(i++) + "]"); !ok) return pass(ok);
    if (auto ok = check_number(); !ok) return pass(ok);
    out_.close();
    return ChatHistory{out_.take(), std::move(note_)};
  }

 private:
  Result<void> check_number() const {
    if (out_.written() <= kMaxMessages) return {};
    return field_error(ErrorCode::invalid_value, "messages",
                       "has more messages and results than the limit of " + std::to_string(kMaxMessages));
  }

  Result<void> read_system(JsonView system) {
    JoinedText text;
    const auto add = [&](std::string_view part) {
      const std::string_view rest = without_billing_line(part);
      if (rest.size() < part.size())
        note("The billing line of 'system' is left out: it changes with every request.");
      if (!rest.empty()) text.add(rest);
    };
    if (system.is_string())
      add(system.text());
    else if (system)
      if (auto ok = each_text(system, "system", add); !ok) return ok;
    if (text.any()) out_.message("system", text.text());
    return {};
  }

  Result<void> read_message(JsonView message, const std::string& place) {
    if (auto ok = check_number(); !ok) return ok;
    if (!message.is_object()) return field_error(ErrorCode::invalid_value, place, "must be an object");
    if (auto ok = check_members(message, field_table(), FieldOf::message, kBoth, place, unknown_); !ok)
      return ok;
    const auto role = text_member(message, "role", place);
    if (!role) return pass(role);
    const JsonView content = message.member("content");
    const std::string here = place + ".content";
    if (!content) return field_error(ErrorCode::missing_field, here, "is required");
    if (*role == "user") return read_user(content, here);
    if (*role == "assistant") return read_assistant(content, here);
    if (*role != "system")
      return field_error(ErrorCode::invalid_value, place + ".role", "must be user, assistant or system");
    auto text = read_texts(content, here);
    if (!text) return pass(text);
    out_.message("system", *text);
    return {};
  }

  Result<void> read_user(JsonView content, const std::string& place) {
    if (content.is_string()) {
      out_.message("user", content.text());
      return {};
    }
    JoinedText text;
    bool has_results = false;
    const auto read = [&](std::string_view type, JsonView block, const std::string& here) -> Result<void> {
      if (type == "text") return add_text(block, here, text);
      if (type != "tool_result") return not_served(type, here, kOfUser);
      has_results = true;
      return read_result(block, here);
    };
    if (auto ok = each_block(content, place, read); !ok) return ok;
    if (text.any() || !has_results) out_.message("user", text.text());
    return {};
  }

  Result<void> read_result(JsonView block, const std::string& place) {
    if (auto ok = check_number(); !ok) return ok;
    const auto id = text_member(block, "tool_use_id", place);
    if (!id) return pass(id);
    const JsonView content = block.member("content"), is_error = block.member("is_error");
    if (is_error && !is_error.is_boolean())
      return field_error(ErrorCode::invalid_value, place + ".is_error", "must be a boolean");
    std::string text = is_error && is_error.as_bool() ? "Error: " : "";
    if (content) {
      const auto read = read_result_text(content, place + ".content");
      if (!read) return pass(read);
      text += *read;
    }
    out_.open_message("tool");
    out_.member("tool_call_id", *id);
    if (const auto call = called_.find(*id); call != called_.end()) out_.member("name", call->second);
    out_.member("content", text);
    out_.close();
    return {};
  }

  // A refusal would end the whole session of an agent that has read a picture.
  Result<std::string> read_result_text(JsonView content, const std::string& place) {
    if (content.is_string()) return std::string(content.text());
    JoinedText out;
    const auto read = [&](std::string_view type, JsonView block, const std::string& here) -> Result<void> {
      if (type == "text") return add_text(block, here, out);
      if (type != "image" && type != "document") return not_served(type, here, "text, image or document");
      out.add("[" + std::string(type) + " left out]");
      note("Images and documents in results of tools are left out: models read text here.");
      return {};
    };
    if (auto ok = each_block(content, place, read); !ok) return pass(ok);
    return out.text();
  }

  void note(std::string_view text) {
    if (note_.contains(text)) return;
    if (!note_.empty()) note_.push_back(' ');
    note_ += text;
  }

  Result<void> read_assistant(JsonView content, const std::string& place) {
    if (content.is_string()) {
      out_.message("assistant", content.text());
      return {};
    }
    JoinedText text, thinking;
    bool has_calls = false;
    const auto read = [&](std::string_view type, JsonView block, const std::string& here) -> Result<void> {
      if (type == "text") return add_text(block, here, text);
      if (type == "redacted_thinking") return {};
      if (type == "thinking") {
        const auto thought = text_member(block, "thinking", here);
        if (!thought) return pass(thought);
        thinking.add(*thought);
        return {};
      }
      if (type != "tool_use") return not_served(type, here, kOfAssistant);
      has_calls = true;
      return check_call(block, here);
    };
    if (auto ok = each_block(content, place, read); !ok) return ok;
    out_.open_message("assistant");
    out_.member("content", text.text());
    if (!thinking.text().empty()) out_.member("reasoning_content", thinking.text());
    if (has_calls) write_calls(content);
    out_.close();
    return {};
  }

  Result<void> check_call(JsonView block, const std::string& place) {
    const auto id = text_member(block, "id", place), name = text_member(block, "name", place);
    if (!id) return pass(id);
    if (!name) return pass(name);
    // Each result repeats the name of its call.
    if (name->empty() || name->size() > kMaxToolNameBytes)
      return field_error(ErrorCode::invalid_value, place + ".name",
                         "must have 1 to " + std::to_string(kMaxToolNameBytes) + " bytes");
    if (const JsonView input = block.member("input"); input && !input.is_object())
      return field_error(ErrorCode::invalid_value, place + ".input", "must be an object");
    called_.insert_or_assign(*id, *name);
    return {};
  }

  // Precondition: check_call() has taken each.
  void write_calls(JsonView content) {
    out_.key("tool_calls");
    out_.open(JsonKind::array);
    for (const auto& [index, block] : content.members()) {
      if (block.find("type").text() != "tool_use") continue;
      out_.open(JsonKind::object);
      out_.member("id", block.find("id").text());
      out_.member("type", "function");
      out_.key("function");
      out_.open(JsonKind::object);
      out_.member("name", block.find("name").text());
      out_.key("arguments");
      if (const JsonView input = block.member("input")) {
        out_.value(input);
      } else {
        out_.open(JsonKind::object);
        out_.close();
      }
      out_.close();
      out_.close();
    }
    out_.close();
  }

  // Calls `read` with each block's type, the block and its place.
  template <class Read>
  Result<void> each_block(JsonView content, const std::string& place, Read read) {
    if (!content.is_array())
      return field_error(ErrorCode::invalid_value, place, "must be a string or an array of blocks");
    std::size_t i = 0;
    for (const auto& [key, block] : content.members()) {
      const std::string here = place + "[" + std::to_string(i++) + "]";
      const JsonView type = block.is_object() ? block.find("type") : JsonView();
      if (!type.is_string())
        return field_error(ErrorCode::invalid_value, here, "must be an object with a 'type'");
      if (auto ok = read(type.text(), block, here); !ok) return ok;
      // A block that is not served has been refused by its type, whatever members it has.
      if (auto ok = check_members(block, field_table(), FieldOf::part, kBoth, here, unknown_); !ok) return ok;
    }
    return {};
  }

  template <class Add>
  Result<void> each_text(JsonView content, const std::string& place, Add add) {
    return each_block(content, place,
                      [&](std::string_view type, JsonView block, const std::string& here) -> Result<void> {
                        if (type != "text") return not_served(type, here, "text");
                        const auto text = text_member(block, "text", here);
                        if (!text) return pass(text);
                        add(*text);
                        return {};
                      });
  }

  static Result<void> add_text(JsonView block, const std::string& place, JoinedText& out) {
    const auto text = text_member(block, "text", place);
    if (!text) return pass(text);
    out.add(*text);
    return {};
  }

  // A string, or blocks of text alone.
  Result<std::string> read_texts(JsonView content, const std::string& place) {
    if (content.is_string()) return std::string(content.text());
    JoinedText out;
    if (auto ok = each_text(content, place, [&](std::string_view text) { out.add(text); }); !ok)
      return pass(ok);
    return out.text();
  }

  UnknownFields& unknown_;
  MessageWriter out_;
  std::string note_;
  std::map<std::string_view, std::string_view> called_;  // names by the ids of earlier calls
};

}  // namespace

Result<ChatHistory> read_messages(JsonView system, JsonView messages, UnknownFields& unknown) {
  if (!messages.is_array() || messages.size() == 0)
    return field_error(ErrorCode::invalid_value, "messages", "must be an array with at least one message");
  return MessagesReader(messages.bytes().size(), unknown).read(system, messages);
}

}  // namespace flyball::api::anthropic
