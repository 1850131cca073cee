// The fields of requests to OpenAI's endpoints, with those that clients of other servers send there.
// docs/http-api.md is checked against it by a test.
#pragma once

#include "daemon/api/field_table.hpp"

namespace flyball::api::openai {

inline constexpr Endpoints kChat = 1, kCompletions = 2, kBoth = 3, kExplain = 4, kTokenize = 8,
                           kDetokenize = 16, kEverywhere = 31;

const FieldTable& field_table();

}  // namespace flyball::api::openai
