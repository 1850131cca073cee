// The filters, in two files by what they work on; find_filter (filters_sequence.cpp) looks through both
// tables. Beside them the methods of texts.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "backends/text/jinja/runtime.hpp"

namespace flyball::text::jinja {

using NamedNative = std::pair<std::string_view, Native>;
std::span<const NamedNative> text_filters() noexcept;      // text and numbers
std::span<const NamedNative> sequence_filters() noexcept;  // sequences and mappings
std::span<const NamedNative> text_methods() noexcept;

}  // namespace flyball::text::jinja
