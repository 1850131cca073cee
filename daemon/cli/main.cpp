// The program `flyball`: one binary, one subcommand each for the daemon, its engine workers and the person.
#include <fcntl.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "config/units.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/serve/start_signals.hpp"

namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  flyball serve                        the daemon, on the demo model, at http://127.0.0.1:8080\n"
    "  flyball run \"Which engine for a Mac?\"  one answer, without a daemon\n"
    "  flyball explain --app example        which engine an app's request would get, and why\n"
    "  flyball check config.yaml            whether the files are right\n"
    "\n"
    "Exit codes:\n"
    "  0   done                             69  no engine, device or daemon to do it\n"
    "  1   done, and the answer is no       70  internal error\n"
    "  64  wrong command line               74  input or output failed\n"
    "  65  malformed model, prompt or file  78  config.yaml, policy.yaml or a manifest is\n"
    "                                           wrong or cannot be read\n"
    "\n"
    "Help of one command: flyball COMMAND --help";

// A descriptor 0, 1 or 2 that we were started without would be the number of our first socket: a client would
// read our log.
void hold_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return;  // takes the lowest free number
}

// "; did you mean '--model'?": of what `command` takes, the nearest to a word that it does not.
std::string nearest_word(const CLI::App& command) {
  std::vector<std::string> known;
  for (const CLI::App* inner : command.get_subcommands({})) known.push_back(inner->get_name());
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  for (const std::string& word : command.remaining())
    if (const auto near = flyball::config::closest(word.substr(0, word.find('=')), candidates))
      return "; did you mean '" + std::string(*near) + "'?";
  return "";
}

// What is wrong, and whose help says how it is right. A nearest word is named where a word is the mistake:
// what stands behind another mistake may be mistyped too, and is not what the message is about.
std::string usage_error(const CLI::App* app, const CLI::Error& error) {
  std::string name = "flyball";
  for (auto parsed = app->get_subcommands(); !parsed.empty(); parsed = app->get_subcommands()) {
    app = parsed.front();
    name += " " + app->get_name();
  }
  const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool lacks_inner =
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !app->get_subcommands({}).empty();
  return "flyball: " + std::string(error.what()) + (unknown || lacks_inner ? nearest_word(*app) : "") +
         "\nSee " + name + " --help.\n";
}

// 0, or the exit code after the mistake was named.
int check_command_word(const CLI::App& app, int argc, char** argv) {
  if (argc < 2) return flyball::cli::kOk;
  const std::string word = argv[1];
  if (word.starts_with('-')) {
    if (word == "-h" || word == "--help" || word == "--version") return flyball::cli::kOk;
    std::fprintf(
        stderr,
        "flyball: the first word is a command, not '%s': options stand behind it, as in flyball serve "
        "--port 8080; see flyball --help\n",
        word.c_str());
    return flyball::cli::kUsage;
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  std::vector<std::string_view> candidates(names.begin(), names.end());
  for (const std::string& name : names) {
    if (name == word) return flyball::cli::kOk;
  }
  const auto near = flyball::config::closest(word, candidates);
  std::fprintf(stderr, "flyball: there is no command '%s'%s\n", word.c_str(),
               near ? ("; did you mean '" + std::string(*near) + "'?").c_str() : "; see flyball --help");
  return flyball::cli::kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace flyball::cli;
  if (argc > 1 && std::string_view(argv[1]) == "serve") flyball::serve::hold_signals();
  // A peer that hangs up is an error of that write, not the end of the program.
  std::signal(SIGPIPE, SIG_IGN);
  hold_standard_descriptors();
  int exit_code = kOk;
  try {
    CLI::App app{
        "Flyball routes local LLM inference: apps declare their workload, a policy picks the engine.",
        "flyball"};
    app.require_subcommand(1);
    app.footer(kFooter);
    app.failure_message(usage_error);
    app.set_version_flag("--version", std::string("flyball ") + FLYBALL_VERSION);
    add_serve_command(app, exit_code);
    add_run_command(app, exit_code);
    add_advise_command(app, exit_code);
    add_explain_command(app, exit_code);
    add_why_not_command(app, exit_code);
    add_simulate_command(app, exit_code);
    add_graph_command(app, exit_code);
    add_prove_command(app, exit_code);
    add_usage_command(app, exit_code);
    add_app_command(app, exit_code);
    add_ps_command(app, exit_code);
    add_load_command(app, exit_code);
    add_unload_command(app, exit_code);
    add_check_command(app, exit_code);
    add_engines_command(app, exit_code);
    add_capabilities_command(app, exit_code);
    add_probe_command(app, exit_code);
    add_inspect_command(app, exit_code);
    add_plan_command(app, exit_code);
    add_models_command(app, exit_code);
    add_make_model_command(app, exit_code);
    add_calibrate_command(app, exit_code);
    add_measure_command(app, exit_code);
    add_bench_command(app, exit_code);
    add_profile_command(app, exit_code);
    add_tune_command(app, exit_code);
    add_engine_command(app, exit_code);
    add_version_command(app, exit_code);
    add_completions_command(app, exit_code);
    if (const int wrong = check_command_word(app, argc, argv); wrong != kOk) return wrong;
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? kOk : kUsage;  // prints help, or the mistake
    }
  } catch (const std::exception& error) {  // out of memory while starting, a broken pipe of a third library
    std::fprintf(stderr, "flyball: %s\n", error.what());
    return kInternal;
  }
  return exit_code;
}
