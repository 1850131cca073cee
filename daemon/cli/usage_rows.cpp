#include "daemon/cli/usage_rows.hpp"

#include <charconv>
#include <cstdio>
#include <ctime>

#include "daemon/cli/past.hpp"
#include "daemon/settings/config_files.hpp"
#include "daemon/usage/usage_store.hpp"

namespace flyball::cli {

Result<config::Config> served_config(const std::string& path) {
  return settings::config_at(path.empty() ? settings::find_config() : std::filesystem::path(path));
}

Result<std::int64_t> first_day(const std::string& since) {
  std::int64_t days = 0;
  const char* const end = since.data() + since.size();
  const auto [at, bad] = std::from_chars(since.data(), end, days);
  if (bad != std::errc() || at + 1 != end || *at != 'd' || days < 1 || days > 3650)
    return fail(ErrorCode::invalid_value, "--since: expected days from 1d to 3650d, got \"" + since + "\"");
  return std::time(nullptr) / 86'400 - days + 1;
}

Result<std::vector<usage::AppDay>> usage_rows(const config::Config& config, const std::string& store,
                                              std::int64_t first_day, const std::string& app) {
  auto database = open_records(store, config);
  if (!database) return pass(database);
  return usage::read(*database, first_day, app);
}

std::string date_of(std::int64_t day) {
  const std::time_t seconds = day * 86'400;
  std::tm date{};
  gmtime_r(&seconds, &date);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &date);
  return text;
}

}  // namespace flyball::cli
