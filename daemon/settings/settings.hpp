// Everything that the operator's files say, as the daemon goes by it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/api/gateway.hpp"
#include "daemon/probe/model_files.hpp"

namespace flyball::settings {

// Which files hold the settings, and what the command line says instead of them.
struct Source {
  std::filesystem::path config;        // config.yaml; "": the shipped defaults
  std::optional<std::uint16_t> port;   // instead of the first TCP listener's
  std::optional<std::string> kv_type;  // of every model, instead of the configuration's: f16 or q8_0
};

// Read and checked together; `files` looks into those of the models. The first mistake, with its place.
Result<std::shared_ptr<api::Settings>> load_settings(const Source& source, probe::ModelFiles& files);

// Keys whose values differ and that a reload leaves as they were when the daemon started.
std::vector<std::string> fixed_at_start(const config::Config& running, const config::Config& read);

}  // namespace flyball::settings
