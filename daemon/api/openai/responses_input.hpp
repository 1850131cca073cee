// The input of a response to a chat in the common form. Pure.
#pragma once

#include <string_view>

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/chat_history.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::openai::responses {

// `encrypted_content` of a reasoning item is this, and the reasoning behind it as plain text: clients that
// keep no text of the model's reasoning send it back so. Other servers' encrypted content is left out.
inline constexpr std::string_view kReasoningMark = "flyball:";

// `instructions`: a string or absent. `input`: a string, or an array of items. In what comes out
// - the instructions and the system and developer messages before all other items are one system message;
// - reasoning, messages and calls of the assistant that follow one another are one turn: a message or
//   reasoning behind a message that has no call behind it begins the next turn;
// - a call's output is a message of the role tool, with the call's name where the history has the call.
// missing_field, invalid_value, unsupported_value, unsupported_feature, json_too_deep and json_too_large name
// the member ("input[2].content[0].type"). Members that the table of fields lacks are noted.
Result<ChatHistory> read_input(JsonView instructions, JsonView input, UnknownFields& unknown);

}  // namespace flyball::api::openai::responses
