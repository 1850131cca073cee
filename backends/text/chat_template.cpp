#include "backends/text/chat_template.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "backends/text/answer_form.hpp"
#include "backends/text/jinja/failure.hpp"
#include "backends/text/jinja/interpreter.hpp"
#include "backends/text/jinja/json.hpp"
#include "backends/text/jinja/parser.hpp"
#include "backends/text/jinja/unicode.hpp"

namespace flyball::text {
namespace {

// Texts are counted in 32 bits inside; no limit above this is honoured.
constexpr std::size_t kTextBytes = std::size_t{1} << 30;

// What raise_exception or an undefined name puts into a message may be as long as the output.
constexpr std::size_t kMessageBytes = 1000;

std::string clipped(const std::string& message) {
  if (message.size() <= kMessageBytes) return message;
  return message.substr(0, jinja::previous(message, kMessageBytes + 1)) + "...";
}

std::unexpected<Error> to_error(const jinja::Failure& failure, std::uint32_t line, std::string param = {}) {
  return fail(failure.code, clipped(failure.message), std::move(param),
              line == 0 ? "" : "line " + std::to_string(line));
}

// The member of a message or call, for writing; null where there is none.
jinja::Value* member(jinja::Value object, std::string_view key) {
  if (!object.is(jinja::Kind::dict)) return nullptr;
  return const_cast<jinja::Value*>(object.as_dict().find(key));
}

// The role of a message as the template's own text, where it is one that the API lets in: templates make
// control tokens of roles ('<|' + message.role + '|>').
std::optional<ChatRole> adopt_role(jinja::Value message) {
  jinja::Value* const role = member(message, "role");
  if (role == nullptr || !role->is_string()) return std::nullopt;
  for (const ChatRole known : kChatRoles) {
    if (role->as_text() != to_string(known)) continue;
    *role = jinja::Value::string(to_string(known));
    return known;
  }
  return std::nullopt;
}

jinja::Value text_part(jinja::Heap& heap, jinja::Value text) {
  using jinja::Value;
  jinja::Dict& part = heap.dict();
  heap.set(part, Value::string("type"), Value::string("text"));
  heap.set(part, Value::string("text"), text);
  return Value::dict(&part);
}

jinja::Value without(jinja::Heap& heap, const jinja::Dict& dict, std::string_view key) {
  jinja::Dict& rest = heap.dict();
  for (const auto& [name, value] : dict.entries)
    if (!name.is_string() || name.as_text() != key) heap.set(rest, name, value);
  return jinja::Value::dict(&rest);
}

void write_arguments(jinja::Interpreter& interpreter, jinja::Value calls) {
  if (!calls.is(jinja::Kind::sequence)) return;
  for (const jinja::Value call : calls.as_sequence().items) {
    const jinja::Value* const function = member(call, "function");
    if (function == nullptr) continue;
    if (jinja::Value* const arguments = member(*function, "arguments");
        arguments != nullptr && arguments->is(jinja::Kind::dict))
      *arguments = jinja::to_json(interpreter, *arguments, {});
  }
}

// Appends a message in the form that the template reads.
void append_in_form(const ChatForm& form, ChatRole role, jinja::Interpreter& interpreter,
                    jinja::Value message, std::vector<jinja::Value>& out) {
  using jinja::Value;
  using Callers = ChatForm::CallersContent;
  jinja::Heap& heap = interpreter.heap;
  const Value* const calls = role == ChatRole::assistant ? member(message, "tool_calls") : nullptr;
  if (calls != nullptr && form.arguments_as_text) write_arguments(interpreter, *calls);
  Value* const content = member(message, "content");
  if (content != nullptr && content->is_string()) {
    const bool is_empty = content->as_text().empty();
    if (calls != nullptr && !is_empty && form.splits_callers) {
      append_in_form(form, role, interpreter, without(heap, message.as_dict(), "tool_calls"), out);
      *content = Value::string("");
      for (const std::string_view thought : {"reasoning_content", "reasoning", "thinking"})
        message = without(heap, message.as_dict(), thought);  // the first turn has it
      return append_in_form(form, role, interpreter, message, out);
    }
    if (calls != nullptr && is_empty && form.callers_content == Callers::none)
      *content = Value::none();
    else if (calls != nullptr && is_empty && form.callers_content == Callers::absent)
      message = without(heap, message.as_dict(), "content");
    else if (form.takes_parts(role))
      *content = heap.list(calls != nullptr && is_empty ? std::vector<Value>()
                                                        : std::vector{text_part(heap, *content)});
  }
  out.push_back(message);
}

// Messages whose turns are joined as the form says.
class JoinedTurns {
 public:
  JoinedTurns(const ChatForm& form, jinja::Heap& heap) : form_(form), heap_(heap) {}

  struct Turn {
    jinja::Value message;
    std::optional<ChatRole> role;
    std::size_t number = 0;   // of its first message
    std::string joined = {};  // its content, where it is that of several messages
  };

  void add(jinja::Value message, std::optional<ChatRole> role, std::size_t number) {
    const jinja::Value* const content = member(message, "content");
    const bool was_system = role == ChatRole::system && form_.system_in_user;
    const bool joined = content != nullptr && content->is_string() && is_joined(role);
    last_is_system_ = was_system;
    if (joined) return append(turns_.back(), content->as_text());
    if (was_system) {
      role = ChatRole::user;
      *member(message, "role") = jinja::Value::string(to_string(ChatRole::user));
    }
    turns_.push_back({message, role, number});
  }
  std::vector<Turn> take() {
    for (Turn& turn : turns_)
      if (!turn.joined.empty()) *member(turn.message, "content") = heap_.text(std::move(turn.joined));
    return std::move(turns_);
  }

