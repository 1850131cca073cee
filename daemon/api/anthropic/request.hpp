// Bodies of Anthropic's clients to typed requests. Pure; what the template and the tokenizer may object to is
// found later, in the engine.
#pragma once

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::anthropic {

// Both: missing_field, invalid_value, unsupported_value, unsupported_feature with the place as param. Fields
// that the table of fields lacks are noted in `unknown`.

// POST /v1/messages.
Result<Generate> parse_messages(JsonView body);

// POST /v1/messages/count_tokens: a request for the tokens of the prompt that parse_messages() has of the
// same messages, system and tools.
Result<Generate> parse_count_tokens(JsonView body);

}  // namespace flyball::api::anthropic
