// The rows of DailyUsage in the store: a table of one row for each app and day.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/store/database.hpp"
#include "daemon/usage/daily_usage.hpp"

namespace flyball::usage {

Result<void> write(store::Database& database, const std::vector<AppDay>& rows);
// From `first_day` on, by app and day; "": of every app.
Result<std::vector<AppDay>> read(store::Database& database, std::int64_t first_day,
                                 const std::string& app = "");

// Of the latest so many days that there are, whenever those were.
Result<std::vector<AppDay>> read_latest(store::Database& database, std::int64_t days);

// The days on which the use of an app is unknown. write_lost() forgets those before `today` less
// DailyUsage::kKeptDays.
using LostDays = std::vector<DailyUsage::Key>;
Result<void> write_lost(store::Database& database, const LostDays& days, std::int64_t today);
Result<LostDays> read_lost(store::Database& database);

// Reads what a damaged file, open for Access::salvage, still shows of the usage: from both ends, and the
// latest DailyUsage::kKeptDays of `apps` one by one, up to `today`. `lost` has the apps whose day `today`
// cannot be read, and those that the file itself calls lost.
Past salvage(store::Database& damaged, const std::vector<std::string>& apps, std::int64_t today);

}  // namespace flyball::usage
