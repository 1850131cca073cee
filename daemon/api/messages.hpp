// Chat messages and tools: checked, then passed on as JSON text in the client's own key order, as templates
// print it.
#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "backends/backend.hpp"
#include "config/error.hpp"

namespace flyball::api {

// `text` is the document that `body` was read from. Text parts become one string, joined by newlines; the
// role "developer" becomes "system". missing_field, invalid_value, unsupported_value name the field
// ("messages[2].role").
Result<ChatPrompt> read_chat_prompt(const nlohmann::json& body, std::string_view text);

}  // namespace flyball::api
