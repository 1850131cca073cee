// How many connections fit under the process's limit of open files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/config.hpp"
#include "config/error.hpp"

namespace flyball::settings {

// Raises the soft limit as far as the process may; the limit then.
std::uint64_t raise_file_limit();

// The descriptors of such a daemon beside its connections: its own, its listeners', and its models', each of
// which may have a worker on every engine kind.
// own_engines: those that profiles of the policy want beside each model's.
std::uint64_t reserved_descriptors(const config::Config& config, std::size_t own_engines = 0);

// Connections that leave `open_files` room for everything else, refused clients that still read why included;
// no more than http.connections. config_invalid, with both numbers, where fewer than kFewestConnections
// remain.
inline constexpr std::uint32_t kFewestConnections = 4;
Result<std::uint32_t> connections_within(std::uint64_t open_files, const config::Config& config,
                                         std::size_t own_engines = 0);

// Sets http.connections so, and logs it.
Result<void> fit_connections(std::uint64_t open_files, config::Config& config, std::size_t own_engines = 0);

}  // namespace flyball::settings
