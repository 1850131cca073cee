// config.yaml: the checks that span rows, drop-ins and the embedded defaults.
#include "config/config.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config_table.hpp"
#include "config/path.hpp"
#include "config/units.hpp"
#include "config/yaml.hpp"
#include "config/yaml_folder.hpp"
#include "embedded/default_app.hpp"
#include "embedded/default_config.hpp"
#include "embedded/default_engines.hpp"
#include "embedded/default_policy.hpp"

namespace flyball::config {
namespace {

constexpr std::size_t kMaxDropIns = 100;

const Shape& config_shape() {
  static const Shape shape = object_of(config_table());
  return shape;
}

// Whether the system refuses the second of two sockets (EADDRINUSE): the same port, and of one family the
// same address, or one of them is all of the family's addresses. Sockets of IPv6 take no IPv4 connections
// (daemon/http/listener), so 0.0.0.0 and [::] are two.
bool clash(const TcpAddress& a, const TcpAddress& b) {
  const auto all = [](const TcpAddress& one) { return one.address == (one.ipv6 ? "::" : "0.0.0.0"); };
  return a.port == b.port && a.port != 0 && a.ipv6 == b.ipv6 && (a.address == b.address || all(a) || all(b));
}

// What no single row shows. The root has passed check_shape.
void check_between_rows(const Node& root, Findings& findings) {
  const auto add = [&](const Mark& at, std::string message, std::string path) {
    findings.push_back(finding(at, path + ": " + message, path));
  };

  std::vector<std::pair<TcpAddress, std::string>> tcp;  // with how the file writes it
  bool systemd = false;
  for (const Entry& entry : root.find("listeners")->entries) {
    const std::string path = "listeners." + entry.key;
    if (entry.value.entries.size() != 1) {
      add(entry.at, "expected exactly one of tcp, unix and systemd", path);
      continue;
    }
    const Entry& kind = entry.value.entries.front();
    if (kind.key == "systemd") {
      if (!as_bool(kind.value)) add(kind.value.at, "false has no meaning; leave the listener out", path);
      if (std::exchange(systemd, true)) add(kind.value.at, "another listener takes systemd's sockets", path);
    } else if (kind.key == "tcp") {
      const TcpAddress address = *parse_tcp(kind.value.text);
      const auto taken =
          std::ranges::find_if(tcp, [&](const auto& other) { return clash(other.first, address); });
      if (taken != tcp.end()) add(kind.value.at, "another listener already has " + taken->second, path);
      tcp.emplace_back(address, kind.value.text);
    }
  }

  for (const EngineKind& kind : kEngineKinds)
    if (const Node* engine = root.find(kind.id); engine != nullptr && engine->find("device") != nullptr)
      if (const Node* devices = engine->find("devices"); devices != nullptr)
        add(devices->at, "expected only one of `device` and `devices`", std::string(kind.id) + ".devices");

  std::set<std::string> names;
  for (const Entry& entry : root.find("models")->entries) names.insert(entry.key);
  for (const Entry& entry : root.find("models")->entries) {
    const std::string path = "models." + entry.key;
    const Node* embedded = entry.value.find("embedded");
    const bool is_embedded = embedded && as_bool(*embedded);
    const bool has_path = entry.value.find("path") != nullptr;
    if (is_embedded == has_path) add(entry.at, "expected exactly one of `path` and `embedded: true`", path);
    if (const Node* pin = entry.value.find("sha256"); pin != nullptr && is_embedded)
      add(pin->at, "the embedded model is part of the program and has none; leave it out", path + ".sha256");
    if (const Node* aliases = entry.value.find("aliases"))
      for (const Node& alias : aliases->items)
        if (!names.insert(alias.text).second)
          add(alias.at, "\"" + alias.text + "\" already names a model", path + ".aliases");
  }
  if (const Node* model = root.find("default_model"); model && !names.contains(model->text)) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    add(model->at, "no model is called \"" + model->text + "\"" + did_you_mean(model->text, known),
        "default_model");
  }