 private:
  // True where a text of this role is added to the last turn.
  bool is_joined(std::optional<ChatRole> role) const {
    if (turns_.empty()) return false;
    const Turn& last = turns_.back();
    const jinja::Value* const content = member(last.message, "content");
    if (content == nullptr || !content->is_string()) return false;
    if (role != ChatRole::user && !(role == ChatRole::system && form_.system_in_user)) return false;
    if (last_is_system_) return true;
    return (last.role == ChatRole::user && form_.joins_users) ||
           (last.role == ChatRole::tool && form_.joins_results);
  }
  void append(Turn& turn, std::string_view text) {
    if (turn.joined.empty()) turn.joined = member(turn.message, "content")->as_text();
    if (!turn.joined.empty()) turn.joined += "\n\n";
    turn.joined += text;
  }

  const ChatForm& form_;
  jinja::Heap& heap_;
  std::vector<Turn> turns_;
  bool last_is_system_ = false;  // and stands as the user's
};

jinja::Value prepared(jinja::Interpreter& interpreter, const ChatForm& form, jinja::Value messages) {
  for (const ChatRole role : kChatRoles) interpreter.origins.add(to_string(role));
  if (!messages.is(jinja::Kind::sequence)) return messages;
  JoinedTurns joined(form, interpreter.heap);
  std::size_t number = 0;
  for (const jinja::Value message : messages.as_sequence().items)
    joined.add(message, adopt_role(message), number++);
  std::vector<jinja::Value> out;
  for (const auto& turn : joined.take()) {
    const std::size_t first = out.size();
    if (turn.role && form != ChatForm{})
      append_in_form(form, *turn.role, interpreter, turn.message, out);
    else
      out.push_back(turn.message);
    for (std::size_t i = first; i < out.size(); ++i) interpreter.watch(out[i], turn.number);
  }
  return interpreter.heap.list(std::move(out));
}

// Packed JSON is always UTF-8; the token texts are checked here.
bool is_text(std::string_view text) {
  return text.size() < kTextBytes && jinja::is_valid_utf8(text);
}

}  // namespace

std::string_view to_string(ChatRole role) noexcept {
  static constexpr std::array<std::string_view, kChatRoles.size()> kNames{"system", "user", "assistant",
                                                                          "tool"};
  return kNames[static_cast<std::size_t>(role)];
}

struct ChatTemplate::Program {
  std::unique_ptr<const jinja::Program> parsed;
  TemplateLimits limits;
  AnswerForm answer_form;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, TemplateLimits limits) {
  if (source.size() > limits.source_bytes) {
    return fail(ErrorCode::template_budget, "the chat template has " + std::to_string(source.size()) +
                                                " bytes, more than the limit of " +
                                                std::to_string(limits.source_bytes));
  }
  if (!is_text(source)) return fail(ErrorCode::template_error, "the chat template is not valid UTF-8");
  limits.output_bytes = std::min(limits.output_bytes, kTextBytes);
  try {
    auto program = std::make_unique<Program>();
    program->parsed = jinja::parse(source, limits.depth);
    program->limits = limits;
    program->answer_form = find_answer_form(source);
    return ChatTemplate(std::move(program));
  } catch (const jinja::Failure& failure) {
    return to_error(failure, failure.line);
  }
}

bool ChatTemplate::reads(std::string_view variable) const {
  return program_->parsed->names.find(variable) != program_->parsed->names.end();
}

const AnswerForm& ChatTemplate::answer_form() const noexcept {
  return program_->answer_form;
}

Result<Rendered> ChatTemplate::render(const TemplateInput& input) const {
  if (!is_text(input.bos_token) || !is_text(input.eos_token)) {
    return fail(ErrorCode::template_error, "bos_token or eos_token is not valid UTF-8");
  }
  const TemplateLimits& limits = program_->limits;
  jinja::Interpreter interpreter(*program_->parsed, limits.fuel, limits.depth, limits.output_bytes,
                                 input.now);
  std::string param = "messages";
  try {
    const auto value = [&](JsonView json, const char* name) {
      param = name;
      return jinja::from_json(interpreter.heap, json, limits.depth, name);
    };
    using jinja::Value;
    interpreter.define("messages", prepared(interpreter, input.form, value(input.messages, "messages")));
    interpreter.define("tools", value(input.tools, "tools"));
    interpreter.define("documents", Value::none());
    interpreter.define("add_generation_prompt", Value::boolean(input.add_generation_prompt));
    interpreter.origins.add(input.bos_token);
    interpreter.origins.add(input.eos_token);
    interpreter.define("bos_token", Value::string(input.bos_token));
    interpreter.define("eos_token", Value::string(input.eos_token));
    if (input.template_args) {
      const Value more = value(input.template_args, "template_args");
      if (!more.is(jinja::Kind::dict)) {
        return fail(ErrorCode::invalid_json, "template_args is not a JSON object", "template_args");
      }
      for (const auto& [name, one] : more.as_dict().entries) interpreter.define(name.as_text(), one);
    }
    param.clear();
    Rendered rendered;
    rendered.text = interpreter.render(input.most_bytes, rendered.written);
    return rendered;
  } catch (const jinja::Failure& failure) {
    if (!param.empty()) return to_error(failure, 0, param);
    param = "messages";
    if (const auto message = interpreter.watched()) param += "[" + std::to_string(*message) + "]";
    return to_error(failure, std::max(failure.line, interpreter.line()), param);
  }
}

std::string_view default_chat_template() noexcept {
  return R"({%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' }}
{%- if message.content is string %}
{{- message.content }}
{%- else %}
{%- for part in message.content or [] %}{{ part.text }}{% endfor %}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %})";
}

}  // namespace flyball::text
