// `flyball app new` (app_new_command.cpp) and `flyball app suggest`: what an app's requests were like beside
// what its manifest declares, and the manifest that would have said so.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "config/name_list.hpp"
#include "config/yaml.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/past.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/cli/usage_rows.hpp"
#include "daemon/usage/workload.hpp"

namespace flyball::cli {
namespace {

struct SuggestOptions {
  std::string config, app, store, since = "7d";
  bool json = false;
};

struct Suggestion {
  usage::DayUsage observed;
  std::vector<usage::Compared> compared;
  std::string manifest;  // "" where the app has no file of its own
};

Result<Suggestion> suggest(const SuggestOptions& options) {
  auto config = served_config(options.config);
  if (!config) return pass(config);
  auto since = first_day(options.since);
  if (!since) return pass(since);
  auto apps = config::apps_of(*config);
  if (!apps) return pass(apps);
  const auto app = std::ranges::find(*apps, options.app, &config::AppManifest::id);
  if (app == apps->end()) {
    std::vector<std::string_view> ids;
    for (const config::AppManifest& one : *apps) ids.push_back(one.id);
    return fail(ErrorCode::invalid_value,
                "no manifest declares the app " + config::not_among(options.app, ids));
  }
  auto rows = usage_rows(*config, options.store, *since, options.app);
  if (!rows) return pass(rows);
  Suggestion out;
  for (const usage::AppDay& row : *rows) out.observed += row.usage;
  out.compared = usage::compare(app->workload, out.observed);
  if (!config->apps_dir.empty()) {
    auto yaml = config::read_text_file(app->source);
    if (!yaml) return pass(yaml);
    out.manifest = usage::corrected_manifest(*yaml, *app, out.compared);
  }
  return out;
}

// Lines of comment, so that all of the output is a manifest.
std::string comparison_text(const Suggestion& s, const std::string& since) {
  std::string out = "# " + std::to_string(s.observed.requests) + " requests in " + since + ": ";
  if (s.compared.empty())
    return out + "fewer than " + std::to_string(usage::kEnoughRequests) +
           " answered ones, which is not enough to say anything.\n";
  const auto share = [&](std::uint64_t n) { return std::to_string(100 * n / s.observed.requests) + " %"; };
  out +=
      share(s.observed.streamed) + " streamed, " + share(s.observed.with_tools) + " with tools, " +
      std::to_string(100 * s.observed.cached_tokens / std::max<std::uint64_t>(1, s.observed.prompt_tokens)) +
      " % of their prompts' tokens shared with earlier ones.\n";
  for (const usage::Compared& one : s.compared) {
    char line[200];
    const std::string declared =
        one.declared < 0 ? "not declared" : "declared " + std::to_string(std::llround(one.declared));
    std::snprintf(line, sizeof line, "# %-21s %s, observed %lld (%.*s)%s\n", std::string(one.key).c_str(),
                  declared.c_str(), std::llround(one.observed), static_cast<int>(one.basis.size()),
                  one.basis.data(), one.drifts ? "  <- drifts" : "");
    out += line;
  }
  return out;
}

std::string suggestion_json(const Suggestion& s) {
  nlohmann::ordered_json out{{"requests", s.observed.requests},
                             {"streamed", s.observed.streamed},
                             {"with_tools", s.observed.with_tools},
                             {"prompt_tokens", s.observed.prompt_tokens},
                             {"cached_tokens", s.observed.cached_tokens}};
  auto& lengths = out["lengths"];
  const auto percentiles = [](const usage::Histogram& h) {
    return nlohmann::ordered_json{
        {"p50", h.quantile(0.5)}, {"p95", h.quantile(0.95)}, {"p99", h.quantile(0.99)}};
  };
  lengths["prompt"] = percentiles(s.observed.prompt_lengths);
  lengths["shared_prefix"] = percentiles(s.observed.cached_lengths);
  lengths["answer"] = percentiles(s.observed.answer_lengths);
  out["open_at_arrival"] = percentiles(s.observed.open_at_arrival);
  auto& compared = out["workload"] = nlohmann::ordered_json::array();
  for (const usage::Compared& one : s.compared) {
    nlohmann::ordered_json row{
        {"key", one.key}, {"declared", nullptr}, {"observed", one.observed}, {"drifts", one.drifts}};
    if (one.declared >= 0) row["declared"] = one.declared;
    compared.push_back(std::move(row));
  }
  out["manifest"] = s.manifest;
  return out.dump(2) + "\n";
}

int print_suggestion(const SuggestOptions& options) {
  const auto suggestion = suggest(options);
  if (!suggestion) return report(suggestion.error());
  const std::string out = options.json ? suggestion_json(*suggestion)
                                       : suggestion->manifest + comparison_text(*suggestion, options.since);
  if (std::fputs(out.c_str(), stdout) < 0) return kIo;
  return std::ranges::any_of(suggestion->compared, &usage::Compared::drifts) ? kFailed : kOk;
}

}  // namespace

void add_app_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SuggestOptions>();
  CLI::App* command =
      app.add_subcommand("app", "An app's manifest: a new one, or one beside what the app really does");
  command->require_subcommand(1);
  add_app_new_command(*command, exit_code);
  CLI::App* suggest_command = command->add_subcommand(
      "suggest", "Print the manifest with the workload that was observed, and where the declared one drifts");
  suggest_command->add_option("name", options->app, "the app")->required();
  suggest_command->add_option("--since", options->since, "so many days (UTC), today among them")
      ->capture_default_str();
  suggest_command->add_option("--config", options->config,
                              "config.yaml (default: the one `serve` would take)");
  add_store_option(*suggest_command, options->store);
  suggest_command->add_flag("--json", options->json, "with percentiles");
  suggest_command->footer(
      "Examples:\n"
      "  flyball app suggest indexer\n"
      "  flyball app suggest indexer --since 30d > corrected.yaml\n"
      "\n"
      "Exit code 1: what the manifest declares drifts from what was observed, by more than half.");
  suggest_command->callback([options, &exit_code] { exit_code = print_suggestion(*options); });
}

}  // namespace flyball::cli
