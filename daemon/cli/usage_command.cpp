// `flyball usage`: requests and tokens by app, from the state that the daemon keeps.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <map>
#include <memory>

#include <nlohmann/json.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/past.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/cli/usage_rows.hpp"

namespace flyball::cli {
namespace {

struct UsageOptions {
  std::string config, app, store, since = "7d";
  bool json = false;
};

struct UsageColumn {
  const char* name;
  std::uint64_t usage::DayUsage::*value;
};
constexpr UsageColumn kUsageColumns[] = {
    {"requests", &usage::DayUsage::requests},
    {"refused", &usage::DayUsage::refused},
    {"errors", &usage::DayUsage::errors},
    {"cancelled", &usage::DayUsage::cancelled},
    {"prompt_tokens", &usage::DayUsage::prompt_tokens},
    {"cached_tokens", &usage::DayUsage::cached_tokens},
    {"generated_tokens", &usage::DayUsage::generated_tokens},
    {"guessed_tokens", &usage::DayUsage::guessed_tokens},
};

std::string usage_json(const std::vector<usage::AppDay>& rows) {
  auto out = nlohmann::ordered_json::array();
  for (const usage::AppDay& row : rows) {
    nlohmann::ordered_json one{{"app", row.app}, {"date", date_of(row.day)}};
    for (const UsageColumn& column : kUsageColumns) one[column.name] = row.usage.*column.value;
    out.push_back(std::move(one));
  }
  return out.dump(2) + "\n";
}

std::string usage_table(const std::vector<usage::AppDay>& rows) {
  std::map<std::string, usage::DayUsage> by_app;
  for (const usage::AppDay& row : rows) by_app[row.app] += row.usage;
  std::size_t width = 3;
  for (const auto& [app, total] : by_app) width = std::max(width, app.size());
  std::string out = "app" + std::string(width - 3, ' ');
  for (const UsageColumn& column : kUsageColumns) out += std::string("  ") + column.name;
  out += "\n";
  for (const auto& [app, total] : by_app) {
    out += app + std::string(width - app.size(), ' ');
    for (const UsageColumn& column : kUsageColumns) {
      const std::string value = std::to_string(total.*column.value);
      const std::size_t room = std::string_view(column.name).size() + 2;
      out += std::string(room > value.size() ? room - value.size() : 1, ' ') + value;
    }
    out += "\n";
  }
  return out;
}

int print_usage(const UsageOptions& options) {
  const auto config = served_config(options.config);
  if (!config) return report(config.error());
  const auto since = first_day(options.since);
  if (!since) {
    report(since.error());
    return kUsage;
  }
  const auto rows = usage_rows(*config, options.store, *since, options.app);
  if (!rows) return report(rows.error());
  return std::fputs((options.json ? usage_json(*rows) : usage_table(*rows)).c_str(), stdout) < 0 ? kIo : kOk;
}

}  // namespace

void add_usage_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<UsageOptions>();
  CLI::App* command = app.add_subcommand("usage", "What each app has used: requests and tokens");
  command->add_option("--since", options->since, "so many days (UTC), today among them")
      ->capture_default_str();
  command->add_option("--app", options->app, "this app alone");
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  add_store_option(*command, options->store);
  command->add_flag("--json", options->json, "by app and day");
  command->footer(
      "Examples:\n"
      "  flyball usage                  the last seven days\n"
      "  flyball usage --since 1d --app indexer --json\n"
      "\n"
      "Also while the daemon runs, which is a quarter of a second ahead at most.");
  command->callback([options, &exit_code] { exit_code = print_usage(*options); });
}

}  // namespace flyball::cli
