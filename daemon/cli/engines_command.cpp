// `flyball engines`: the engine catalogue, as a table, one system with its facts, or JSON.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "config/table.hpp"
#include "config/yaml.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/terminal.hpp"
#include "policy/engines.hpp"

namespace flyball::cli {
namespace {

struct EnginesOptions {
  std::string id, file;
  bool as_json = false;
};

std::string stand_in(const policy::EngineEntry& engine) {
  if (!engine.denied.empty()) return "denied";
  std::string out;
  for (const policy::Target& target : engine.here) out += (out.empty() ? "" : ", ") + to_string(target);
  return out.empty() ? "advice only" : out;
}

void print_table(const policy::EngineCatalogue& catalogue) {
  std::size_t ids = 0, heres = 0;
  for (const policy::EngineEntry& engine : catalogue.engines) {
    ids = std::max(ids, engine.id.size());
    heres = std::max(heres, stand_in(engine).size());
  }
  const auto padded = [](std::string text, std::size_t width) {
    return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
  };
  std::printf("%s  %s  %s  what the documents think of it\n", padded("id", ids).c_str(),
              padded("kind", 12).c_str(), padded("here", heres).c_str());
  for (const policy::EngineEntry& engine : catalogue.engines)
    std::printf("%s  %s  %s  %s\n", padded(engine.id, ids).c_str(),
                padded(std::string(to_string(engine.kind)), 12).c_str(),
                padded(stand_in(engine), heres).c_str(), engine.verdict.c_str());
}

Result<policy::EngineCatalogue> catalogue_at(const std::string& file) {
  if (file.empty()) return policy::shipped_engines();
  const auto text = config::read_text_file(file);
  if (!text) return pass(text);
  return policy::parse_engines(*text, file);
}

int engines(const EnginesOptions& options) {
  const auto catalogue = catalogue_at(options.file);
  if (!catalogue) return report(catalogue.error());
  const policy::EngineEntry* one = catalogue->find(options.id);
  if (!options.id.empty() && !one)
    return report(Error{
        ErrorCode::invalid_value,
        "no system is called \"" + options.id + "\"" + config::did_you_mean(options.id, catalogue->ids()),
        {},
        catalogue->file});
  if (options.as_json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const policy::EngineEntry& engine : catalogue->engines) rows.push_back(policy::to_json(engine));
    const nlohmann::json out =
        one ? policy::to_json(*one) : nlohmann::json{{"schema", "flyball.engines/v1"}, {"engines", rows}};
    std::printf("%s\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else if (one) {
    std::fputs(policy::describe(*one).c_str(), stdout);
  } else {
    print_table(*catalogue);
  }
  return kOk;
}

}  // namespace

void add_engines_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<EnginesOptions>();
  CLI::App* command =
      app.add_subcommand("engines", "The engine catalogue: systems, facts, and what stands for them here");
  command->add_option("id", options->id, "one system, with everything known about it");
  command->add_option("--file", options->file, "another catalogue than the shipped one; it is checked");
  command->add_flag("--json", options->as_json, "as one JSON document");
  command->footer(
      "Examples:\n"
      "  flyball engines               every system, one a line\n"
      "  flyball engines exllamav2     one, with its facts\n"
      "  flyball engines --json\n"
      "\n"
      "docs/engines.md describes the facts. Exit code 65: no such system; 78: the file is wrong.");
  command->callback([options, &exit_code] { exit_code = engines(*options); });
}

}  // namespace flyball::cli
