// A model's chat template: Jinja source from an untrusted file, parsed once, rendered under bounds. What it
// renders is what Jinja2's sandboxed environment (trim_blocks, lstrip_blocks, as Hugging Face transformers
// sets it) renders. Immutable after parse; render is thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/answer_form.hpp"
#include "backends/text/jinja/text_span.hpp"
#include "config/error.hpp"
#include "config/packed_json.hpp"

namespace flyball::text {

struct TemplateLimits {
  std::uint64_t fuel = 2'000'000;  // evaluation steps, loop iterations and bytes read or copied / 16
  std::uint32_t depth = 64;        // nesting of the source, of calls, of values
  std::size_t source_bytes = 256 * 1024;
  std::size_t output_bytes = 8 * 1024 * 1024;
};

enum class ChatRole : std::uint8_t { system, user, assistant, tool };
inline constexpr std::array kChatRoles{ChatRole::system, ChatRole::user, ChatRole::assistant, ChatRole::tool};
std::string_view to_string(ChatRole role) noexcept;

// The form in which a template is given what a chat says. Plain: content a string, arguments an object.
struct ChatForm {
  // The content of an assistant's turn that calls tools and says nothing: "", no member, or null.
  enum class CallersContent : std::uint8_t { empty, absent, none };

  // Whether the role's content is a list of parts, [{"type": "text", "text": ...}].
  bool& takes_parts(ChatRole role) noexcept { return parts[static_cast<std::size_t>(role)]; }
  bool takes_parts(ChatRole role) const noexcept { return parts[static_cast<std::size_t>(role)]; }
  std::array<bool, kChatRoles.size()> parts{};
  bool arguments_as_text = false;  // a call's arguments as JSON text
  CallersContent callers_content = CallersContent::empty;
  // Whether a turn that says something and calls tools is given as two: the template would drop the calls.
  bool splits_callers = false;
  // Whether a system message is given as the beginning of the user's turn behind it: the template has no
  // place for one.
  bool system_in_user = false;
  // Whether a user's turn behind another one is given as the end of that, and one behind the result of a
  // call: the template wants an answer in between.
  bool joins_users = false, joins_results = false;
  bool operator==(const ChatForm&) const = default;
};

struct TemplateInput {
  JsonView messages;       // array of objects; the bytes behind the views outlive the render
  JsonView tools;          // array; absent: the variable is none
  JsonView template_args;  // object of further variables, or absent
  std::string bos_token, eos_token;
  ChatForm form = {};  // the messages are brought into it
  bool add_generation_prompt = true;
  std::int64_t now = 0;  // seconds since the epoch, for strftime_now
  // More than these the model cannot take; the render ends there.
  std::size_t most_bytes = SIZE_MAX;
};

struct Rendered {
  std::string text;
  // Parts of the text that are the template's own: copies of its source, of bos_token and eos_token, and of
  // the messages' roles. All else came from the client. In order, apart.
  std::vector<TextSpan> written;
  bool operator==(const Rendered&) const = default;
};

class ChatTemplate {
 public:
  // template_error with line and what was expected; template_budget for limits.
  static Result<ChatTemplate> parse(std::string_view source, TemplateLimits limits = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Whether the source names this variable: one that it does not name cannot show in what it renders.
  bool reads(std::string_view variable) const;
  // The form that find_answer_form() tells of the source.
  const AnswerForm& answer_form() const noexcept;

  // template_error: undefined operations, and raise_exception(msg) with the template's own message; `param`
  // is the message that a loop of the template was at ("messages[2]"), else "messages". template_budget: out
  // of fuel, depth or output. invalid_json: template_args is no object. json_too_deep: an input nests deeper
  // than limits.depth. The variable `documents` is none unless template_args sets it, as transformers has it.
  // context_length_exceeded: it writes more than input.most_bytes.
  Result<Rendered> render(const TemplateInput& input) const;

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

// ChatML, for files that carry none.
std::string_view default_chat_template() noexcept;

}  // namespace flyball::text
