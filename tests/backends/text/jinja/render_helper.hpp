// Short ways to render in tests.
#pragma once

#include <string>
#include <string_view>

#include "backends/text/chat_template.hpp"

namespace flyball::text {

inline Result<std::string> render(std::string_view source, std::string messages = "[]", std::string args = "",
                                  TemplateLimits limits = {}) {
  const auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed) return std::unexpected(parsed.error());
  TemplateInput input;
  input.messages_json = std::move(messages);
  input.template_args_json = std::move(args);
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  return parsed->render(input);
}

// The text, or "code: message (where)".
inline std::string shown(const Result<std::string>& result) {
  if (result) return *result;
  return std::string(to_string(result.error().code)) + ": " + result.error().message + " (" +
         result.error().where + ")";
}

}  // namespace flyball::text
