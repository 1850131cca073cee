// Names in a message: those there are, where one that was asked for is not among them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace flyball::config {

// "a, b, c and 4 more": the first ten.
std::string listed(std::span<const std::string_view> names);
// A name that somebody made up, in quotes, and cut where it is longer than a name can be.
std::string quoted(std::string_view name);

}  // namespace flyball::config
