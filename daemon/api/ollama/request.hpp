// Bodies of Ollama's clients to typed requests. Pure; what the template and the tokenizer may object to is
// found later, in the engine.
#pragma once

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::ollama {

// Ollama's defaults, which differ from OpenAI's.
inline constexpr float kTemperature = 0.8F, kTopP = 0.9F;
inline constexpr std::int32_t kTopK = 40;

// All three: missing_field, invalid_value, unsupported_value, unsupported_feature with the place as param.
// Fields that the table of fields lacks are noted in Generate::unknown. A request without a prompt, by which
// clients load a model and unload it, has Wanted::prompt_tokens.

// POST /api/chat.
Result<Generate> parse_chat(JsonView body);
// POST /api/generate: a chat of `system` and `prompt`, or with `raw` a prompt without the model's template.
Result<Generate> parse_generate(JsonView body);
// POST /api/show.
Result<ShowModel> parse_show(JsonView body);

}  // namespace flyball::api::ollama
