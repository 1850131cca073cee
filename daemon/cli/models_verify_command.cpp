// `flyball models verify`: whether the files of models still have the digests that they had when they came.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "config/name_list.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/models_folder.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/hub/digest.hpp"
#include "daemon/hub/folder.hpp"

namespace flyball::cli {
namespace {

struct VerifyOptions {
  std::vector<std::string> models;
  std::string config;
  bool json = false;
};

struct Verdict {
  std::filesystem::path file;
  std::string known, own;  // SHA-256; "" where there is none
  std::string trouble;     // why the file cannot be read
  const char* word() const {
    return !trouble.empty() ? "unreadable"
           : known.empty()  ? "no digest known"
           : known == own   ? "ok"
                            : "differs";
  }
};

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The files of a model with the digests that are known of them: `pin` is the configuration's.
void add_files(std::vector<Verdict>& out, const std::vector<std::filesystem::path>& files,
               const std::string& pin) {
  for (const std::filesystem::path& file : files) {
    if (file.extension() == ".sha256") continue;  // in an MLX directory
    const bool seen = std::ranges::find(out, file, &Verdict::file) != out.end();
    std::string known = files.size() == 1 && !pin.empty() ? pin : hub::written_digest(file);
    if (!seen) out.push_back({file, lower_case(std::move(known)), {}, {}});
  }
}

Result<std::vector<Verdict>> verified_files(const VerifyOptions& options) {
  const auto folder = models_folder(options.config);
  if (!folder) return pass(folder);
  std::vector<Verdict> out;
  std::vector<std::string_view> ids;
  for (const config::ModelEntry& model : folder->config.models) ids.push_back(model.id);
  for (const std::string& wanted : options.models)
    if (std::ranges::find(ids, wanted) == ids.end())
      return fail(ErrorCode::unsupported_value,
                  "the configuration has no model " + config::not_among(wanted, ids));
  for (const config::ModelEntry& model : folder->config.models)
    if (!model.embedded &&
        (options.models.empty() || std::ranges::find(options.models, model.id) != options.models.end()))
      add_files(out, hub::files_of(model.path), model.sha256);
  if (options.models.empty())
    for (const hub::Stored& one : folder->stored)
      if (!one.part) add_files(out, one.files, "");
  return out;
}

// A file that nobody knows a digest of is not read.
void hash_file(Verdict& verdict) {
  std::error_code failed;
  const auto size = std::filesystem::file_size(verdict.file, failed);
  if (failed) {
    verdict.trouble = failed.message();
    return;
  }
  if (verdict.known.empty()) return;
  auto digests = hub::digests_of(verdict.file, size, false);
  if (digests)
    verdict.own = std::move(digests->sha256);
  else
    verdict.trouble = digests.error().message;
}

std::string verdict_text(const Verdict& one) {
  std::string out = one.file.string() + ": " + one.word();
  if (!one.trouble.empty()) return out + " (" + one.trouble + ")\n";
  if (one.known != one.own && !one.known.empty())
    out += " (sha256 " + one.own + ", expected " + one.known + ")";
  return out + "\n";
}

int run_verify(const VerifyOptions& options) {
  auto files = verified_files(options);
  if (!files) return report(files.error());
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  bool all_right = true;
  for (Verdict& one : *files) {
    hash_file(one);
    all_right = all_right && one.trouble.empty() && (one.known.empty() || one.known == one.own);
    if (options.json)
      json.push_back({{"file", one.file.string()},
                      {"verdict", one.word()},
                      {"sha256", one.own},
                      {"expected", one.known}});
    else if (std::fputs(verdict_text(one).c_str(), stdout) < 0 || std::fflush(stdout) != 0)
      return kIo;
  }
  if (options.json &&
      std::fputs((json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n").c_str(),
                 stdout) < 0)
    return kIo;
  return all_right ? kOk : kFailed;
}

}  // namespace

void add_models_verify_command(CLI::App& models_command, int& exit_code) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command =
      models_command.add_subcommand("verify", "Compare the files of models with their SHA-256");
  command->add_option("models", options->models,
                      "Ids (default: all of the configuration and the folder of models)");
  command->add_option("--config", options->config, "config.yaml (default: the one `serve` would take)");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  flyball models verify\n"
      "  flyball models verify Qwen3-0.6B-Q8_0\n"
      "\n"
      "The digests are those of FILE.sha256, which `flyball models pull` writes, and of the\n"
      "configuration's sha256. Exit code 1: a file differs or cannot be read; 64: no such model.");
  command->callback([options, &exit_code] { exit_code = run_verify(*options); });
}

}  // namespace flyball::cli
