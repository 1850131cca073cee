// Answers of gpt-oss, which are messages: <|channel|>analysis<|message|> and the body, and so on. The first
// one's "<|start|>assistant" is in the prompt. Format: https://cookbook.openai.com/articles/openai-harmony
#pragma once

#include "daemon/api/calls/call_reader.hpp"

namespace flyball::api::calls {

// A whole answer. `in_reasoning` is true while a message of analysis is read.
Reading<bool> harmony_answer(CallReader& reader, bool& in_reasoning);

}  // namespace flyball::api::calls
