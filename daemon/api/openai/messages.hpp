// The prompt of a chat: its messages, tools and further variables of the template.
#pragma once

#include <string>

#include "backends/backend.hpp"
#include "config/error.hpp"
#include "daemon/api/fields.hpp"

namespace flyball::api::openai {

// The prompt in a chat completion's body, its messages as read_chat_messages() has them. `note`: what it
// notes. `unknown`: gets the members of messages and tools that the table of fields lacks. missing_field,
// invalid_value, unsupported_value name the field ("tools[2].type").
Result<ChatPrompt> read_chat_prompt(const Fields& body, std::string& note, UnknownFields& unknown);

}  // namespace flyball::api::openai
