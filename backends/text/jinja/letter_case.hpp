// Filters and methods of letter case. Each character stays the template's own, or the client's.
#pragma once

#include "backends/text/jinja/runtime.hpp"

namespace flyball::text::jinja {

Value upper_text(Runtime& runtime, Value self, const Arguments& arguments);
Value lower_text(Runtime& runtime, Value self, const Arguments& arguments);
Value capitalized_text(Runtime& runtime, Value self, const Arguments& arguments);
Value swapped_text(Runtime& runtime, Value self, const Arguments& arguments);
// str.title: a word begins behind whatever has no case.
Value titled_text(Runtime& runtime, Value self, const Arguments& arguments);
// Jinja2's filter: a word begins behind white space and -({[<.
Value titled_words(Runtime& runtime, Value self, const Arguments& arguments);

}  // namespace flyball::text::jinja
