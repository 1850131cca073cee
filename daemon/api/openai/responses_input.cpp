#include "daemon/api/openai/responses_input.hpp"

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/capabilities.hpp"
#include "config/name_list.hpp"
#include "daemon/api/call_arguments.hpp"
#include "daemon/api/features.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/joined_text.hpp"
#include "daemon/api/message_writer.hpp"
#include "daemon/api/openai/responses_fields.hpp"
#include "daemon/api/openai/responses_namespaces.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api::openai::responses {
namespace {

constexpr std::string_view kResultsLeftOut =
    "Images and files in outputs of calls are left out: models read text here.";

bool is_picture_or_file(std::string_view type) noexcept {
  return type == "input_image" || type == "input_file";
}

// The item or part has a type that its place does not have.
std::unexpected<Error> not_served(std::string_view type, const std::string& place, std::string_view served) {
  if (type == "input_image")
    return std::unexpected(unserved(config::capability(config::Feature::vision), place + ".type"));
  if (type == "input_audio")
    return std::unexpected(unserved(config::capability(config::Feature::audio), place + ".type"));
  if (type == "item_reference")
    return field_error(ErrorCode::unsupported_feature, place + ".type",
                       "is \"item_reference\", and no item of an earlier response is kept: send the item "
                       "itself, as clients do that are told 'store: false'");
  const ErrorCode code = type == "input_file" ? ErrorCode::unsupported_feature : ErrorCode::unsupported_value;
  return field_error(code, place + ".type",
                     "is " + config::quoted(type) + ", but is served as " + std::string(served) + " only");
}

class InputReader {
 public:
  InputReader(std::size_t bytes, UnknownFields& unknown) : unknown_(unknown), out_(bytes) {}

  Result<ChatHistory> read(JsonView instructions, JsonView input) {
    out_.open(JsonKind::array);
    if (instructions) add_system(instructions.text());
    if (input.is_string()) {
      end_head();
      out_.message("user", input.text());
    } else {
      std::size_t i = 0;
      for (const auto& [key, item] : input.members())
        if (auto ok = read_item(item, "input[" + std::to_string(i++) + "]"); !ok) return pass(ok);
    }
    end_head();
    if (auto ok = end_turn(); !ok) return pass(ok);
    if (auto ok = check_number(); !ok) return pass(ok);
    out_.close();
    note(arguments_.note());
    return ChatHistory{out_.take(), std::move(note_)};
  }

 private:
  // One turn of the assistant, until the item that ends it.
  struct Turn {
    struct Call {
      JsonView item;
      std::string name;  // joined with its namespace
      std::string place;
    };
    JoinedText text, reasoning;
    std::vector<Call> calls;
    bool begun = false;
  };

  Result<void> check_number() const {
    if (out_.written() <= kMaxMessages) return {};
    return field_error(ErrorCode::invalid_value, "input",
                       "has more messages and outputs than the limit of " + std::to_string(kMaxMessages));
  }

  Result<void> read_item(JsonView item, const std::string& place) {
    if (auto ok = check_number(); !ok) return ok;
    if (!item.is_object()) return field_error(ErrorCode::invalid_value, place, "must be an object");
    const JsonView type = item.member("type");
    if (type && !type.is_string())
      return field_error(ErrorCode::invalid_value, place + ".type", "must be a string");
    if (!type && !item.member("role"))
      return field_error(ErrorCode::missing_field, place + ".type", "is required");
    if (!type || type.text() == "message")
      return checked(item, FieldOf::input_message, place, &InputReader::message);
    if (type.text() == "function_call") return checked(item, FieldOf::input_call, place, &InputReader::call);
    if (type.text() == "function_call_output")
      return checked(item, FieldOf::input_result, place, &InputReader::result);
    if (type.text() == "reasoning")
      return checked(item, FieldOf::input_reasoning, place, &InputReader::reasoning);
    return not_served(type.text(), place, "message, function_call, function_call_output or reasoning");
  }

  using Read = Result<void> (InputReader::*)(JsonView item, const std::string& place);
  Result<void> checked(JsonView item, FieldOf of, const std::string& place, Read step) {
    if (auto ok = (this->*step)(item, place); !ok) return ok;
    return check_members(item, field_table(), of, kCreate, place, unknown_);
  }

