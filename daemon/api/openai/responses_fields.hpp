// The fields of requests to OpenAI's Responses API. docs/responses.md is checked against it by a test.
#pragma once

#include "daemon/api/field_table.hpp"

namespace flyball::api::openai::responses {

inline constexpr Endpoints kCreate = 1;

const FieldTable& field_table();

}  // namespace flyball::api::openai::responses
