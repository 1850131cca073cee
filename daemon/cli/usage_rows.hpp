// What the commands `usage` and `app` read: the apps' days of the state that a configuration's daemon keeps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/usage/daily_usage.hpp"

namespace flyball::cli {

// The configuration at `path`, or the one that `serve` would take where it is "".
Result<config::Config> served_config(const std::string& path);

// "7d": so many days, today (UTC) among them; 1 to 3650. The first of them since the epoch.
Result<std::int64_t> first_day(const std::string& since);

// Of the file `store`, or of the configuration's where that is "". io_error where there is no such file yet:
// no daemon has served here.
Result<std::vector<usage::AppDay>> usage_rows(const config::Config& config, const std::string& store,
                                              std::int64_t first_day, const std::string& app = "");

// "2026-11-21"
std::string date_of(std::int64_t day);

}  // namespace flyball::cli
