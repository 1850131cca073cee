// The tools of a chat completion's body, and its client's wish to have them called.
#pragma once

#include <memory>

#include "config/error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api::openai {

// `tools`, `tool_choice` and `parallel_tool_calls`. Null where the answer may call none: there are no tools,
// or the choice is "none". An `allowed_tools` choice leaves the allowed tools alone. invalid_value,
// unsupported_value name the field ("tool_choice.function.name"). `unknown`: gets the members of tools that
// the table of fields lacks.
Result<std::shared_ptr<const ToolSet>> read_tool_set(const Fields& body, UnknownFields& unknown);

}  // namespace flyball::api::openai
