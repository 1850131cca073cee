// Which recorded requests a tool looks at: the store of a configuration, and since when.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include <CLI/App.hpp>

#include "config/config.hpp"
#include "daemon/store/database.hpp"

namespace flyball::cli {

struct PastOptions {
  std::string since, store;
};
// --store alone, for commands with a --since of their own.
void add_store_option(CLI::App& command, std::string& store);
// --since and --store; `since` is what --since stands at.
void add_past_options(CLI::App& command, PastOptions& options);

struct Past {
  store::Database database;
  std::int64_t since = 0;  // seconds since the epoch
};
// The database of a configuration's daemon. io_error: no state directory is known.
Result<std::filesystem::path> records_file(const config::Config& config);
// The file of --store or, where that is "", of the configuration. io_error: there is none that can be read.
Result<store::Database> open_records(const std::string& store, const config::Config& config);
// unsupported_value: --since is no duration. io_error: there is no store that can be read.
Result<Past> open_past(const PastOptions& options, const config::Config& config);

}  // namespace flyball::cli
