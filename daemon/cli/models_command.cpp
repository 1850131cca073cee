// `flyball models`: the model files of this machine, a subcommand a file (models_*_command.cpp).
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "daemon/cli/commands.hpp"

namespace flyball::cli {

void add_models_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("models", "Find, fetch, check and remove the model files of this machine");
  command->require_subcommand(1);
  add_models_find_command(*command, exit_code);
  add_models_pull_command(*command, exit_code);
  add_models_list_command(*command, exit_code);
  add_models_rm_command(*command, exit_code);
  add_models_verify_command(*command, exit_code);
}

}  // namespace flyball::cli
