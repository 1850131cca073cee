// Chat messages and tools: checked, then passed on in the client's own key order, as templates print it.
#pragma once

#include "backends/backend.hpp"
#include "config/error.hpp"
#include "daemon/api/openai/fields.hpp"

namespace flyball::api::openai {

// The prompt in a chat completion's body. Text parts become one string, joined by newlines; the role "developer" becomes
// "system". missing_field, invalid_value, unsupported_value name the field
// ("messages[2].role").
Result<ChatPrompt> read_chat_prompt(const Fields& body);

}  // namespace flyball::api::openai
