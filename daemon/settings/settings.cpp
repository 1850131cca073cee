#include "daemon/settings/settings.hpp"

#include <algorithm>
#include <utility>

#include "config/table.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::settings {

Result<std::shared_ptr<Settings>> load_settings(const Source& source, probe::ModelFiles& files) {
  auto settings = std::make_shared<Settings>();
  auto config = config_at(source.config);
  if (!config) return pass(config);
  auto tree = policy_of(*config);
  if (!tree) return pass(tree);
  auto apps = config::apps_of(*config);
  if (!apps) return pass(apps);
  if (auto wrong = config::cross_check(*config, *apps); !wrong.empty())
    return std::unexpected(config::first_of(wrong));
  if (source.port) {
    const auto tcp =
        std::ranges::find(config->listeners, config::Listener::Kind::tcp, &config::Listener::kind);
    if (tcp == config->listeners.end()) {
      return fail(ErrorCode::config_invalid, "--port is given and the configuration has no tcp listener",
                  "port", source.config.string());
    }
    tcp->port = *source.port;
  }
  if (source.kv_type)
    for (config::ModelEntry& model : config->models) model.kv_type = *source.kv_type;
  if (config->cache_dir.empty()) config->cache_dir = default_cache_dir();
  if (config->state_dir.empty()) config->state_dir = default_state_dir();
  if (config->kv_spill.directory.empty() && !config->cache_dir.empty())
    config->kv_spill.directory = config->cache_dir / "kv";
  settings->unused_policy = unused_policy(source.config, *config);
  settings->config = std::move(*config);
  settings->tree = std::make_shared<const policy::Tree>(std::move(*tree));
  settings->apps = std::move(*apps);
  settings->files = files.read(settings->config.models);
  return settings;
}

std::vector<std::string> fixed_at_start(const config::Config& running, const config::Config& read) {
  std::vector<std::string> keys;
  const auto differ = [&](const std::string& key, const auto& one, const auto& other) {
    if (one != other) keys.emplace_back(key);
  };
  differ("listeners", running.listeners, read.listeners);
  differ("state_dir", running.state_dir, read.state_dir);
  for (const config::EngineKind& kind : config::kEngineKinds) {
    const std::string key = std::string(kind.id) + (kind.most_devices > 1 ? ".devices" : ".device");
    differ(key, running.devices[kind], read.devices[kind]);
  }
  return keys;
}

}  // namespace flyball::settings
