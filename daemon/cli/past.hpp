// Which recorded requests a tool looks at: the store of a configuration, and since when.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <CLI/App.hpp>

#include "config/config.hpp"
#include "daemon/store/database.hpp"

namespace flyball::cli {

struct PastOptions {
  std::string since, store;
};
// --since and --store; `since` is what --since stands at.
void add_past_options(CLI::App& command, PastOptions& options);

struct Past {
  store::Database database;
  std::int64_t since = 0;  // seconds since the epoch
};
// unsupported_value: --since is no duration. io_error: there is no store that can be read.
Result<Past> open_past(const PastOptions& options, const config::Config& config);

}  // namespace flyball::cli
