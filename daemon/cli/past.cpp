#include "daemon/cli/past.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <ctime>

#include "config/units.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

constexpr std::int64_t kMaxDays = 36'500;

// As the house's files write durations, and days: "7d".
std::optional<std::int64_t> seconds_of(const std::string& text) {
  if (const auto known = config::parse_duration(text)) return known->count() / 1000;
  std::int64_t days = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, days);
  if (error != std::errc{} || std::string_view(end, last) != "d" || days < 0 || days > kMaxDays)
    return std::nullopt;
  return days * 24 * 3600;
}

}  // namespace

void add_past_options(CLI::App& command, PastOptions& options) {
  command.add_option("--since", options.since, "how far back: 7d, 12h, 30m");
  add_store_option(command, options.store);
}

void add_store_option(CLI::App& command, std::string& store) {
  command.add_option("--store", store,
                     "the daemon's database (default: flyball.db in config.yaml's state_dir)");
}

Result<std::filesystem::path> records_file(const config::Config& config) {
  const auto state = config.state_dir.empty() ? settings::default_state_dir() : config.state_dir;
  if (!state.empty()) return store::file_in(state);
  return fail(ErrorCode::io_error, "no state directory is known: give --store, or state_dir in config.yaml");
}

Result<store::Database> open_records(const std::string& store, const config::Config& config) {
  const auto file = store.empty() ? records_file(config) : std::filesystem::path(store);
  if (!file) return pass(file);
  return store::Database::open(*file, store::Database::Access::read_only);
}

Result<Past> open_past(const PastOptions& options, const config::Config& config) {
  const auto seconds = seconds_of(options.since);
  if (!seconds)
    return fail(ErrorCode::unsupported_value,
                "--since \"" + options.since + "\" is no duration such as 7d or 12h");
  auto database = open_records(options.store, config);
  if (!database) return pass(database);
  return Past{std::move(*database), std::time(nullptr) - *seconds};
}

}  // namespace flyball::cli
