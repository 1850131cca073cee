// A client's body to a typed request: POST /v1/responses. Pure; what the template and the tokenizer may
// object to is found later, in the engine.
#pragma once

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::openai::responses {

// missing_field, invalid_value, unsupported_value, unsupported_feature. A constraint is read and not
// compiled. Fields that the table of fields lacks are noted in Generate::unknown. The writer of the answer
// comes with the request.
Result<Generate> parse_create(JsonView body);

}  // namespace flyball::api::openai::responses
