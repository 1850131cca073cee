#include "daemon/api/tool_prompt.hpp"

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "daemon/api/json_rewriter.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api {
namespace {

std::string_view text_member(JsonView object, std::string_view name) noexcept {
  const JsonView value = object.member(name);
  return value.is_string() ? value.text() : std::string_view();
}

bool is_result(JsonView message) noexcept {
  return text_member(message, "role") == "tool";
}

// The part of the system message that tells the tools.
std::string tools_text(JsonView tools, const ToolSet* wish, bool has_format) {
  std::string out = "You can call tools. Each line has one, with the JSON Schema of its parameters:\n";
  for (const auto& [key, tool] : tools.members()) {
    append_json(out, tool.find("function"));
    out.push_back('\n');
  }
  out += "To call a tool, answer with this JSON object alone: ";
  out += R"({"name": "the tool's name", "arguments": {"parameter": "value"}})";
  out += "\nIts result comes in the next message.";
  if (wish == nullptr || wish->choice != ToolSet::Choice::required)
    return has_format ? out : out + " Without a call, answer in plain text.";
  if (wish->named.empty()) return out + " Answer with a call now.";
  out += " Answer with a call of ";
  append_json_string(out, wish->named);
  return out + " now.";
}

class ToldChat {
 public:
  ToldChat(const ChatPrompt& prompt, const ToolSet* wish, bool has_format)
      : prompt_(prompt), out_(prompt.messages.bytes().size() + prompt.tools.bytes().size()) {
    if (!prompt.tools.empty()) told_ = tools_text(prompt.tools.view(), wish, has_format);
  }

  PackedJson read() {
    out_.open(JsonKind::array);
    const JsonView messages = prompt_.messages.view();
    if (const auto first = messages.members().begin();
        !told_.empty() && text_member((*first).value, "role") != "system")
      message("system", std::exchange(told_, {}));
    for (const auto& [key, one] : messages.members()) {
      if (is_result(one)) {
        add_result(one);
        continue;
      }
      if (!results_.empty() && text_member(one, "role") == "user") {
        results_.push_back('\n');
        with_content(one, std::exchange(results_, {}).append(text_member(one, "content")));
        continue;
      }
      end_results();
      if (!told_.empty())
        system(one);
      else if (one.member("tool_calls"))
        turn_with_calls(one);
      else
        out_.value(one);
    }
    end_results();
    out_.close();
    return out_.take();
  }

 private:
  void message(std::string_view role, std::string_view content) {
    out_.open(JsonKind::object);
    out_.key("role");
    out_.string(role);
    out_.key("content");
    out_.string(content);
    out_.close();
  }

  // The same message with this content, and without calls.
  void with_content(JsonView message, std::string_view content) {
    out_.open(JsonKind::object);
    for (const auto& [key, value] : message.members()) {
      if (key == "tool_calls") continue;
      out_.key(key);
      if (key == "content")
        out_.string(content);
      else
        out_.value(value);
    }
    out_.close();
  }

  void system(JsonView message) {
    std::string content = std::exchange(told_, {});
    content += "\n\n";
    content += text_member(message, "content");
    with_content(message, content);
  }

  void turn_with_calls(JsonView message) {
    std::string content(text_member(message, "content"));
    for (const auto& [key, call] : message.find("tool_calls").members()) {
      const JsonView function = call.find("function");
      const std::string_view name = text_member(function, "name");
      if (const std::string_view id = text_member(call, "id"); !id.empty()) called_[id] = name;
      if (!content.empty()) content.push_back('\n');
      content += R"({"name": )";
      append_json_string(content, name);
      content += R"(, "arguments": )";
      append_json(content, function.find("arguments"));
      content.push_back('}');
    }
    with_content(message, content);
  }

  void add_result(JsonView message) {
    if (!results_.empty()) results_.push_back('\n');
    results_ += "Tool result";
    if (const std::string_view name = name_of(message); !name.empty()) results_.append(" of ").append(name);
    results_.append(": ").append(text_member(message, "content"));
  }

  std::string_view name_of(JsonView result) const {
    for (const std::string_view member : {"name", "tool_name"})
      if (const std::string_view name = text_member(result, member); !name.empty()) return name;
    const auto found = called_.find(text_member(result, "tool_call_id"));
    return found == called_.end() ? std::string_view() : found->second;
  }

  void end_results() {
    if (!results_.empty()) message("user", std::exchange(results_, {}));
  }

  const ChatPrompt& prompt_;
  JsonRewriter out_;
  std::string told_;                                               // "": nothing is left to tell
  std::string results_;                                            // those that no turn has yet
  std::unordered_map<std::string_view, std::string_view> called_;  // names by the ids of calls
};

}  // namespace

bool has_tool_parts(const ChatPrompt& prompt) noexcept {
  if (!prompt.tools.empty()) return true;
  for (const auto& [key, message] : prompt.messages.view().members())
    if (is_result(message) || message.member("tool_calls")) return true;
  return false;
}

ChatPrompt tell_tools(const ChatPrompt& prompt, const ToolSet* wish, bool has_format) {
  return {.messages = ToldChat(prompt, wish, has_format).read(),
          .tools = {},
          .template_args = prompt.template_args,
          .add_generation_prompt = prompt.add_generation_prompt,
          .control_tokens_in_content = prompt.control_tokens_in_content};
}

}  // namespace flyball::api