  Result<void> message(JsonView item, const std::string& place) {
    const auto role = text_member(item, "role", place);
    if (!role) return pass(role);
    const bool is_system = *role == "system" || *role == "developer";
    if (!is_system && *role != "user" && *role != "assistant")
      return field_error(ErrorCode::invalid_value, place + ".role",
                         "must be one of user, assistant, system, developer");
    const JsonView content = item.member("content");
    if (!content) return field_error(ErrorCode::missing_field, place + ".content", "is required");
    JoinedText text;
    if (content.is_string())
      text.add(content.text());
    else if (auto ok = each_text(content, place + ".content", *role == "assistant", text); !ok)
      return ok;
    if (is_system && in_head_) {
      add_system(text.text());
      return {};
    }
    end_head();
    if (*role == "assistant") {
      if (auto ok = begin_step(); !ok) return ok;
      turn_.text.add(text.text());
      return {};
    }
    if (auto ok = end_turn(); !ok) return ok;
    out_.message(is_system ? "system" : "user", text.text());
    return {};
  }

  Result<void> call(JsonView item, const std::string& place) {
    const auto id = text_member(item, "call_id", place), name = text_member(item, "name", place);
    if (!id) return pass(id);
    if (!name) return pass(name);
    const JsonView space = item.member("namespace");
    if (space && !space.is_string())
      return field_error(ErrorCode::invalid_value, place + ".namespace", "must be a string");
    if (space && space.text().size() > kMaxToolNameBytes)
      return field_error(ErrorCode::invalid_value, place + ".namespace",
                         "has more than " + std::to_string(kMaxToolNameBytes) + " bytes");
    const std::string called = Namespaces::joined({space ? space.text() : std::string_view(), *name});
    // Each output repeats the name of its call.
    if (name->empty() || called.size() > kMaxToolNameBytes)
      return field_error(
          ErrorCode::invalid_value, place + ".name",
          "must have 1 to " + std::to_string(kMaxToolNameBytes) + " bytes, with its namespace");
    // An object would nest deeper in the chat than in the body.
    if (const auto arguments = text_member(item, "arguments", place); !arguments) return pass(arguments);
    called_.insert_or_assign(*id, called);
    end_head();
    turn_.begun = true;
    turn_.calls.push_back({item, called, place});
    return {};
  }

  Result<void> result(JsonView item, const std::string& place) {
    const auto id = text_member(item, "call_id", place);
    if (!id) return pass(id);
    const JsonView output = item.member("output");
    if (!output) return field_error(ErrorCode::missing_field, place + ".output", "is required");
    JoinedText text;
    if (output.is_string())
      text.add(output.text());
    else if (auto ok = result_parts(output, place + ".output", text); !ok)
      return ok;
    end_head();
    if (auto ok = end_turn(); !ok) return ok;
    out_.open_message("tool");
    out_.member("tool_call_id", *id);
    if (const auto call = called_.find(*id); call != called_.end()) out_.member("name", call->second);
    out_.member("content", text.text());
    out_.close();
    return {};
  }

  // A refusal would end the whole session of an agent that has read a picture.
  Result<void> result_parts(JsonView parts, const std::string& place, JoinedText& text) {
    return each_part(
        parts, place, [&](std::string_view type, JsonView part, const std::string& here) -> Result<void> {
          if (is_picture_or_file(type)) {
            text.add("[" + std::string(type.substr(std::string_view("input_").size())) + " left out]");
            note(kResultsLeftOut);
            return {};
          }
          if (type != "input_text" && type != "text") return not_served(type, here, "input_text");
          return add_text(part, "text", here, text);
        });
  }

  Result<void> reasoning(JsonView item, const std::string& place) {
    JoinedText content, summary;
    if (auto ok = reasoning_parts(item, "content", "reasoning_text", place, content); !ok) return ok;
    if (auto ok = reasoning_parts(item, "summary", "summary_text", place, summary); !ok) return ok;
    const JsonView encrypted = item.member("encrypted_content");
    if (encrypted && !encrypted.is_string())
      return field_error(ErrorCode::invalid_value, place + ".encrypted_content", "must be a string");
    end_head();
    if (auto ok = begin_step(); !ok) return ok;
    if (content.any())
      turn_.reasoning.add(content.text());
    else if (encrypted && encrypted.text().starts_with(kReasoningMark))
      turn_.reasoning.add(encrypted.text().substr(kReasoningMark.size()));
    else if (summary.any())
      turn_.reasoning.add(summary.text());
    return {};
  }

