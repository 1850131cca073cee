// Everything that the operator's files say, as the daemon goes by it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "daemon/measure/book.hpp"
#include "daemon/predict/kept_prompt.hpp"
#include "daemon/probe/model_files.hpp"
#include "policy/tree.hpp"

namespace flyball::settings {

// A reload replaces them all at once. Requests in flight keep the one they started with.
struct Settings {
  config::Config config;
  std::shared_ptr<const policy::Tree> tree;
  std::vector<config::AppManifest> apps;
  // One for each entry of the apps' `keep`, in their order (api::read_kept_prompts). Null: no app has any.
  std::shared_ptr<const std::vector<std::shared_ptr<const predict::KeptPrompt>>> kept;
  measure::Book measured;  // by calibrate, as of the reload
  probe::ModelFilesRead files;
  std::filesystem::path unused_policy;  // a policy.yaml beside config.yaml that says something else; "": none

  const BackendInfo* file_of(const config::ModelEntry& model) const {
    const auto it = files.infos.find(model.id);
    return it == files.infos.end() ? nullptr : &it->second;
  }
};

// Which files hold the settings, and what the command line says instead of them.
struct Source {
  std::filesystem::path config;        // config.yaml; "": the shipped defaults
  std::optional<std::uint16_t> port;   // instead of the first TCP listener's
  std::optional<std::string> kv_type;  // of every model, instead of the configuration's: f16 or q8_0
};

// Read and checked together; `files` looks into those of the models. The first mistake, with its place.
Result<std::shared_ptr<Settings>> load_settings(const Source& source, probe::ModelFiles& files);

// Keys whose values differ and that a reload leaves as they were when the daemon started.
std::vector<std::string> fixed_at_start(const config::Config& running, const config::Config& read);

}  // namespace flyball::settings
