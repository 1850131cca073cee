// A client's body to a typed request: POST /tokenize and POST /detokenize, as vLLM and llama.cpp have them
// beside OpenAI's API. Pure.
#pragma once

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::openai {

// A body with `messages` is a chat's, whose fields that only an answer has do nothing. Any other has its text
// as `prompt` (vLLM) or `content` (llama.cpp), which differ in whether BOS and EOS are added by default.
// Errors as parse_generate().
Result<Generate> parse_tokenize(JsonView body);

// {"model": ID, "tokens": [1, 2]}. missing_field, invalid_value.
Result<Generate> parse_detokenize(JsonView body);

}  // namespace flyball::api::openai
