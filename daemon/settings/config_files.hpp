// Where commands find the operator's files when the command line does not say, and the shipped ones behind
// them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "policy/tree.hpp"

namespace flyball::settings {

// The first that exists of config.yaml and config.yml in $XDG_CONFIG_HOME/flyball (or ~/.config/flyball) and
// then in /etc/flyball; "" where there is none: the shipped defaults hold.
std::filesystem::path find_config();
// A user's own config.yaml, whether it is there or not: in $XDG_CONFIG_HOME/flyball or ~/.config/flyball. ""
// where neither is known.
std::filesystem::path own_config();
// Beside a configuration called config.yaml the one called config.yml, and the reverse: only one of them is
// read. "": there is none.
std::filesystem::path unused_config(const std::filesystem::path& config_file);

inline constexpr const char* kShippedConfig = "<shipped config.yaml>";
inline constexpr const char* kShippedPolicy = "<shipped policy.yaml>";

// $CACHE_DIRECTORY (systemd), $XDG_CACHE_HOME/flyball, ~/.cache/flyball; "" where none is known.
std::filesystem::path default_cache_dir();
// $STATE_DIRECTORY (systemd), $XDG_STATE_HOME/flyball, ~/.local/state/flyball; "" where none is known.
std::filesystem::path default_state_dir();
// The folder of fetched models: models_dir of a configuration, else of one in /etc/flyball
// /var/lib/flyball-models (the service's own state directory is closed to the person who fetches), else
// $XDG_DATA_HOME/flyball/models, ~/.local/share/flyball/models; "" where none is known.
std::filesystem::path models_dir(const config::Config& config, const std::filesystem::path& config_file);
// Of the configuration that `serve` would find here, else the default.
std::filesystem::path served_cache_dir();

// The file at `path`, or the shipped one where it is "".
Result<config::Config> config_at(const std::filesystem::path& path);
Result<policy::Tree> policy_at(const std::filesystem::path& path);
// The policy that a configuration names, or the shipped one. One that cannot be read is a mistake where
// policy_path is written.
std::string policy_name(const config::Config& config);
Result<std::string> policy_text(const config::Config& config);
Result<policy::Tree> policy_of(const config::Config& config);
// The policy.yaml beside the configuration's file where policy_path does not name it and it says something
// else than the policy in force; else "". An operator who put it there expects it to be used.
std::filesystem::path unused_policy(const std::filesystem::path& config_file, const config::Config& config);
std::string unused_policy_text(const std::filesystem::path& unused, const config::Config& config);
// What a tool's --config and --policy name; "": the configuration that `serve` would find here, the policy
// that it names.
struct ConfigAndPolicy {
  config::Config config;
  policy::Tree tree;
};
Result<ConfigAndPolicy> config_and_policy(const std::string& config, const std::string& policy);

}  // namespace flyball::settings
