// Jinja2 source to a Program.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "backends/text/jinja/ast.hpp"

namespace flyball::text::jinja {

// depth: how deep brackets, blocks and prefix operators may nest. Throws Failure with the line.
std::unique_ptr<Program> parse(std::string_view source, std::uint32_t depth);

}  // namespace flyball::text::jinja
