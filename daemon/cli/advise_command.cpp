// `flyball advise`: which system the documents take for a machine and a load, and what serves it here. The
// machine may exist in words or facts alone.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/hypothetical.hpp"
#include "daemon/cli/terminal.hpp"
#include "policy/advice.hpp"

namespace flyball::cli {
namespace {

struct AdviseOptions {
  CaseOptions asked;
  bool as_json = false;
};

int advise(const AdviseOptions& options) {
  const auto asked = read_case(options.asked);
  if (!asked) return report(asked.error());
  const policy::Facts& facts = asked->facts;
  const policy::Decision decision = policy::decide(asked->tree, facts);
  const policy::Reading& reading = asked->reading;
  const policy::Advice advice = policy::advise(decision, facts, reading);
  const std::string out = options.as_json
                              ? policy::to_json(advice, decision, facts, reading)
                                        .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
                                    "\n"
                              : policy::advice_text(advice, decision, facts);
  std::fputs(out.c_str(), stdout);
  if (!reading.words.empty() && reading.understood.empty()) return kBadInput;
  return decision.target ? kOk : kUnavailable;
}

}  // namespace

void add_advise_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<AdviseOptions>();
  CLI::App* command =
      app.add_subcommand("advise", "Which engine for a machine and a load, in words or facts");
  add_case_options(*command, options->asked);
  command->add_flag("--json", options->as_json, "as one JSON document");
  command->footer(
      "Examples:\n"
      "  flyball advise one RTX 4090, chat, 8K\n"
      "  flyball advise \"two RTX 3090, 32 users\"\n"
      "  flyball advise mac, vision --json\n"
      "  flyball advise --app chat-page\n"
      "  flyball advise --app chat-page one RTX 4090\n"
      "  flyball advise --facts case.json --fact workload.concurrency=16\n"
      "\n"
      "docs/advise.md lists the words, docs/policy-language.md the facts. Exit code 65: no word says "
      "anything,\n"
      "or a fact is wrong; 69: no target.");
  command->callback([options, &exit_code] { exit_code = advise(*options); });
}

}  // namespace flyball::cli
