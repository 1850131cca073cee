// The environment that the daemon gives the processes it starts: engines, probes, measurements. Only
// variables that the C library, the drivers or a sanitizer reads are passed on, so that no API key of the
// daemon's environment reaches a driver or a model file's process. docs/security.md lists the names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flyball::config {

// The names of these variables, and the prefixes of families that children see whole, secrets excepted.
std::span<const std::string_view> child_variables() noexcept;
std::span<const std::string_view> child_variable_families() noexcept;

// Whether children see the variable of this name.
bool reaches_children(std::string_view name) noexcept;

// The entries "NAME=VALUE" of this process's environment that children see, in their order.
std::vector<std::string> child_environment();

// The same as the null-terminated array that exec wants. It points into `entries`, which must outlive it.
std::vector<char*> environment_block(std::vector<std::string>& entries);

}  // namespace flyball::config
