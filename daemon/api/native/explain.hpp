// The body of POST /v1/route/explain. Pure.
#pragma once

#include <string_view>

#include "daemon/api/operation.hpp"

namespace flyball::api::native {

// A chat or completion body as OpenAI's endpoint takes it, or {"model": ...} alone; and "facts": {name:
// value} on top, which are read when the question is answered, against the targets then in force.
Result<Explain> parse_explain(std::string_view body);

}  // namespace flyball::api::native
