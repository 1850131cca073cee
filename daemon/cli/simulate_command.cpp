// `flyball simulate NEW_POLICY`: the requests that the daemon recorded, decided again by another policy.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/past.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/route/records.hpp"
#include "daemon/settings/config_files.hpp"
#include "policy/cards.hpp"
#include "policy/interactive.hpp"
#include "policy/simulate.hpp"

namespace flyball::cli {
namespace {

struct SimulateOptions {
  std::string policy, config, app;
  PastOptions past{"7d", ""};
  std::optional<double> max_moved;
  bool as_json = false;
};

// The engine whose time to first token this was: the only one that tried, and it went to the end.
std::string served_by(const route::RequestRecord& request) {
  if (request.state != route::RunState::Kind::done || request.attempts.empty()) return "";
  const std::string& backend = request.attempts.front().backend;
  const bool alone = std::ranges::all_of(request.attempts, [&](const route::AttemptRecord& attempt) {
    return attempt.backend == backend && attempt.outcome == route::RunState::Kind::done;
  });
  return alone ? backend : "";
}

int simulate(const SimulateOptions& options) {
  const auto config = settings::config_at(options.config.empty() ? settings::find_config()
                                                                 : std::filesystem::path(options.config));
  if (!config) return report(config.error());
  const auto tree = settings::policy_at(options.policy);
  if (!tree) return report(tree.error());
  auto past = open_past(options.past, *config);
  if (!past) return report(past.error());
  policy::Simulation simulation(*tree);
  const auto read = route::each_record(
      past->database, past->since,
      [&](const route::Record& record) {
        const route::RequestRecord& request = record.request;
        const std::string served = served_by(request);
        // An engine of its own that was not there when the request came is as available as its kind was.
        policy::Facts facts = policy::in_catalogue(record.facts, tree->targets);
        policy::derive_interactive(facts);  // records of older versions lack these
        policy::derive_shared_cards(facts);
        const policy::PastRequest one{request.app, request.model,   record.rule, record.target,
                                      served,      request.ttft_ms, facts};
        if (options.app.empty() || request.app == options.app)
          simulation.add(one);
        else
          simulation.add_ttft(one);
      },
      tree->targets);
  if (!read) return report(read.error());
  const nlohmann::json out = simulation.report();
  const std::string text = options.as_json
                               ? out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                               : policy::simulation_text(out);
  if (std::fputs(text.c_str(), stdout) < 0) return kIo;
  const policy::Simulation::Totals& totals = simulation.totals();
  return totals.lost > 0 || (options.max_moved && totals.moved_percent() > *options.max_moved) ? kFailed
                                                                                               : kOk;
}

}  // namespace

void add_simulate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command =
      app.add_subcommand("simulate", "What a new policy would have done with the requests of the last days");
  command->add_option("policy", options->policy, "the new policy.yaml")->required();
  add_past_options(*command, options->past);
  command->add_option("--app", options->app, "requests of this app alone");
  command->add_option("--max-moved", options->max_moved, "exit with 1 where more than so many percent move")
      ->check(number(0, 100));
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  command->add_flag("--json", options->as_json, "as one JSON document");
  command->footer(
      "Examples:\n"
      "  flyball simulate new.yaml\n"
      "  flyball simulate new.yaml --since 30d --max-moved 10 --json\n"
      "\n"
      "Exit code 1: a request would lose its target, or more move than --max-moved allows.");
  command->callback([options, &exit_code] { exit_code = simulate(*options); });
}

}  // namespace flyball::cli
