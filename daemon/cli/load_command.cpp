// `flyball load MODEL` and `flyball unload MODEL`: an engine of a running daemon begins or ends before a
// request or another model asks for that.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/running_daemon.hpp"
#include "daemon/cli/terminal.hpp"

namespace flyball::cli {
namespace {

using Json = nlohmann::json;
// A load may wait for memory (memory.max_wait), an unload for answers to end; a person who has waited for so
// long looks with `flyball ps`.
constexpr std::chrono::minutes kLoadTimeout{10};

struct LoadOptions {
  RunningDaemon daemon;
  std::string model;
  std::optional<std::string> engine;
  bool json = false;
};

// The answer of the daemon, which has an array `list`, or the exit code after its refusal was reported.
std::expected<Json, int> ask(const LoadOptions& options, const char* target, const char* list) {
  Json body{{"model", options.model}};
  if (options.engine) body["engine"] = *options.engine;
  const auto answer = ask_daemon(options.daemon, target,
                                 body.dump(-1, ' ', false, Json::error_handler_t::replace), kLoadTimeout);
  if (!answer) return std::unexpected(report(answer.error()));
  if (answer->status != 200)
    return std::unexpected(
        report_refusal(*answer, answer->status == 401 ? " --key-file FILE sends the operator's key." : ""));
  if (!member(answer->body, list).is_array()) {
    std::fprintf(stderr, "flyball: %s answered without a list of engines: it is no Flyball daemon\n",
                 answer->url.c_str());
    return std::unexpected(kUnavailable);
  }
  return answer->body;
}

int print(const Json& answer, const LoadOptions& options, const std::string& text) {
  const std::string out =
      options.json ? answer.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : text;
  return std::fputs(out.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? kIo : kOk;
}

int load(const LoadOptions& options) {
  const auto answer = ask(options, "/v1/engines/load", "engines");
  if (!answer) return answer.error();
  std::string text;
  for (const Json& one : member(*answer, "engines")) {
    const std::string engine = json_text(member(one, "engine"));
    const Json& error = member(one, "error");
    text += error.is_null()
                ? options.model + " is loaded on " + engine + "\n"
                : options.model + " could not be loaded on " + engine + ": " + json_text(error) + "\n";
  }
  return print(*answer, options, text);
}

int unload(const LoadOptions& options) {
  const auto answer = ask(options, "/v1/engines/unload", "unloaded");
  if (!answer) return answer.error();
  std::string text;
  for (const Json& engine : member(*answer, "unloaded"))
    text += options.model + " is unloaded from " + json_text(engine) + "\n";
  if (text.empty())
    text = options.model + " was not loaded" + (options.engine ? " on " + *options.engine : "") + "\n";
  return print(*answer, options, text);
}

CLI::App* add(CLI::App& app, const char* name, const char* help, LoadOptions& options,
              const char* engine_help) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("model", options.model, "id or alias of the model")->required();
  command->add_option("--engine", options.engine, engine_help);
  add_daemon_options(*command, options.daemon, "the operator's key");
  command->add_flag("--json", options.json, "the daemon's answer");
  return command;
}

}  // namespace

void add_load_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<LoadOptions>();
  CLI::App* command =
      add(app, "load", "Load a model in a running daemon before a request asks for it", *options,
          "cpu, vulkan or opencl (default: the engines that the policy sends its apps' chats to)");
  command->footer(
      "Examples:\n"
      "  flyball load small\n"
      "  flyball load small --engine vulkan --key-file operator.key\n"
      "\n"
      "Returns when the model is loaded. Other models' engines end for it as for a request. The daemon\n"
      "obeys the operator alone (see flyball ps --help). Exit code 1: refused; 69: not\n"
      "loaded, or no daemon.");
  command->callback([options, &exit_code] { exit_code = load(*options); });
}

void add_unload_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<LoadOptions>();
  CLI::App* command = add(app, "unload", "End a model's engines in a running daemon, and free their memory",
                          *options, "cpu, vulkan or opencl (default: all of them)");
  command->footer(
      "Examples:\n"
      "  flyball unload small\n"
      "  flyball unload small --engine vulkan --json\n"
      "\n"
      "Returns when the engines have ended: those at work finish their answers first and get no new\n"
      "requests. The next request loads the model again, and so does a reload of the daemon where the\n"
      "model has `preload`. The daemon obeys the operator alone (see flyball ps --help). Exit code 1:\n"
      "refused; 69: no daemon.");
  command->callback([options, &exit_code] { exit_code = unload(*options); });
}

}  // namespace flyball::cli
