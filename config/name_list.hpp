// Names in a message: those there are, where one that was asked for is not among them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flyball::config {

// "a, b, c and 4 more": the first ten.
std::string listed(std::span<const std::string_view> names);
// A name that somebody made up, in quotes, and cut where it is longer than a name can be.
std::string quoted(std::string_view name);
// Behind "there is no model ": the name in quotes, the nearest of those there are, and which these are.
std::string not_among(std::string_view name, const std::vector<std::string_view>& names);

}  // namespace flyball::config
