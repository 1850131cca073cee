// `flyball why-not TARGET`: what stands between a case and a target, rule by rule.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "config/name_list.hpp"
#include "config/yaml.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/hypothetical.hpp"
#include "daemon/cli/terminal.hpp"
#include "policy/engines.hpp"
#include "policy/why_not.hpp"

namespace flyball::cli {
namespace {

struct WhyNotOptions {
  std::string target;
  CaseOptions asked;
  bool as_json = false;
};

int why_not(const WhyNotOptions& options) {
  const auto asked = read_case(options.asked);
  if (!asked) return report(asked.error());
  const policy::TargetCatalogue& targets = *asked->tree.targets;
  config::Node node;
  node.kind = config::Node::Kind::scalar;
  node.text = options.target;
  config::Findings mistakes;
  const auto profiles = policy::profile_names(asked->tree.profiles);
  const policy::Target wanted =
      policy::read_target(node, targets, profiles, &policy::shipped_engines(), mistakes);
  if (!mistakes.empty())
    return report(Error{ErrorCode::invalid_value,
                        mistakes.front().message + " (targets: " + config::listed(targets.names()) +
                            "; alone, or with a profile: " + config::listed(profiles) + ")",
                        "target",
                        {}});
  const nlohmann::json answer =
      policy::why_not(policy::decide(asked->tree, asked->facts), asked->facts, wanted);
  const std::string out = options.as_json
                              ? answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                              : policy::why_not_text(answer);
  std::fputs(out.c_str(), stdout);
  for (const std::string& word : asked->reading.skipped)
    std::fprintf(stderr, "flyball: skipped \"%s\", which says nothing here\n", word.c_str());
  return kOk;
}

}  // namespace

void add_why_not_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<WhyNotOptions>();
  CLI::App* command =
      app.add_subcommand("why-not", "Why a machine and a load do not get a target, rule by rule");
  command->add_option("target", options->target, "engine, or engine:profile")->required();
  add_case_options(*command, options->asked);
  command->add_flag("--json", options->as_json, "as one JSON document");
  command->footer(
      "Examples:\n"
      "  flyball why-not vllm one RTX 4090, chat\n"
      "  flyball why-not vulkan --app chat-page\n"
      "  flyball why-not opencl:background --facts case.json\n"
      "\n"
      "Words and facts are those of `flyball advise`. Exit code 65: no such target, word or fact.");
  command->callback([options, &exit_code] { exit_code = why_not(*options); });
}

}  // namespace flyball::cli
