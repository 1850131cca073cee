// `flyball completions bash|zsh|fish`: a completion script made from the command tree itself, so that it
// cannot fall behind it.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"

namespace flyball::cli {
namespace {

struct Option {
  std::string name;  // "--model"
  std::string meaning;
  bool takes_value = false;
};
struct Command {
  std::string name, meaning;
  std::vector<Option> options;
};

// First sentence, without what a shell would read as its own.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') break;
    if (c != '\'' && c != '"' && c != '[' && c != ']' && c != ':' && c != '`' && c != '$' && c != '\\')
      out += c;
  }
  return out;
}

std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> commands;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_group().empty()) continue;  // not for hands
    Command command{sub->get_name(), plain(sub->get_description()), {}};
    for (const CLI::Option* option : sub->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        command.options.push_back(
            {"--" + name, plain(option->get_description()), option->get_items_expected_max() > 0});
      }
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

std::string bash_script(const std::vector<Command>& commands) {
  std::string names;
  std::string cases;
  for (const Command& c : commands) {
    names += (names.empty() ? "" : " ") + c.name;
    cases += "    " + c.name + ") options='";
    for (const Option& o : c.options) cases += o.name + " ";
    cases += "' ;;\n";
  }
  return "# bash completion of flyball; source it, or put it in /etc/bash_completion.d/flyball\n"
         "_flyball() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} options=''\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         names +
         " --help --version' -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  if [[ $current == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _flyball flyball\n";
}

std::string zsh_script(const std::vector<Command>& commands) {
  std::string list;
  std::string cases;
  for (const Command& c : commands) {
    list += "    '" + c.name + ":" + c.meaning + "'\n";
    cases += "    " + c.name + ") _arguments";
    for (const Option& o : c.options) {
      cases += " \\\n      '" + o.name + "[" + o.meaning + "]" + (o.takes_value ? ":value:_files'" : "'");
    }
    cases += " \\\n      '*:file:_files' ;;\n";
  }
  return "#compdef flyball\n"
         "# zsh completion of flyball; put it in a folder of $fpath as _flyball\n"
         "_flyball() {\n"
         "  local -a commands=(\n" +
         list +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "}\n"
         "compdef _flyball flyball\n";
}

std::string fish_script(const std::vector<Command>& commands) {
  std::string out = "# fish completion of flyball; put it in ~/.config/fish/completions/flyball.fish\n";
  for (const Command& c : commands) {
    out += "complete -c flyball -n __fish_use_subcommand -f -a " + c.name + " -d '" + c.meaning + "'\n";
  }
  for (const Command& c : commands) {
    for (const Option& o : c.options) {
      out += "complete -c flyball -n '__fish_seen_subcommand_from " + c.name + "' -l " + o.name.substr(2) +
             (o.takes_value ? " -r" : "") + " -d '" + o.meaning + "'\n";
    }
  }
  return out;
}

}  // namespace

void add_completions_command(CLI::App& app, int& exit_code) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completions", "Print a completion script for bash, zsh or fish");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer("Example:\n  source <(flyball completions bash)");
  const CLI::App* root = &app;
  command->callback([shell, root, &exit_code] {
    const std::vector<Command> commands = commands_of(*root);
    const std::string script = *shell == "bash"  ? bash_script(commands)
                               : *shell == "zsh" ? zsh_script(commands)
                                                 : fish_script(commands);
    exit_code = std::fputs(script.c_str(), stdout) < 0 ? kIo : kOk;
  });
}

}  // namespace flyball::cli
