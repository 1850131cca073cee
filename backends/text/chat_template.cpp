#include "backends/text/chat_template.hpp"

#include <algorithm>
#include <array>
#include <utility>

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

// The roles that the API lets in. Templates make control tokens of them ('<|' + message.role + '|>').
constexpr std::array<std::string_view, 5> kRoles{"system", "developer", "user", "assistant", "tool"};

// Has every message's role be the template's own text, where it is one of them.
void adopt_roles(jinja::Interpreter& interpreter, jinja::Value messages) {
  for (const std::string_view role : kRoles) interpreter.origins.add(role);
  if (!messages.is(jinja::Kind::sequence)) return;
  for (const jinja::Value message : messages.as_sequence().items) {
    if (!message.is(jinja::Kind::dict)) continue;
    auto* const role = const_cast<jinja::Value*>(message.as_dict().find("role"));
    if (role == nullptr || !role->is_string()) continue;
    const auto* const known = std::ranges::find(kRoles, role->as_text());
    if (known != kRoles.end()) *role = jinja::Value::string(*known);
  }
}

// Packed JSON is always UTF-8; the token texts are checked here.
bool is_text(std::string_view text) {
  return text.size() < kTextBytes && jinja::is_valid_utf8(text);
}

}  // namespace

struct ChatTemplate::Program {
  std::unique_ptr<const jinja::Program> parsed;
  TemplateLimits limits;
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
    return ChatTemplate(std::move(program));
  } catch (const jinja::Failure& failure) {
    return to_error(failure, failure.line);
  }
}

bool ChatTemplate::reads(std::string_view variable) const {
  return program_->parsed->names.find(variable) != program_->parsed->names.end();
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
    const Value messages = value(input.messages, "messages");
    adopt_roles(interpreter, messages);
    interpreter.define("messages", messages);
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
    return to_error(failure, param.empty() ? std::max(failure.line, interpreter.line()) : 0, param);
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
