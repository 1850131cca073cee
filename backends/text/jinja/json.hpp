// JSON in and out of a render: inputs to values with bounded depth, and json.dumps.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/text/jinja/runtime.hpp"
#include "config/packed_json.hpp"

namespace flyball::text::jinja {

// The value that `json` describes, none where it is absent. Texts are views of its bytes, which outlive the
// render. Throws Failure json_too_deep, naming the input `what`.
Value from_json(Heap& heap, JsonView json, std::uint32_t depth, std::string_view what);

// The tojson filter as Hugging Face transformers defines it: ensure_ascii, indent, separators, sort_keys.
Value to_json(Runtime& runtime, Value value, const Arguments& arguments);

}  // namespace flyball::text::jinja
