#include "config/yaml_folder.hpp"

#include <algorithm>
#include <string>
#include <system_error>

#include "config/ascii_lower.hpp"
#include "config/file_error.hpp"

namespace flyball::config {
namespace {

bool is_yaml(const std::string& name) {
  return name.ends_with(".yaml") || name.ends_with(".yml");
}
// A copy of a YAML file, or settings in a format that is not read here. A README or
// a file of keys beside them is there on purpose.
bool looks_meant(const std::string& name) {
  return name.find(".yaml") != std::string::npos || name.find(".yml") != std::string::npos ||
         name.ends_with(".json") || name.ends_with(".toml") || name.ends_with(".conf");
}

}  // namespace

Result<YamlFolder> read_yaml_folder(const std::filesystem::path& folder) {
  YamlFolder out;
  std::error_code error, unknown;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = ascii_lower(at->path().filename().string());
    if (name.starts_with('.')) continue;
    if (is_yaml(name))
      out.files.push_back(at->path());
    else if (looks_meant(name) || at->is_directory(unknown))
      out.ignored.push_back(at->path());
  }
  if (error) return fail(ErrorCode::config_invalid, unreadable(folder, error.value()), {}, folder.string());
  std::ranges::sort(out.files);
  std::ranges::sort(out.ignored);
  return out;
}

}  // namespace flyball::config
