#include "daemon/cli/models_folder.hpp"

#include "daemon/settings/config_files.hpp"

namespace flyball::cli {

Result<ModelsFolder> models_folder(const std::string& config) {
  ModelsFolder out;
  out.config_file = config.empty() ? settings::find_config() : std::filesystem::path(config);
  auto read = settings::config_at(out.config_file);
  if (!read) return pass(read);
  out.config = std::move(*read);
  out.models_dir = settings::models_dir(out.config, out.config_file);
  if (out.models_dir.empty()) return out;
  out.models_dir = std::filesystem::absolute(out.models_dir);
  auto stored = hub::stored_models(out.models_dir);
  if (!stored) return pass(stored);
  out.stored = std::move(*stored);
  return out;
}

}  // namespace flyball::cli
