// Models that a command adds to the operator's configuration: a file config.d/model-ID.yaml each, which a
// person can read, change and remove. No file that is there is changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/error.hpp"

namespace flyball::cli {

struct NewModel {
  std::string id;
  std::filesystem::path path;  // absolute; UTF-8 without control characters
  std::string sha256 = {};     // "" or 64 hex digits
  std::vector<std::string> aliases = {};
  std::uint32_t longest = 0;  // tokens that fit here, for a comment; 0: not known
};

struct WrittenModels {
  std::filesystem::path config_file;
  std::vector<std::filesystem::path> files;  // one for each model, in order
  bool made_config = false;                  // there was none: it is the shipped one
  std::string default_model;                 // the first model, where requests went to the demo model so far
};
// Writes all models or none. config_file: "" where there is none yet, which makes
// ~/.config/flyball/config.yaml. Errors: config_invalid (as it would be read, ids that are taken, more
// drop-ins than a configuration may have), io_error.
Result<WrittenModels> write_models(const std::filesystem::path& config_file,
                                   std::span<const NewModel> models);

// The command that asks a model without a daemon, in words. id: "" for a model that no configuration has.
// config:
// `--config` as it was given.
std::string ask_text(const std::string& id, const std::filesystem::path& path, const std::string& config);
// The command that brings the model to every app. reload: of reload_command().
std::string serve_text(const std::string& reload, bool made_config, const std::string& config);

// An id in the shape that config.yaml takes, from any name: "Qwen3 0.6B (Q8)" becomes "Qwen3-0.6B-Q8".
// "model" where nothing is left.
std::string model_id_from(std::string_view name);

// The command that has the running daemon of this configuration's state directory read its configuration
// again;
// "": no daemon runs there.
std::string reload_command(const config::Config& config, const std::filesystem::path& config_file);

}  // namespace flyball::cli
