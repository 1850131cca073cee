// The tables of the store, one version after the other. A released version never changes: a new one follows.
#pragma once

#include <span>
#include <string_view>

namespace flyball::store {

// Entry i brings a file from version i to i + 1; several statements each.
std::span<const std::string_view> schema_versions() noexcept;

}  // namespace flyball::store
