// Functions every template can call, and the methods of the objects they make.
#pragma once

#include <string_view>

#include "backends/text/jinja/runtime.hpp"

namespace flyball::text::jinja {

// loop.cycle, loop.changed, cycler.next, cycler.reset.
Native find_object_method(Value object, std::string_view name) noexcept;
// What calling a joiner gives.
Value call_joiner(Joiner& joiner);

}  // namespace flyball::text::jinja
