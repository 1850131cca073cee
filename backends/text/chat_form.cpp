#include "backends/text/chat_form.hpp"

#include <initializer_list>
#include <string>
#include <string_view>

#include "config/json_reader.hpp"

namespace flyball::text {
namespace {

// The words that probes look for in the rendered text. No template has them of its own.
constexpr std::string_view kMark = "flyballmark", kKey = "flyballkey", kValue = "flyballvalue",
                           kName = "flyballcall";
constexpr std::string_view kNone = "None";  // how Python prints null

constexpr std::string_view kTools =
    R"([{"type":"function","function":{"name":"flyballtool","description":"A tool.",)"
    R"("parameters":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}}}])";
constexpr std::string_view kUser = R"({"role":"user","content":"Hello"})";
// Ids have nine letters and digits: some templates refuse others.
constexpr std::string_view kResult =
    R"({"role":"tool","name":"flyballcall","tool_call_id":"abc123DEF","content":"flyballmark"})";

constexpr std::string_view kSunny =
    R"({"role":"tool","name":"flyballcall","tool_call_id":"abc123DEF","content":"sunny"})";

std::string message_of(ChatRole role) {
  return R"({"role":")" + std::string(to_string(role)) + R"(","content":")" + std::string(kMark) + "\"}";
}

// A turn that says something, or "", and calls a tool.
std::string caller(std::string_view says) {
  return R"({"role":"assistant","content":")" + std::string(says) +
         R"(","tool_calls":[{"id":"abc123DEF","type":"function",)"
         R"("function":{"name":"flyballcall","arguments":{"flyballkey":"flyballvalue"}}}]})";
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// Renders probes with one template, until one of them uses up the template's budget.
class Prober {
 public:
  explicit Prober(const ChatTemplate& chat_template) : template_(chat_template) {}

  ChatForm find() {
    for (const ChatRole role : {ChatRole::user, ChatRole::system, ChatRole::assistant}) find_content(role);
    find_system();
    find_calls();
    find_content(ChatRole::tool);
    find_joins();
    return gave_up_ ? ChatForm{} : form_;
  }

 private:
  void find_content(ChatRole role) {
    if (holds(turn(form_, role), kMark)) return;
    ChatForm parts = form_;
    parts.takes_parts(role) = true;
    if (holds(turn(parts, role), kMark)) form_ = parts;
  }

  // A system message that shows nowhere.
  void find_system() {
    if (holds(turn(form_, ChatRole::system), kMark)) return;
    ChatForm tried = form_;
    tried.system_in_user = true;
    if (holds(turn(tried, ChatRole::system), kMark)) form_ = tried;
  }

  // A user's turn behind another one, and behind a result.
  void find_joins() {
    const std::string marked = message_of(ChatRole::user);
    for (const bool behind_result : {false, true}) {
      const auto chat = [&](const ChatForm& form) {
        return behind_result ? rendered(form, {kUser, caller(""), kSunny, marked})
                             : rendered(form, {kUser, marked});
      };
      if (holds(chat(form_), kMark)) continue;
      ChatForm tried = form_;
      (behind_result ? tried.joins_results : tried.joins_users) = true;
      if (holds(chat(tried), kMark)) form_ = tried;
    }
  }

  void find_calls() {
    using Callers = ChatForm::CallersContent;
    const std::size_t nones = count(rendered(form_, {kUser}), kNone);
    for (const bool as_text : {false, true}) {
      for (const Callers content : {Callers::empty, Callers::absent, Callers::none}) {
        ChatForm tried = form_;
        tried.arguments_as_text = as_text;
        tried.callers_content = content;
        const std::string text = rendered(tried, {kUser, caller(""), kResult});
        if (!shows_call(text) || count(text, kNone) > nones) continue;
        form_ = tried;
        return find_split();
      }
    }
  }

  void find_split() {
    const std::string both = caller(kMark);
    if (shows_call(rendered(form_, {kUser, both, kResult}))) return;
    ChatForm split = form_;
    split.splits_callers = true;
    if (const std::string text = rendered(split, {kUser, both, kResult});
        shows_call(text) && holds(text, kMark))
      form_ = split;
  }

  // The call, with its arguments neither printed as Python nor encoded twice.
  static bool shows_call(const std::string& text) {
    const std::string key(kKey);
    return holds(text, kName) && holds(text, kValue) && !holds(text, "'" + key + "'") &&
           !holds(text, "\\\"" + key);
  }

  // A turn of this role that says the mark, after the turns that it needs before it.
  std::string turn(const ChatForm& form, ChatRole role) {
    const std::string marked = message_of(role);
    switch (role) {
      case ChatRole::system:
        return rendered(form, {marked, kUser});
      case ChatRole::user:
        return rendered(form, {marked});
      case ChatRole::assistant:
        return rendered(form, {kUser, marked, kUser});
      case ChatRole::tool:
        break;
    }
    return rendered(form, {kUser, caller(""), kResult});
  }

  // The rendered chat; "" where the template refuses it.
  std::string rendered(const ChatForm& form, std::initializer_list<std::string_view> messages) {
    if (gave_up_) return {};
    std::string json = "[";
    for (const std::string_view message : messages) json.append(json.size() > 1 ? "," : "").append(message);
    const auto chat = read_packed(json + "]"), tools = read_packed(kTools);
    TemplateInput input;
    input.messages = chat->view();
    input.tools = tools->view();
    input.form = form;
    auto out = template_.render(input);
    if (out) return std::move(out->text);
    gave_up_ = out.error().code == ErrorCode::template_budget;
    return {};
  }

  const ChatTemplate& template_;
  ChatForm form_;
  bool gave_up_ = false;
};

}  // namespace

ChatForm find_chat_form(const ChatTemplate& chat_template) {
  return Prober(chat_template).find();
}

}  // namespace flyball::text
