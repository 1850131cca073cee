// `flyball ps`: the engines of a running daemon, and the memory that they draw from.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "config/units.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/running_daemon.hpp"
#include "daemon/cli/terminal.hpp"

namespace flyball::cli {
namespace {

using Json = nlohmann::json;
constexpr std::chrono::seconds kPsTimeout{10};

struct PsOptions {
  RunningDaemon daemon;
  bool json = false;
};

template <class Show>
std::string number(const Json& row, const char* key, Show show) {
  const Json& value = member(row, key);
  const double n = value.is_number() ? value.get<double>() : -1;
  return n >= 0 && n < 1e18 ? show(n) : "-";
}
std::string count(const Json& row, const char* key) {
  return number(row, key, [](double n) { return std::to_string(std::llround(n)); });
}
std::string size(const Json& row, const char* key) {
  return number(row, key, [](double n) { return config::size_text(static_cast<std::uint64_t>(n)); });
}
std::string milliseconds(const Json& row, const char* key) {
  return number(row, key, [](double n) { return config::time_text(std::llround(std::min(n, 1e12) * 1000)); });
}

// The columns as wide as they must be.
template <std::size_t N>
std::string table(const std::vector<std::array<std::string, N>>& rows) {
  std::array<std::size_t, N> width{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < N; ++i) width[i] = std::max(width[i], row[i].size());
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < N; ++i)
      out += row[i] + (i + 1 < N ? std::string(width[i] - row[i].size() + 2, ' ') : "");
    out += "\n";
  }
  return out;
}

std::string prefixes_table(const Json& prefixes) {
  using Row = std::array<std::string, 9>;
  std::vector<Row> rows{
      {"app", "kept prefix", "model", "engine", "state", "tokens", "in memory", "on disk", "uses"}};
  for (const Json& prefix : prefixes) {
    const Json& engine = member(prefix, "engine");
    rows.push_back({json_text(member(prefix, "app")), json_text(member(prefix, "name")),
                    json_text(member(prefix, "model")), engine.is_string() ? json_text(engine) : "-",
                    json_text(member(prefix, "state")), count(prefix, "tokens"),
                    count(prefix, "tokens_in_memory"), count(prefix, "tokens_on_disk"),
                    count(prefix, "uses")});
  }
  return table(rows);
}

std::string engines_table(const Json& engines) {
  using Row = std::array<std::string, 9>;
  std::vector<Row> rows{
      {"model", "engine", "state", "pid", "memory", "KV used", "running", "waiting", "idle"}};
  std::string troubles;
  for (const Json& engine : engines) {
    rows.push_back(
        {json_text(member(engine, "model")), json_text(member(engine, "engine")),
         json_text(member(engine, "state")), count(engine, "pid"), size(engine, "memory_bytes"),
         number(engine, "kv_used_ratio",
                [](double part) { return std::to_string(std::llround(100 * std::min(part, 1.0))) + " %"; }),
         count(engine, "running"), count(engine, "waiting"), milliseconds(engine, "idle_ms")});
    if (!member(engine, "error").is_null())
      troubles +=
          json_text(member(engine, "model")) + " on " + json_text(member(engine, "engine")) + ": " +
          json_text(member(engine, "error")) +
          (!member(engine, "for_ms").is_null() ? " Next try in " + milliseconds(engine, "for_ms") + "."
                                               : "") +
          "\n";
  }
  return table(rows) + troubles;
}

int ps(const PsOptions& options) {
  const auto answer = ask_daemon(options.daemon, "/v1/engines", {}, kPsTimeout);
  if (!answer) return report(answer.error());
  if (answer->status != 200)
    return report_refusal(*answer, answer->status == 401 ? " --key-file FILE sends the operator's key." : "");
  const Json& body = answer->body;
  const Json& engines = member(body, "engines");
  if (!engines.is_array()) {
    std::fprintf(stderr, "flyball: %s answered without a list of engines: it is no Flyball daemon\n",
                 answer->url.c_str());
    return kUnavailable;
  }
  std::string out;
  if (options.json) {
    out = body.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  } else {
    out = engines.empty() ? "No engine is loaded. The first request for a model loads it, and so does "
                            "`flyball load MODEL`.\n"
                          : engines_table(engines);
    for (const Json& pool : member(body, "pools"))
      out += "memory of " +
             (member(pool, "name") == "machine" ? "this machine" : json_text(member(pool, "name"))) +
             ": engines hold " + size(pool, "accounted_bytes") + " of " + size(pool, "capacity_bytes") +
             ", " + size(pool, "free_bytes") + " are free for more\n";
    // An older daemon has none.
    const auto kept = ask_daemon(options.daemon, "/v1/prefixes", {}, kPsTimeout);
    const Json& prefixes = kept && kept->status == 200 ? member(kept->body, "prefixes") : member(body, "");
    if (prefixes.is_array() && !prefixes.empty()) out += prefixes_table(prefixes);
  }
  return std::fputs(out.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? kIo : kOk;
}

}  // namespace

void add_ps_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PsOptions>();
  CLI::App* command = app.add_subcommand("ps", "The engines of a running daemon, and their memory");
  add_daemon_options(*command, options->daemon, "the operator's key");
  command->add_flag("--json", options->json, "the daemon's answer (GET /v1/engines)");
  command->footer(
      "Examples:\n"
      "  flyball ps\n"
      "  flyball ps --url unix:/run/flyball/flyball.sock --json\n"
      "\n"
      "The daemon answers the operator alone: the operator's key or, where operator.loopback allows it, this\n"
      "machine without a key. docs/http-api.md describes the states. Exit code 1: refused; 69: no daemon.");
  command->callback([options, &exit_code] { exit_code = ps(*options); });
}

}  // namespace flyball::cli
