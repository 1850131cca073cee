// The prompt of a chat: its messages, tools and further variables of the template.
#pragma once

#include "backends/backend.hpp"
#include "config/error.hpp"
#include "daemon/api/fields.hpp"

namespace flyball::api::openai {

// The prompt in a chat completion's body, its messages as read_chat_messages() has them. `out` gets its
// tools, a note of how it was read, and the members of messages and tools that the table of fields lacks.
// missing_field, invalid_value, unsupported_value name the field ("tools[2].type").
Result<ChatPrompt> read_chat_prompt(const Fields& body, Generate& out);

}  // namespace flyball::api::openai
