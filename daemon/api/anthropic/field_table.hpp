// The fields of requests to Anthropic's paths. docs/anthropic.md is checked against it by a test.
#pragma once

#include "daemon/api/field_table.hpp"

namespace flyball::api::anthropic {

inline constexpr Endpoints kMessages = 1, kCountTokens = 2, kBoth = 3;

const FieldTable& field_table();

}  // namespace flyball::api::anthropic
