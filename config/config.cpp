// config.yaml: the checks that span rows, drop-ins and the embedded defaults.
#include "config/config.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config_table.hpp"
#include "config/file_error.hpp"
#include "config/units.hpp"
#include "config/yaml.hpp"
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

// Whether one of two TCP places is the other, or all of its family's addresses with its port.
bool clash(std::string_view a, std::string_view b) {
  const auto port = [](std::string_view place) { return place.substr(place.rfind(':')); };
  const auto all = [](std::string_view place) {
    return place.starts_with("0.0.0.0:") || place.starts_with("[::]:");
  };
  return a == b || (port(a) == port(b) && a.starts_with('[') == b.starts_with('[') && (all(a) || all(b)));
}

// What no single row shows. The root has passed check_shape.
void check_between_rows(const Node& root, Findings& findings) {
  const auto add = [&](const Mark& at, std::string message, std::string path) {
    findings.push_back(finding(at, path + ": " + message, path));
  };

  std::vector<std::pair<std::string, std::string>> places;
  for (const Entry& entry : root.find("listeners")->entries) {
    const std::string path = "listeners." + entry.key;
    if (entry.value.entries.size() != 1) {
      add(entry.at, "expected exactly one of tcp, unix and systemd", path);
      continue;
    }
    const Entry& kind = entry.value.entries.front();
    if (kind.key == "systemd" && !as_bool(kind.value))
      add(kind.value.at, "false has no meaning; leave the listener out", path);
    const bool tcp = kind.key == "tcp";
    if (tcp && kind.value.text.ends_with(":0")) continue;  // any port
    const auto taken = std::ranges::find_if(places, [&](const auto& place) {
      return place.first == kind.key &&
             (tcp ? clash(place.second, kind.value.text) : place.second == kind.value.text);
    });
    if (taken != places.end()) add(kind.value.at, "another listener already has " + taken->second, path);
    places.emplace_back(kind.key, kind.value.text);
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

void make_absolute(std::filesystem::path& path, const std::filesystem::path& base) {
  if (!path.empty() && path.is_relative()) path = base / path;
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
  if (!findings.empty()) return std::unexpected(std::move(findings));
  add_places(root, "", config.places);
  for (Listener& listener : config.listeners) make_absolute(listener.path, base);
  for (ModelEntry& model : config.models) make_absolute(model.path, base);
  for (auto* path : {&config.policy_path, &config.apps_dir, &config.state_dir, &config.cache_dir,
                     &config.kv_spill.directory})
    make_absolute(*path, base);
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

  std::vector<std::filesystem::path> drop_ins;
  const std::filesystem::path drop_in_dir = path.parent_path() / "config.d";
  std::error_code ec;
  for (std::filesystem::directory_iterator it(drop_in_dir, ec), end; !ec && it != end; it.increment(ec))
    if (it->path().extension() == ".yaml" && !it->path().filename().string().starts_with('.'))
      drop_ins.push_back(it->path());
  if (ec && ec != std::errc::no_such_file_or_directory)
    return one(
        Error{ErrorCode::config_invalid, unreadable(drop_in_dir, ec.value()), {}, drop_in_dir.string()});
  if (drop_ins.size() > kMaxDropIns)
    return one(
        Error{ErrorCode::config_invalid,
              std::to_string(drop_ins.size()) + " drop-ins, the limit is " + std::to_string(kMaxDropIns),
              {},
              drop_in_dir.string()});
  std::ranges::sort(drop_ins);
  for (const auto& drop_in : drop_ins) {
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
