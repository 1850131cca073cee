// `flyball capabilities`: the capability table, as docs/capabilities.md has it, or JSON.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "config/capabilities.hpp"
#include "config/engine_kinds.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"

namespace flyball::cli {
namespace {

using Json = nlohmann::ordered_json;

Json cell(const config::Capability& capability) {
  return {{"served", config::to_string(capability.served)}, {"reason", config::sentence(capability)}};
}

// Rows by name, each with a cell for each engine kind.
template <class Of>
void add_row(Json& table, std::string_view name, Of of) {
  Json& row = table[std::string(name)] = Json::object();
  for (const config::EngineKind& kind : config::kEngineKinds) row[std::string(kind.id)] = cell(of(kind.id));
}

Json capabilities_json() {
  Json out = {{"schema", "flyball.capabilities/v1"},
              {"features", Json::object()},
              {"models_without_a_place_for_tools", Json::object()},
              {"models_without_infill_tokens", Json::object()},
              {"weights", Json::object()},
              {"architectures", Json::object()},
              {"mixtures", Json::object()}};
  const auto row_of = [](config::Feature feature, const config::ModelTraits& model) {
    return [feature, model](std::string_view kind) { return config::capability(kind, model, feature); };
  };
  for (std::size_t i = 0; i < config::kFeatures; ++i) {
    const auto feature = static_cast<config::Feature>(i);
    add_row(out["features"], to_string(feature), row_of(feature, {}));
    const auto add_if_it_differs = [&](const char* table, const config::ModelTraits& model) {
      if (config::capability(feature, model) != config::capability(feature))
        add_row(out[table], to_string(feature), row_of(feature, model));
    };
    add_if_it_differs("models_without_a_place_for_tools", {.tool_template = false});
    add_if_it_differs("models_without_infill_tokens", {.infills = false});
  }
  for (const std::string_view format : config::weight_formats())
    add_row(out["weights"], format, [format](auto kind) { return config::reads_weights(kind, format); });
  for (const std::string_view family : config::architectures())
    add_row(out["architectures"], family,
            [family](auto kind) { return config::runs_architecture(kind, family); });
  for (const config::EngineKind& kind : config::kEngineKinds)
    out["mixtures"][std::string(kind.id)] = config::mixture_of_experts(kind.id);
  return out;
}

// One table of the page. The engines serve alike, or each says its own.
std::string table_text(const char* what, const Json& rows) {
  std::string out = std::string("| ") + what + " |";
  std::string rule = "|---|";
  for (const config::EngineKind& kind : config::kEngineKinds) {
    out += " " + std::string(kind.id) + " |";
    rule += "---|";
  }
  out += " reason |\n" + rule + "---|\n";
  for (const auto& [name, cells] : rows.items()) {
    std::string reasons;
    out += "| `" + name + "` |";
    for (const auto& [kind, one] : cells.items()) {
      out += " " + one["served"].get<std::string>() + " |";
      if (const auto reason = one["reason"].get<std::string>(); !reasons.contains(reason))
        reasons += (reasons.empty() ? "" : " ") + reason;
    }
    out += reasons.empty() ? " |\n" : " " + reasons + " |\n";
  }
  return out;
}

std::string capabilities_text(const Json& table) {
  std::string out = table_text("feature", table["features"]);
  out += "\nModels whose chat template has no place for tools:\n\n" +
         table_text("feature", table["models_without_a_place_for_tools"]);
  out += "\nModels whose vocabulary has no infill tokens:\n\n" +
         table_text("feature", table["models_without_infill_tokens"]);
  out += "\n" + table_text("weights", table["weights"]);
  out += "\n" + table_text("architecture", table["architectures"]) + "\n";
  for (const auto& [kind, mixture] : table["mixtures"].items())
    out += "- The `" + kind + "` engine " + mixture.get<std::string>() + ".\n";
  return out;
}

}  // namespace

void add_capabilities_command(CLI::App& app, int& exit_code) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("capabilities", "What each engine serves: features, weights, models");
  command->add_flag("--json", *json, "As JSON");
  command->footer(
      "Examples:\n"
      "  flyball capabilities           the tables of docs/capabilities.md\n"
      "  flyball capabilities --json\n"
      "\n"
      "A running daemon says the same of each of its models at GET /v1/models.");
  command->callback([json, &exit_code] {
    const Json table = capabilities_json();
    std::fputs((*json ? table.dump(2) + "\n" : capabilities_text(table)).c_str(), stdout);
    exit_code = kOk;
  });
}

}  // namespace flyball::cli
