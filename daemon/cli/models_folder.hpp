// The configuration and the folder of fetched models, as `flyball models list`, `rm` and `verify` see them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/error.hpp"
#include "daemon/hub/shelf.hpp"

namespace flyball::cli {

struct ModelsFolder {
  std::filesystem::path config_file;  // "": the shipped configuration
  config::Config config;
  std::filesystem::path models_dir;  // "": none is known; it may be absent
  std::vector<hub::Stored> stored;
};
// `config`: "" for the file that `serve` would take.
Result<ModelsFolder> models_folder(const std::string& config);

}  // namespace flyball::cli
