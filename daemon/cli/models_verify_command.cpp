// `flyball models verify`: whether the files of models still have the digests that they had when they came.
#include <fcntl.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>

#include <nlohmann/json.hpp>

#include "config/ascii_lower.hpp"
#include "config/descriptor.hpp"
#include "config/name_list.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/models_folder.hpp"
#include "daemon/cli/operators_file.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/hub/digest.hpp"
#include "daemon/hub/folder.hpp"
#include "daemon/hub/url.hpp"

namespace flyball::cli {
namespace {

struct VerifyOptions {
  std::vector<std::string> models;
  std::string config;
  bool json = false;
};

// A digest that is known of a file, or of all shards of a model one after the other (the configuration's
// `sha256`), and what was found.
struct Verdict {
  std::vector<std::filesystem::path> files;
  std::string known;                    // SHA-256; "" where there is none
  std::string source;                   // what knows it, "" where nothing does
  std::vector<std::string> users = {};  // ids of the configuration
  std::string own = {};                 // "" where it was not read
  std::string trouble = {};             // why a file cannot be read
  bool fetched = false;                 // it lies in the folder of fetched models
  const char* word() const {
    return !trouble.empty() ? "unreadable"
           : known.empty()  ? "no digest known"
           : known == own   ? "ok"
                            : "differs";
  }
  bool right() const { return trouble.empty() && known == own; }
};

void add_verdict(std::vector<Verdict>& out, Verdict verdict) {
  if (std::ranges::none_of(
          out, [&](const Verdict& one) { return one.files == verdict.files && one.known == verdict.known; }))
    out.push_back(std::move(verdict));
}

// The files of a model with all digests that are known of them: `pin` is the configuration's.
void add_files(std::vector<Verdict>& out, const config::Config& config,
               const std::vector<std::filesystem::path>& files, const std::string& pin,
               const std::string& place) {
  const auto users = hub::users_of(config, files);
  for (const std::filesystem::path& file : files) {
    if (file.extension() == ".sha256") continue;  // in an MLX directory
    const std::string written = ascii_lower(hub::written_digest(file));
    if (!written.empty()) add_verdict(out, {{file}, written, hub::digest_file(file).string(), users});
  }
  if (!pin.empty()) add_verdict(out, {files, pin, place, users});
}

// Files of which nothing is known are listed, too.
void add_unknown(std::vector<Verdict>& out, const std::vector<std::filesystem::path>& files) {
  for (const std::filesystem::path& file : files)
    if (file.extension() != ".sha256" && std::ranges::none_of(out, [&](const Verdict& one) {
          return std::ranges::find(one.files, file) != one.files.end();
        }))
      out.push_back({{file}, "", ""});
}

Result<std::vector<Verdict>> known_digests(const VerifyOptions& options) {
  const auto folder = models_folder(options.config);
  if (!folder) return pass(folder);
  std::vector<Verdict> out;
  std::vector<std::string_view> ids;
  for (const config::ModelEntry& model : folder->config.models) ids.push_back(model.id);
  for (const std::string& wanted : options.models)
    if (std::ranges::find(ids, wanted) == ids.end())
      return fail(ErrorCode::unsupported_value,
                  "the configuration has no model " + config::not_among(wanted, ids));
  std::vector<std::filesystem::path> all;
  for (const config::ModelEntry& model : folder->config.models) {
    if (model.embedded ||
        (!options.models.empty() && std::ranges::find(options.models, model.id) == options.models.end()))
      continue;
    const auto files = hub::files_of(model.path);
    std::error_code ignored;
    const bool directory = std::filesystem::is_directory(model.path, ignored);  // has no pin
    add_files(out, folder->config, files, directory ? "" : model.sha256,
              folder->config.place("models." + model.id + ".sha256"));
    all.insert(all.end(), files.begin(), files.end());
  }
  if (options.models.empty())
    for (const hub::Stored& one : folder->stored) {
      if (one.part) continue;
      add_files(out, folder->config, one.files, "", "");
      all.insert(all.end(), one.files.begin(), one.files.end());
    }
  add_unknown(out, all);
  for (Verdict& one : out) one.fetched = !hub::below(folder->models_dir, one.files.front()).empty();
  return out;
}

// Files that nobody knows a digest of are not read.
void hash_files(Verdict& verdict) {
  hub::Hasher hasher;
  for (const std::filesystem::path& file : verdict.files) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(file, failed);
    if (failed) {
      verdict.trouble = failed.message();
      return;
    }
    if (verdict.known.empty()) continue;
    const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    auto read = opened ? hub::read_pieces(opened.get(), size, file,
                                          [&](std::span<const std::byte> bytes) { hasher.add(bytes); })
                       : Result<void>(std::unexpected(hub::system_error(file, "opened", errno)));
    if (!read) {
      verdict.trouble = read.error().message;
      return;
    }
  }
  if (!verdict.known.empty()) verdict.own = hasher.hex();
}

// The one hash of a file that several digests are known of.
void hash_all(std::vector<Verdict>& verdicts, const std::function<bool(const Verdict&)>& done) {
  for (auto one = verdicts.begin(); one != verdicts.end(); ++one) {
    const auto same = std::find_if(verdicts.begin(), one,
                                   [&](const Verdict& before) { return before.files == one->files; });
    if (same != one) {
      one->own = same->own;
      one->trouble = same->trouble;
    } else {
      hash_files(*one);
    }
    if (!done(*one)) return;
  }
}

std::string verdict_text(const Verdict& one) {
  std::string out = terminal_text(one.files.front().string());
  if (one.files.size() > 1) out += " and its other shards";
  out += std::string(": ") + one.word();
  if (!one.trouble.empty()) return out + " (" + terminal_text(one.trouble) + ")\n";
  if (one.known.empty() || one.known == one.own) return out + "\n";
  const std::string differs =
      out + " (sha256 " + one.own + ", expected " + one.known + " by " + terminal_text(one.source) + "): ";
  if (!one.fetched) return differs + "the file or that digest is wrong\n";
  const std::string what =
      one.users.empty() ? shell_word(terminal_text(one.files.front().string())) : one.users.front();
  return differs + "remove it (flyball models rm " + what + ") and pull it again\n";
}

int run_verify(const VerifyOptions& options) {
  auto verdicts = known_digests(options);
  if (!verdicts) return report(terminal_text(verdicts.error()));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  bool all_right = true, printed = true;
  hash_all(*verdicts, [&](const Verdict& one) {
    all_right = all_right && (one.right() || (one.trouble.empty() && one.known.empty()));
    if (!options.json) {
      printed = std::fputs(verdict_text(one).c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
      return printed;
    }
    json.push_back({{"file", one.files.front().string()},
                    {"shards", one.files.size()},
                    {"verdict", one.word()},
                    {"sha256", one.own},
                    {"expected", one.known},
                    {"source", one.source}});
    return true;
  });
  if (options.json)
    printed = std::fputs((json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n").c_str(),
                         stdout) >= 0;
  return !printed ? kIo : all_right ? kOk : kFailed;
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
