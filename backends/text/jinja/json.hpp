// JSON in and out of a render: untrusted inputs to values with bounded depth, and json.dumps.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/text/jinja/runtime.hpp"

namespace flyball::text::jinja {

// Throws Failure: invalid_json (what: which input), json_too_deep.
Value parse_json(Heap& heap, std::string_view text, std::uint32_t depth, std::string_view what);

// The tojson filter as Hugging Face transformers defines it: ensure_ascii, indent, separators, sort_keys.
Value to_json(Runtime& runtime, Value value, const Arguments& arguments);

}  // namespace flyball::text::jinja
