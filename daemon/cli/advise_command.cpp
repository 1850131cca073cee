// `flyball advise`: which system the documents take for a machine and a load, and what serves it here. The
// machine may exist in words or facts alone.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/config_files.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/facts_file.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/route/hardware_facts.hpp"
#include "daemon/route/probe.hpp"
#include "policy/advice.hpp"
#include "policy/fact_text.hpp"
#include "policy/scenario.hpp"

namespace flyball::cli {
namespace {

struct AdviseOptions {
  std::vector<std::string> words, settings;
  std::string facts, config, policy;
  bool as_json = false;
};

bool describes_a_machine(const policy::Facts& facts) {
  const auto catalogue = policy::fact_catalogue();
  for (std::size_t i = 0; i < catalogue.size(); ++i)
    if (catalogue[i].name.starts_with("hardware.") && facts.get(static_cast<policy::FactId>(i))) return true;
  return false;
}

// Words first, then the file, then single facts: each may correct what came before it.
Result<void> read_case(const AdviseOptions& options, policy::Facts& facts) {
  std::string words;
  for (const std::string& word : options.words) words += word + " ";
  if (auto ok = policy::read_scenario(words, facts); !ok) return ok;
  if (!options.facts.empty())
    if (auto ok = read_facts_file(options.facts, facts); !ok) return ok;
  for (const std::string& setting : options.settings)
    if (auto ok = policy::set_fact(setting, "command line", facts); !ok) return ok;
  return {};
}

int advise(const AdviseOptions& options) {
  const auto config =
      config_at(options.config.empty() ? find_config() : std::filesystem::path(options.config));
  if (!config) return report(config.error());
  const auto tree =
      policy_at(options.policy.empty() ? config->policy_path : std::filesystem::path(options.policy));
  if (!tree) return report(tree.error());
  policy::Facts described;
  if (auto ok = read_case(options, described); !ok) return report(ok.error());
  policy::Facts facts = std::move(described);
  if (!describes_a_machine(facts)) {  // a load without a machine is one for this machine
    facts = route::facts_of(route::probe_hardware(), config->opencl, config->vulkan);
    if (auto ok = read_case(options, facts); !ok) return report(ok.error());
  }
  if (auto ok = policy::complete_scenario(facts); !ok) return report(ok.error());
  const policy::Decision decision = policy::decide(*tree, facts);
  const std::string out =
      options.as_json
          ? policy::advice(decision, facts).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
                "\n"
          : policy::advice_text(decision, facts);
  std::fputs(out.c_str(), stdout);
  return decision.target ? kOk : kUnavailable;
}

}  // namespace

void add_advise_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<AdviseOptions>();
  CLI::App* command =
      app.add_subcommand("advise", "Which engine for a machine and a load, in words or facts");
  command->add_option("words", options->words,
                      "machine and load in a few words, with commas between; no machine: this one");
  command->add_option("--facts", options->facts, "JSON object of fact names and values");
  command->add_option("--fact", options->settings, "one fact as NAME=VALUE; may be given again")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  command->add_option("--policy", options->policy,
                      "policy.yaml (default: the one config.yaml names, or the shipped one)");
  command->add_flag("--json", options->as_json, "as one JSON document");
  command->footer(
      "Examples:\n"
      "  flyball advise one RTX 4090, chat, 8K\n"
      "  flyball advise \"two RTX 3090, 32 users\"\n"
      "  flyball advise mac, vision --json\n"
      "  flyball advise --facts case.json --fact workload.concurrency=16\n"
      "\n"
      "docs/advise.md lists the words, docs/policy-language.md the facts. Exit code 65: a word or fact that "
      "says "
      "nothing;\n"
      "69: no target.");
  command->callback([options, &exit_code] { exit_code = advise(*options); });
}

}  // namespace flyball::cli
