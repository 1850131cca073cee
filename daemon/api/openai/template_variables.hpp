// The further variables of a chat template that a body sets: `chat_template_kwargs`, and an effort beside
// them.
#pragma once

#include <string>

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/fields.hpp"

namespace flyball::api::openai {

// `effort`: a string at `place`, or absent. Empty where the body sets nothing. invalid_value names the field.
Result<PackedJson> read_variables(const Fields& body, JsonView effort, const std::string& place);

}  // namespace flyball::api::openai