  const Node* without_key = root.find("loopback_without_key");
  if (without_key && as_bool(*without_key) && !root.find("default_app"))
    add(without_key->at, "needs `default_app`, the app that such requests act as", "loopback_without_key");

  if (const Node* node = root.find("http")) {
    HttpLimits http;
    read_into(http, *node, http_table());
    if (http.reserved_connections >= http.connections) {
      const Node* reserved = node->find("reserved_connections");
      add(reserved->at,
          std::to_string(*http.reserved_connections) + ", and must be less than connections, which is " +
              std::to_string(http.connections),
          "http.reserved_connections");
    }
  }

  WorkerLimits worker;
  if (const Node* node = root.find("worker")) {
    read_into(worker, *node, worker_table());
    const auto compare = [&](bool wrong, const char* key, Millis value, const char* rule, const char* other,
                             Millis limit) {
      if (!wrong) return;
      const Node* given = node->find(key) ? node->find(key) : node->find(other);
      add(given->at,
          format_duration(value) + ", and " + rule + " " + other + ", which is " + format_duration(limit),
          std::string("worker.") + key);
    };
    compare(worker.heartbeat_timeout <= worker.heartbeat, "heartbeat_timeout", worker.heartbeat_timeout,
            "must be longer than", "heartbeat", worker.heartbeat);
    compare(worker.backoff_max < worker.backoff_min, "backoff_max", worker.backoff_max,
            "must not be shorter than", "backoff_min", worker.backoff_min);
  }
}

void add_places(const Node& node, const std::string& path, std::map<std::string, std::string>& places) {
  for (const Entry& entry : node.entries) {
    const std::string key = path.empty() ? entry.key : path + "." + entry.key;
    places[key] = (entry.value.entries.empty() ? entry.value.at : entry.at).where();
    add_places(entry.value, key, places);
  }
}

// Every path of the configuration, written as its key's place says, becomes the one that is meant.
void resolve_paths(Config& config, const std::filesystem::path& base, Findings& findings) {
  const auto resolve = [&](std::filesystem::path& path, const std::string& key) {
    if (path.empty()) return;
    if (auto found = resolve_path(path.string(), base))
      path = std::move(*found);
    else
      findings.push_back(
          Error{ErrorCode::config_invalid, key + ": " + found.error().message, key, config.place(key)});
  };
  std::set<std::filesystem::path> sockets;
  for (Listener& listener : config.listeners) {
    if (listener.kind != Listener::Kind::unix_socket) continue;
    const std::string key = "listeners." + listener.id + ".unix";
    resolve(listener.path, key);
    if (!sockets.insert(listener.path.lexically_normal()).second)
      findings.push_back(
          Error{ErrorCode::config_invalid,
                "listeners." + listener.id + ": another listener already has " + listener.path.string(), key,
                config.place(key)});
    if (const std::size_t bytes = listener.path.string().size(); bytes > kMaxUnixPathBytes)
      findings.push_back(Error{ErrorCode::config_invalid,
                               key + ": " + listener.path.string() + " has " + std::to_string(bytes) +
                                   " bytes, and the system takes at most " +
                                   std::to_string(kMaxUnixPathBytes) + " for a unix socket",
                               key, config.place(key)});
  }
  for (ModelEntry& model : config.models) resolve(model.path, "models." + model.id + ".path");
  resolve(config.policy_path, "policy_path");
  resolve(config.apps_dir, "apps_dir");
  resolve(config.state_dir, "state_dir");
  resolve(config.cache_dir, "cache_dir");
  resolve(config.models_dir, "models_dir");
  resolve(config.kv_spill.directory, "kv_spill.directory");
}

std::expected<Config, Findings> read(const Node& root, const std::filesystem::path& base) {
  Findings findings;
  check_shape(root, config_shape(), "", findings);
  if (findings.empty()) check_between_rows(root, findings);
  if (!findings.empty()) return std::unexpected(std::move(findings));
  Config config;
  read_into(config, root, config_table());
  if (const Node* access = root.find("operator"); access != nullptr && access->find("key") != nullptr)
    add_key(config.operator_access.keys, *access->find("key"), "operator.key", base, findings);
  if (const Node* hub = root.find("hub"); hub != nullptr && hub->find("token") != nullptr) {
    if (auto token = as_key_source(*hub->find("token"), base))
      config.hub.token = std::move(*token);
    else
      findings.push_back(finding(hub->find("token")->at, "hub.token: " + token.error().message, "hub.token"));
  }
  if (!findings.empty()) return std::unexpected(std::move(findings));
  add_places(root, "", config.places);
  resolve_paths(config, base, findings);
  if (!findings.empty()) return std::unexpected(std::move(findings));
  return config;
}

std::expected<Node, Findings> parse_part(std::string_view yaml, std::string_view file_name) {
  Result<Node> root = parse_yaml(yaml, file_name);
  if (!root) return std::unexpected(Findings{std::move(root.error())});
  Findings findings;
  check_schema_line(*root, kConfigSchema, findings);
  if (!findings.empty()) return std::unexpected(std::move(findings));
  return std::move(*root);
}

std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string Config::place(std::string_view key) const {
  const auto at = places.find(std::string(key));
  if (at != places.end()) return at->second;
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string() : place(key.substr(0, dot));
}

Result<Config> parse_config(std::string_view yaml, std::string_view file_name) {
  auto root = parse_part(yaml, file_name);
  if (!root) return std::unexpected(first_of(root.error()));
  auto config = read(*root, std::filesystem::path(file_name).parent_path());
  if (!config) return std::unexpected(first_of(config.error()));
  return std::move(*config);
}

std::expected<Config, std::vector<Error>> load_config_all(const std::filesystem::path& path) {
  const auto one = [](Error error) { return std::unexpected(Findings{std::move(error)}); };
  auto text = read_operators_file(path);
  if (!text) return one(std::move(text.error()));
  auto root = parse_part(*text, path.string());
  if (!root) return pass(root);

  const std::filesystem::path drop_in_dir = path.parent_path() / "config.d";
  std::error_code ec;
  YamlFolder drop_ins;
  if (std::filesystem::status(drop_in_dir, ec).type() != std::filesystem::file_type::not_found) {
    auto found = read_yaml_folder(drop_in_dir);
    if (!found) return one(std::move(found.error()));
    drop_ins = std::move(*found);
  }
  if (drop_ins.files.size() > kMaxDropIns)
    return one(Error{
        ErrorCode::config_invalid,
        std::to_string(drop_ins.files.size()) + " drop-ins, the limit is " + std::to_string(kMaxDropIns),
        {},
        drop_in_dir.string()});
  for (const auto& drop_in : drop_ins.files) {
    auto part_text = read_operators_file(drop_in);
    if (!part_text) return one(std::move(part_text.error()));
    auto part = parse_part(*part_text, drop_in.string());
    if (!part) return pass(part);
    merge(*root, std::move(*part));
  }

  auto config = read(*root, path.parent_path());
  if (!config) return pass(config);
  if (config->apps_dir.empty()) {
    const std::filesystem::path beside = path.parent_path() / "apps.d";
    if (std::filesystem::is_directory(beside, ec)) config->apps_dir = beside;
  }
  return config;
}

Result<Config> load_config(const std::filesystem::path& path) {
  auto config = load_config_all(path);
  if (!config) return std::unexpected(first_of(config.error()));
  return std::move(*config);
}

std::string config_schema() {
  return json_schema(config_shape(), "Flyball config.yaml");
}

std::string_view default_config_yaml() noexcept {
  return as_text(embedded::default_config());
}
std::string_view default_policy_yaml() noexcept {
  return as_text(embedded::default_policy());
}
std::string_view default_engines_yaml() noexcept {
  return as_text(embedded::default_engines());
}
std::string_view default_app_yaml() noexcept {
  return as_text(embedded::default_app());
}

}  // namespace flyball::config