  Result<void> reasoning_parts(JsonView item, std::string_view name, std::string_view type,
                               const std::string& item_place, JoinedText& text) {
    const JsonView parts = item.member(name);
    if (!parts) return {};
    return each_part(parts, item_place + "." + std::string(name),
                     [&](std::string_view found, JsonView part, const std::string& here) -> Result<void> {
                       if (found != type) return not_served(found, here, type);
                       return add_text(part, "text", here, text);
                     });
  }

  Result<void> each_text(JsonView content, const std::string& place, bool of_assistant, JoinedText& text) {
    return each_part(
        content, place, [&](std::string_view type, JsonView part, const std::string& here) -> Result<void> {
          if (type == "refusal" && of_assistant) return add_text(part, "refusal", here, text);
          if (type != "input_text" && type != "output_text" && type != "text")
            return not_served(type, here, of_assistant ? "output_text or refusal" : "input_text");
          return add_text(part, "text", here, text);
        });
  }

  // Calls `read` with each part's type, the part and its place.
  template <class Each>
  Result<void> each_part(JsonView parts, const std::string& place, Each read) {
    if (!parts.is_array())
      return field_error(ErrorCode::invalid_value, place, "must be a string or an array of parts");
    std::size_t i = 0;
    for (const auto& [key, part] : parts.members()) {
      const std::string here = place + "[" + std::to_string(i++) + "]";
      const JsonView type = part.is_object() ? part.find("type") : JsonView();
      if (!type.is_string())
        return field_error(ErrorCode::invalid_value, here, "must be an object with a 'type'");
      if (auto ok = read(type.text(), part, here); !ok) return ok;
      // Members of a picture or a file are left out with it.
      if (is_picture_or_file(type.text())) continue;
      if (auto ok = check_members(part, field_table(), FieldOf::input_part, kCreate, here, unknown_); !ok)
        return ok;
    }
    return {};
  }

  static Result<void> add_text(JsonView part, std::string_view name, const std::string& place,
                               JoinedText& text) {
    const auto value = text_member(part, name, place);
    if (!value) return pass(value);
    text.add(*value);
    return {};
  }

  void note(std::string_view text) {
    if (text.empty() || note_.contains(text)) return;
    if (!note_.empty()) note_.push_back(' ');
    note_ += text;
  }

  // A client that has no instructions may send "".
  void add_system(std::string_view text) {
    if (!text.empty()) system_.add(text);
  }

  // No item but system messages came before.
  void end_head() {
    if (std::exchange(in_head_, false) && system_.any()) out_.message("system", system_.text());
  }

  // The assistant writes a message or reasons.
  Result<void> begin_step() {
    if (turn_.text.any() && turn_.calls.empty())
      if (auto ok = end_turn(); !ok) return ok;
    turn_.begun = true;
    return {};
  }

  Result<void> end_turn() {
    const Turn turn = std::exchange(turn_, {});
    if (!turn.begun) return {};
    out_.open_message("assistant");
    out_.member("content", turn.text.text());
    if (!turn.reasoning.text().empty()) out_.member("reasoning_content", turn.reasoning.text());
    if (!turn.calls.empty()) {
      out_.key("tool_calls");
      out_.open(JsonKind::array);
      for (const Turn::Call& one : turn.calls)
        if (auto ok = write_call(one); !ok) return ok;
      out_.close();
    }
    out_.close();
    return {};
  }

  Result<void> write_call(const Turn::Call& call) {
    out_.open(JsonKind::object);
    out_.member("id", call.item.find("call_id").text());
    out_.member("type", "function");
    out_.key("function");
    out_.open(JsonKind::object);
    out_.member("name", call.name);
    out_.key("arguments");
    if (auto ok = arguments_.read(call.item.find("arguments"), call.place + ".arguments", out_); !ok)
      return ok;
    out_.close();
    out_.close();
    return {};
  }

  UnknownFields& unknown_;
  MessageWriter out_;
  JoinedText system_;
  bool in_head_ = true;
  Turn turn_;
  CallArguments arguments_;
  std::string note_;
  std::map<std::string_view, std::string> called_;  // names by the ids of earlier calls
};

}  // namespace

Result<ChatHistory> read_input(JsonView instructions, JsonView input, UnknownFields& unknown) {
  if (instructions && !instructions.is_string())
    return field_error(ErrorCode::invalid_value, "instructions", "must be a string");
  if (!input.is_string() && (!input.is_array() || input.size() == 0))
    return field_error(ErrorCode::invalid_value, "input",
                       "must be a string, or an array with at least one item");
  return InputReader(input.bytes().size(), unknown).read(instructions, input);
}

}  // namespace flyball::api::openai::responses
