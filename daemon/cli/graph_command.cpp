// `flyball graph`: the policy as a picture, with traffic on request: a running daemon's, or what it recorded.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/http_client.hpp"
#include "daemon/cli/past.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/route/records.hpp"
#include "daemon/settings/config_files.hpp"
#include "policy/graph.hpp"

namespace flyball::cli {
namespace {

constexpr std::chrono::seconds kMetricsTimeout{10};

struct GraphOptions {
  std::string format = "svg", config, policy, url, key_file;
  PastOptions past;
};

int draw(const GraphOptions& options) {
  const auto files = settings::config_and_policy(options.config, options.policy);
  if (!files) return report(files.error());
  policy::RuleCounts counts;
  if (!options.url.empty()) {
    const auto key = options.key_file.empty() ? Result<std::string>() : key_in(options.key_file);
    if (!key) return report(key.error());
    const auto answer = http_get(options.url, "/metrics", *key, kMetricsTimeout);
    if (!answer) {
      Error error = answer.error();
      if (error.code != ErrorCode::invalid_value)
        error.message += "; --since 7d counts in the daemon's database instead, without a running daemon";
      return report(error);
    }
    if (answer->status != 200)
      return report(Error{ErrorCode::upstream_refused,
                          options.url + " answered " + std::to_string(answer->status) +
                              (answer->status == 401 ? "; give the operator's key by --key-file" : ""),
                          {},
                          {}});
    counts = policy::counts_in_metrics(answer->body);
  } else if (!options.past.since.empty()) {
    auto past = open_past(options.past, files->config);
    if (!past) return report(past.error());
    auto recorded = route::count_by_rule(past->database, past->since);
    if (!recorded) return report(recorded.error());
    counts = std::move(*recorded);
  }
  const std::string out =
      options.format == "dot" ? policy::to_dot(files->tree, counts) : policy::to_svg(files->tree, counts);
  return std::fputs(out.c_str(), stdout) < 0 ? kIo : kOk;
}

}  // namespace

void add_graph_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<GraphOptions>();
  CLI::App* command = app.add_subcommand("graph", "The policy as a picture: SVG, or DOT for Graphviz");
  command->add_option("--format", options->format, "svg or dot")
      ->check(CLI::IsMember({"svg", "dot"}))
      ->capture_default_str();
  command->add_option("--url", options->url,
                      "with how often each rule has decided in this running daemon since it started");
  command->add_option("--key-file", options->key_file, "file with the operator's key to ask it with")
      ->needs("--url");
  add_past_options(*command, options->past);
  command->get_option("--since")->excludes("--url");
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  command->add_option("--policy", options->policy,
                      "policy.yaml (default: the one config.yaml names, or the shipped one)");
  command->footer(
      "Examples:\n"
      "  flyball graph > policy.svg\n"
      "  flyball graph --format dot --policy new.yaml | dot -Tpdf > policy.pdf\n"
      "  flyball graph --url http://127.0.0.1:8080 > traffic.svg\n"
      "  flyball graph --since 7d > week.svg");
  command->callback([options, &exit_code] { exit_code = draw(*options); });
}

}  // namespace flyball::cli
