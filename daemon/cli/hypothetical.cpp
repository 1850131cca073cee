#include "daemon/cli/hypothetical.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <optional>

#include "daemon/cli/app_request.hpp"
#include "daemon/cli/facts_file.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/probe/probe.hpp"
#include "daemon/settings/config_files.hpp"
#include "policy/fact_text.hpp"
#include "policy/scenario.hpp"

namespace flyball::cli {
namespace {

bool describes_a_machine(const policy::Facts& facts) {
  const auto catalogue = facts.targets()->facts();
  for (std::size_t i = 0; i < catalogue.size(); ++i)
    if (catalogue[i].name.starts_with("hardware.") && facts.get(static_cast<policy::FactId>(i))) return true;
  return false;
}

// Words first, then the file, then single facts: each may correct what came before it.
Result<policy::Reading> set_given(const CaseOptions& options, policy::Facts& facts) {
  std::string words;
  for (const std::string& word : options.words) words += word + " ";
  auto reading = policy::read_scenario(words, facts);
  if (!reading) return pass(reading);
  if (!options.facts.empty())
    if (auto ok = read_facts_file(options.facts, facts); !ok) return pass(ok);
  for (const std::string& setting : options.settings)
    if (auto ok = policy::set_fact(setting, "command line", facts); !ok) return pass(ok);
  return reading;
}

}  // namespace

void add_case_options(CLI::App& command, CaseOptions& options) {
  command.add_option("words", options.words,
                     "machine and load in a few words, with commas between; no machine: this one");
  CLI::Option* const app =
      command.add_option("--app", options.app, "an app's request: the load that its manifest declares");
  command
      .add_option("--model", options.model,
                  "the model that it asks for (default: the one for requests without)")
      ->needs(app);
  command.add_option("--facts", options.facts, "JSON object of fact names and values");
  command.add_option("--fact", options.settings, "one fact as NAME=VALUE; may be given again")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--config", options.config, "config.yaml (default: the one `serve` would take)");
  command.add_option("--policy", options.policy,
                     "policy.yaml (default: the one config.yaml names, or the shipped one)");
}

Result<Case> read_case(const CaseOptions& options) {
  auto files = settings::config_and_policy(options.config, options.policy);
  if (!files) return pass(files);
  std::optional<AppRequest> request;
  if (!options.app.empty()) {
    auto found = app_request(files->config, options.app, options.model);
    if (!found) return pass(found);
    request = std::move(*found);
  }
  Case out{std::move(files->tree), {}, {}};
  out.facts = policy::Facts(out.tree.targets);
  if (auto ok = set_given(options, out.facts); !ok) return pass(ok);
  ThisMachine machine{policy::Facts(out.tree.targets), {}};
  if (!describes_a_machine(out.facts)) {  // a load without a machine is one for this machine
    if (request) {
      auto found = this_machine(files->config, *request, out.tree.targets);
      if (!found) return pass(found);
      machine = std::move(*found);
    } else {
      machine.hardware = probe::facts_of(probe::probe_hardware(), files->config.devices, out.tree.targets);
    }
  }
  if (request) {
    auto facts = facts_of(*request, machine.hardware, machine.measured);
    if (!facts) return pass(facts);
    machine.hardware = std::move(*facts);
  }
  out.facts = std::move(machine.hardware);
  policy::forget_derived(out.facts);  // they follow from the facts that are given, too
  auto reading = set_given(options, out.facts);
  if (!reading) return pass(reading);
  out.reading = std::move(*reading);
  if (auto ok = policy::complete_scenario(out.facts); !ok) return pass(ok);
  return out;
}

}  // namespace flyball::cli
