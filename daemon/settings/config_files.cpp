#include "daemon/settings/config_files.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <system_error>

#include "config/yaml.hpp"

namespace flyball::settings {
namespace {

constexpr const char* kConfigNames[] = {"config.yaml", "config.yml"};  // the first one that is there

// XDG's directory of this user's, or the usual one below the home directory; "" where none is known.
std::filesystem::path user_directory(const char* xdg, const char* in_home) {
  if (const char* given = std::getenv(xdg); given && *given == '/')
    return std::filesystem::path(given) / "flyball";
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::filesystem::path(home) / in_home / "flyball";
  return {};
}

// systemd's, or the user's.
std::filesystem::path own_directory(const char* systemd, const char* xdg, const char* in_home) {
  if (const char* given = std::getenv(systemd); given && *given == '/') {
    const std::string all = given;  // a colon between several
    return all.substr(0, all.find(':'));
  }
  return user_directory(xdg, in_home);
}

}  // namespace

std::filesystem::path own_config() {
  const auto folder = user_directory("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? folder : folder / kConfigNames[0];
}

std::filesystem::path find_config() {
  std::vector<std::filesystem::path> folders{"/etc/flyball"};
  if (const auto own = own_config(); !own.empty()) folders.insert(folders.begin(), own.parent_path());
  std::error_code ec;
  for (const auto& folder : folders)
    for (const char* const name : kConfigNames)
      if (std::filesystem::exists(folder / name, ec)) return folder / name;
  return {};
}

std::filesystem::path unused_config(const std::filesystem::path& config_file) {
  std::error_code ec;
  if (std::ranges::find(kConfigNames, config_file.filename()) == std::end(kConfigNames)) return {};
  for (const char* const name : kConfigNames)
    if (const auto beside = config_file.parent_path() / name;
        beside != config_file && std::filesystem::exists(beside, ec) &&
        !std::filesystem::equivalent(beside, config_file, ec))
      return beside;
  return {};
}

std::filesystem::path default_cache_dir() {
  return own_directory("CACHE_DIRECTORY", "XDG_CACHE_HOME", ".cache");
}
std::filesystem::path default_state_dir() {
  return own_directory("STATE_DIRECTORY", "XDG_STATE_HOME", ".local/state");
}

std::filesystem::path models_dir(const config::Config& config, const std::filesystem::path& config_file) {
  if (!config.models_dir.empty()) return config.models_dir;
  if (config_file.parent_path() == "/etc/flyball") return "/var/lib/flyball-models";
  const auto data = user_directory("XDG_DATA_HOME", ".local/share");
  return data.empty() ? data : data / "models";
}

Result<config::Config> config_at(const std::filesystem::path& path) {
  return path.empty() ? config::parse_config(config::default_config_yaml(), kShippedConfig)
                      : config::load_config(path);
}

std::filesystem::path served_cache_dir() {
  const auto config = config_at(find_config());
  return config && !config->cache_dir.empty() ? config->cache_dir : default_cache_dir();
}

Result<policy::Tree> policy_at(const std::filesystem::path& path) {
  if (path.empty()) return policy::parse_policy(config::default_policy_yaml(), kShippedPolicy);
  auto text = config::read_operators_file(path);
  if (!text) return pass(text);
  return policy::parse_policy(*text, path.string());
}

std::string policy_name(const config::Config& config) {
  return config.policy_path.empty() ? kShippedPolicy : config.policy_path.string();
}

Result<std::string> policy_text(const config::Config& config) {
  if (config.policy_path.empty()) return std::string(config::default_policy_yaml());
  auto text = config::read_operators_file(config.policy_path);
  if (!text)
    return fail(ErrorCode::config_invalid,
                "policy_path: " + config.policy_path.string() + " " + text.error().message, "policy_path",
                config.place("policy_path"));
  return text;
}

Result<policy::Tree> policy_of(const config::Config& config) {
  auto text = policy_text(config);
  if (!text) return pass(text);
  return policy::parse_policy(*text, policy_name(config));
}

std::filesystem::path unused_policy(const std::filesystem::path& config_file, const config::Config& config) {
  if (config_file.empty()) return {};
  std::error_code error;
  for (const char* const name : {"policy.yaml", "policy.yml"}) {
    const auto beside = config_file.parent_path() / name;
    if (!std::filesystem::is_regular_file(beside, error) ||
        std::filesystem::equivalent(beside, config.policy_path, error))
      continue;
    const auto unused = config::read_operators_file(beside), used = policy_text(config);
    if (!unused || !used || *unused != *used) return beside;
  }
  return {};
}

std::string unused_policy_text(const std::filesystem::path& unused, const config::Config& config) {
  return unused.string() + " is not used: " + policy_name(config) +
         " holds. To use it, add \"policy_path: " + unused.filename().string() +
         "\" to the configuration beside it.";
}

Result<ConfigAndPolicy> config_and_policy(const std::string& config, const std::string& policy) {
  auto read = config_at(config.empty() ? find_config() : std::filesystem::path(config));
  if (!read) return pass(read);
  auto tree = policy.empty() ? policy_of(*read) : policy_at(policy);
  if (!tree) return pass(tree);
  return ConfigAndPolicy{std::move(*read), std::move(*tree)};
}

}  // namespace flyball::settings
