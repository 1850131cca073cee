// The cases of the folder schemas: files of JSON arrays with one case a line. A case is {"schema", "valid",
// "invalid"}; its documents have their keys in declared order. "misjudged": true marks a case that
// schema_oracle.py leaves out, and "ajv_errs" says why tests/clients/ajv_suite.mjs disagrees with it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

namespace flyball::grammar {

// All cases, by file name and line. Throws if a file is not JSON.
inline nlohmann::ordered_json schema_cases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(FLYBALL_SOURCE_DIR "/tests/backends/grammar/schemas"))
    files.push_back(entry.path());
  std::ranges::sort(files);
  auto cases = nlohmann::ordered_json::array();
  for (const auto& path : files) {
    std::ifstream file(path);
    for (auto& each : nlohmann::ordered_json::parse(file)) cases.push_back(std::move(each));
  }
  return cases;
}

}  // namespace flyball::grammar
