// Text work that several filters and methods share: bounded search, HTML escaping, Python's two formatting
// languages.
#pragma once

#include <string_view>

#include "backends/text/jinja/runtime.hpp"

namespace flyball::text::jinja {

// Byte offset of the first `needle` at or after byte `from`, or npos. Linear time, paid for.
std::size_t find_text(Runtime& runtime, std::string_view text, std::string_view needle, std::size_t from);
void append_escaped(TextBuilder& out, std::string_view text);  // & < > " ' as markupsafe does

// format % value: %s %r %d %i %u %f %F %e %g %x %X %o %c %% with flags, width and precision.
Value format_percent(Runtime& runtime, std::string_view format, Value value);
// str.format: {} {0} {name}, with .attribute, [item], !s and !r; format specs fail.
Value format_braces(Runtime& runtime, std::string_view format, const Arguments& arguments);

// text.replace(from, to, count); every occurrence when count < 0.
Value replace_text(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to,
                   std::int64_t count);
// text with `fill` on both sides up to `width` code points, as ljust, rjust and center lay it out.
enum class Align { left, right, center };
Value pad_text(Runtime& runtime, std::string_view text, std::int64_t width, std::string_view fill,
               Align align);
// The lines of a text, as str.splitlines cuts them.
std::vector<std::string_view> lines_of(Runtime& runtime, std::string_view text, bool keep_ends);

}  // namespace flyball::text::jinja
