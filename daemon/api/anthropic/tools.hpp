// The tools of a request to Anthropic's API, in the form of every API. Pure.
#pragma once

#include <cstddef>
#include <memory>

#include "config/error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api::anthropic {

// `tools` and `tool_choice` of the body; null where it has no tools. A set is strict where one of its tools
// is. missing_field, invalid_value, unsupported_value ("tools[2].type"): a tool that Anthropic's servers run,
// or whose schema its models know by heart, is refused by its type.
Result<std::shared_ptr<const ToolSet>> read_tool_set(const Fields& body, UnknownFields& unknown);

}  // namespace flyball::api::anthropic
