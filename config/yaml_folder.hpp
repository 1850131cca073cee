// Which files of a folder the daemon reads (apps.d, config.d), and which it passes over although they look as
// if somebody wanted them read.
#pragma once

#include <filesystem>
#include <vector>

#include "config/error.hpp"

namespace flyball::config {

// Both in name order; hidden files, which editors and package managers leave, are in neither.
struct YamlFolder {
  std::vector<std::filesystem::path> files;    // whose names end in .yaml or .yml, in capitals or not
  std::vector<std::filesystem::path> ignored;  // folders, copies such as a.yaml.bak, other formats
};

// config_invalid: the folder cannot be read.
Result<YamlFolder> read_yaml_folder(const std::filesystem::path& folder);

}  // namespace flyball::config
