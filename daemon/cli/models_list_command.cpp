// `flyball models list`: the models of the configuration and of the folder of fetched ones, and who uses
// what.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/models_folder.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/hub/url.hpp"

namespace flyball::cli {
namespace {

struct ListOptions {
  std::string config;
  bool json = false;
};

struct ListedModel {
  std::string id;  // "": nothing names the file
  std::filesystem::path file;
  std::uint64_t bytes = 0;
  std::string origin;  // "pulled": from the folder of models; "used in place", "built in"
  std::string state;   // "ok", "absent", "not used", "part: 40 % of 1.2 GiB"
  std::size_t references = 0;
};

std::uint64_t bytes_of(const std::vector<std::filesystem::path>& files) {
  std::uint64_t sum = 0;
  for (const std::filesystem::path& file : files) {
    std::error_code absent;
    const auto size = std::filesystem::file_size(file, absent);
    sum += absent ? 0 : size;
  }
  return sum;
}

ListedModel configured(const ModelsFolder& folder, const config::ModelEntry& model) {
  if (model.embedded) return {model.id, {}, 0, "built in", "ok", 1};
  std::error_code ignored;
  const auto files = hub::files_of(model.path);
  const bool here = !files.empty() && std::ranges::all_of(files, [&](const std::filesystem::path& file) {
    return std::filesystem::exists(file, ignored);
  });
  const bool pulled = !folder.models_dir.empty() && !hub::below(folder.models_dir, model.path).empty();
  return {model.id,
          model.path,
          bytes_of(files),
          pulled ? "pulled" : "used in place",
          here ? "ok" : "absent",
          hub::users_of(folder.config, files.empty() ? std::vector{model.path} : files).size()};
}

std::vector<ListedModel> all_models(const ModelsFolder& folder) {
  std::vector<ListedModel> out;
  for (const config::ModelEntry& model : folder.config.models) out.push_back(configured(folder, model));
  for (const hub::Stored& one : folder.stored) {
    if (one.part) {
      const std::string all = one.expected ? " of " + config::size_text(*one.expected) : "";
      out.push_back({"", one.file, one.bytes, "pulled", "part: " + config::size_text(one.bytes) + all, 0});
    } else if (auto files = one.files;
               files.push_back(one.file), hub::users_of(folder.config, files).empty()) {
      out.push_back({"", one.file, one.bytes, "pulled", "not used", 0});
    }
  }
  return out;
}

std::string list_json(const ModelsFolder& folder, const std::vector<ListedModel>& models) {
  nlohmann::ordered_json out{{"models_dir", folder.models_dir.string()},
                             {"config_file", folder.config_file.string()},
                             {"models", nlohmann::ordered_json::array()}};
  for (const ListedModel& one : models)
    out["models"].push_back({{"id", one.id},
                             {"file", one.file.string()},
                             {"bytes", one.bytes},
                             {"origin", one.origin},
                             {"state", one.state},
                             {"references", one.references}});
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string list_text(const ModelsFolder& folder, const std::vector<ListedModel>& models) {
  std::vector<std::vector<std::string>> rows{{"model", "size", "origin", "state", "used by", "file"}};
  for (const ListedModel& one : models)
    rows.push_back({one.id.empty() ? "-" : one.id, one.file.empty() ? "-" : config::size_text(one.bytes),
                    one.origin, one.state, std::to_string(one.references),
                    one.file.empty() ? "-" : terminal_text(one.file.string())});
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      out += row[i] + (i + 1 < row.size() ? std::string(widths[i] - row[i].size() + 2, ' ') : "\n");
  }
  return out + "\nFetched models lie in " +
         (folder.models_dir.empty() ? std::string("no known folder")
                                    : terminal_text(folder.models_dir.string())) +
         ".\n";
}

int run_list(const ListOptions& options) {
  const auto folder = models_folder(options.config);
  if (!folder) return report(terminal_text(folder.error()));
  const auto models = all_models(*folder);
  const std::string out = options.json ? list_json(*folder, models) : list_text(*folder, models);
  return std::fputs(out.c_str(), stdout) < 0 ? kIo : kOk;
}

}  // namespace

void add_models_list_command(CLI::App& models_command, int& exit_code) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command = models_command.add_subcommand(
      "list", "Show the models of the configuration and the files that were fetched");
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  flyball models list\n"
      "  flyball models list --json\n"
      "\n"
      "\"used by\" is the number of models of the configuration that have the file.");
  command->callback([options, &exit_code] { exit_code = run_list(*options); });
}

}  // namespace flyball::cli
