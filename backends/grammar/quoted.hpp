// Names of rules in messages. Pure.
#pragma once

#include <string>
#include <string_view>

namespace flyball::grammar {

// The name in double quotes, at most 64 bytes of it: a longer one ends in "..." between two characters.
// Precondition: the name is valid UTF-8.
std::string quoted(std::string_view name);

}  // namespace flyball::grammar
