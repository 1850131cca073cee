// Short ways to render in tests.
#pragma once

#include <string>
#include <string_view>

#include "backends/text/chat_template.hpp"
#include "config/json_reader.hpp"

namespace flyball::text {

inline Result<std::string> render(std::string_view source, std::string messages = "[]", std::string args = "",
                                  TemplateLimits limits = {}) {
  const auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed) return std::unexpected(parsed.error());
  const auto pack = [](const std::string& text) -> Result<PackedJson> {
    if (text.empty()) return PackedJson();
    return read_packed(text, {.depth = 1000}, text.substr(0, 100));
  };
  const auto packed_messages = pack(messages), packed_args = pack(args);
  if (!packed_messages) return std::unexpected(packed_messages.error());
  if (!packed_args) return std::unexpected(packed_args.error());
  TemplateInput input;
  input.messages = packed_messages->view();
  input.template_args = packed_args->view();
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  auto rendered = parsed->render(input);
  if (!rendered) return std::unexpected(rendered.error());
  return std::move(rendered->text);
}

// The text, or "code: message (where)".
inline std::string shown(const Result<std::string>& result) {
  if (result) return *result;
  return std::string(to_string(result.error().code)) + ": " + result.error().message + " (" +
         result.error().where + ")";
}

}  // namespace flyball::text
