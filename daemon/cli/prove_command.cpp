// `flyball prove`: that a policy sends no request to a target while something holds, or how it comes to.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "config/name_list.hpp"
#include "config/table.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/settings/config_files.hpp"
#include "policy/decide.hpp"
#include "policy/reach.hpp"

namespace flyball::cli {
namespace {

struct ProveOptions {
  std::string never = "remote", config, policy;
  std::vector<std::string> assume;
  bool as_json = false;
};

// flyball.proof/v1
nlohmann::json to_json(const policy::Tree& tree, const policy::Proof& proof, const std::string& never,
                       const std::vector<std::string>& assume) {
  nlohmann::json open = nlohmann::json::array();
  for (const policy::Proof::Place& place : proof.open) {
    const bool undecided = place.answer.reach == policy::Reach::undecided;
    nlohmann::json row = {{"rule", place.rule->id},
                          {"line", place.target->line},
                          {"target", to_string(*place.target)},
                          {"reach", undecided ? "undecided" : "possible"},
                          {"receipt", nullptr}};
    if (!undecided)
      row["receipt"] = policy::receipt(policy::decide(tree, place.answer.facts), place.answer.facts);
    open.push_back(std::move(row));
  }
  return {
      {"schema", "flyball.proof/v1"}, {"policy", tree.file},    {"never", never},         {"assume", assume},
      {"proved", proof.holds()},      {"places", proof.places}, {"open", std::move(open)}};
}

std::string joined_by_and(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : " and ") + part;
  return out;
}

void print_open(const policy::Tree& tree, const policy::Proof::Place& place) {
  std::printf("rule %s (%s:%u) can lead to %s", place.rule->id.c_str(), tree.file.c_str(), place.target->line,
              to_string(*place.target).c_str());
  if (place.answer.reach == policy::Reach::undecided) {
    std::printf(", or not: the search was given up\n");
    return;
  }
  std::printf(", with these facts:\n");
  const policy::Decision decision = policy::decide(tree, place.answer.facts);
  std::fputs(policy::explain_text(policy::receipt(decision, place.answer.facts)).c_str(), stdout);
}

int prove(const ProveOptions& options) {
  const auto files = settings::config_and_policy(options.config, options.policy);
  if (!files) return report(files.error());
  const policy::Tree* const tree = &files->tree;
  const auto known = tree->targets->names();
  std::vector<std::string_view> names(known.begin(), known.end());
  names.push_back(policy::kRemote);
  if (std::ranges::find(names, std::string_view(options.never)) == names.end())
    return report(Error{ErrorCode::invalid_value,
                        "unknown target \"" + options.never + "\"" +
                            config::did_you_mean(options.never, names) + " (--never takes remote, " +
                            config::listed(known) + ")",
                        {},
                        {}});
  const std::vector<std::string> assume =
      options.assume.empty() ? std::vector<std::string>{"app.privacy=local_only"} : options.assume;
  std::vector<policy::Condition> assumptions;
  for (const std::string& assignment : assume) {
    auto condition = policy::assumption(assignment, tree->targets);
    if (!condition) return report(condition.error());
    assumptions.push_back(std::move(*condition));
  }
  const policy::Proof proof = policy::prove_never(*tree, options.never, assumptions);
  if (!proof.possible)
    return report(Error{ErrorCode::invalid_value,
                        "no facts meet " + joined_by_and(assume) + " together: there is nothing to prove",
                        {},
                        {}});
  if (options.as_json) {
    const nlohmann::json out = to_json(*tree, proof, options.never, assume);
    std::printf("%s\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return proof.holds() ? kOk : kFailed;
  }
  const std::string claim =
      "where " + joined_by_and(assume) + ", " + tree->file + " never uses " + options.never;
  if (proof.holds()) {
    std::printf("proved: %s (places looked at: %zu)\n", claim.c_str(), proof.places);
    return kOk;
  }
  std::printf("not proved: %s (places open: %zu of %zu)\n", claim.c_str(), proof.open.size(), proof.places);
  print_open(*tree, proof.open.front());
  return kFailed;
}

}  // namespace

void add_prove_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ProveOptions>();
  CLI::App* command =
      app.add_subcommand("prove", "Prove that a policy never uses a target, or show how it does");
  command->add_option("--never", options->never, "a target without profile, or remote: every upstream")
      ->capture_default_str();
  command
      ->add_option("--assume", options->assume,
                   "a fact that holds, as NAME=VALUE; may be given again (default: app.privacy=local_only)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  command->add_option("--policy", options->policy,
                      "policy.yaml (default: the one config.yaml names, or the shipped one)");
  command->add_flag("--json", options->as_json, "as one JSON document, with a receipt for each open place");
  command->footer(
      "Examples:\n"
      "  flyball prove                                     private prompts reach no upstream\n"
      "  flyball prove --policy new.yaml --assume app.id=indexer --never vulkan\n"
      "\n"
      "Exit code 0: proved; 1: not, and the facts that lead there are printed.");
  command->callback([options, &exit_code] { exit_code = prove(*options); });
}

}  // namespace flyball::cli
