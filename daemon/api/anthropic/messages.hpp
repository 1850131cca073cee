// The messages of Anthropic's API in the form of every API (chat_history): `system` is the first message,
// results of tools are messages of the role tool, a turn's calls are its `tool_calls` and its thinking is its
// `reasoning_content`. Pure.
#pragma once

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/chat_history.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::anthropic {

// `system`: a string, blocks of text, or absent. `messages`: an array; the blocks of a message may be text,
// tool_result (of the user), tool_use, thinking and redacted_thinking (of the assistant).
// - Blocks of text are joined by newlines. The results in a turn of the user come before its text.
// - A result has the name of the call that it answers, where an earlier turn has that call; the text of one
//   that is an error begins with "Error: ".
// - Redacted thinking is left out, and so is the billing line of `system`, as the note says.
// missing_field, invalid_value, unsupported_value, unsupported_feature name the member
// ("messages[2].content[0].type").
Result<ChatHistory> read_messages(JsonView system, JsonView messages, UnknownFields& unknown);

}  // namespace flyball::api::anthropic
