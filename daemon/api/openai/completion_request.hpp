// A client's body to a typed request: POST /v1/chat/completions and POST /v1/completions. Pure; what the
// template and the tokenizer may object to is found later, in the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/openai/field_table.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::openai {

// Limits beside those of the table of fields.
inline constexpr std::size_t kMaxLogitBias = 1'024;
inline constexpr std::size_t kMaxChoices = 16;         // prompts times n
inline constexpr std::uint32_t kLegacyMaxTokens = 16;  // the API's default for completions

// missing_field, invalid_value, unsupported_value, unsupported_feature. A constraint is read and not
// compiled. Fields that the table of fields lacks are noted in Generate::unknown. `also`: another endpoint
// whose fields the body may have. The writer of the answer comes with the request.
Result<Generate> parse_generate(Generate::Kind kind, JsonView body, Endpoints also = {});

// The token ids of an array, perhaps none. invalid_value at `field`: an element is none.
Result<TokenPrompt> read_tokens(JsonView array, std::string_view field);

}  // namespace flyball::api::openai
