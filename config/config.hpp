// config.yaml, typed: what the operator decides about this machine. docs/manifest.md describes each key.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/calibrate.hpp"
#include "config/engine_kinds.hpp"
#include "config/error.hpp"
#include "config/hub.hpp"
#include "config/memory.hpp"
#include "config/operator_access.hpp"

namespace flyball::config {

using Millis = std::chrono::milliseconds;

struct Listener {
  enum class Kind : std::uint8_t { tcp, unix_socket, systemd } kind = Kind::tcp;
  std::string address = "127.0.0.1";  // tcp
  std::uint16_t port = 8080;          // tcp; 0: any free port, printed
  std::filesystem::path path;         // unix_socket
  std::string id;                     // its key in `listeners`
  bool operator==(const Listener&) const = default;
};

struct ModelEntry {
  std::string id;              // map key; what clients put in "model"
  std::filesystem::path path;  // GGUF; "" with embedded: true
  bool embedded = false;       // the demo model inside the binary
  std::string sha256;          // "" or 64 hex digits, checked before load
  std::uint32_t context = 0;   // 0: the file's own, capped at 4096
  std::uint32_t max_sequences = 8;
  std::uint32_t threads = 0;       // cpu; 0: one per core
  std::uint64_t expert_bytes = 0;  // cpu: for a mixture's packed experts; 0: three quarters of what is free
  std::string kv_type = "f16";     // what the KV cache is kept as: "f16" or "q8_0"
  std::vector<std::string> aliases;
  bool preload = false;               // start its worker with the daemon; it ends for nobody
  bool pin = false;                   // once loaded it ends for nobody
  std::optional<Millis> idle_unload;  // absent: MemoryRules'
  std::string group;                  // of whose models one may be loaded; "": none
};

struct HttpLimits {
  std::uint32_t header_bytes = 16 * 1024;
  std::uint32_t header_fields = 100;
  std::uint64_t body_bytes = 4ULL << 20;
  std::uint32_t connections = 4096;
  std::optional<std::uint32_t> connections_per_address;  // absent: three quarters of connections
  std::optional<std::uint32_t> reserved_connections;     // absent: an eighth of connections
  std::uint32_t stream_buffer_bytes = 64 * 1024;  // unread bytes per stream before the engine pauses
  Millis header_timeout{10'000};
  Millis body_timeout{30'000};
  Millis idle_timeout{75'000};
  Millis stalled_reader_timeout{30'000};
  Millis heartbeat{15'000};  // SSE comment while a stream waits
};

struct WorkerLimits {
  Millis ready_timeout{60'000};
  Millis heartbeat{1'000};
  Millis heartbeat_timeout{10'000};
  Millis backoff_min{200};
  Millis backoff_max{10'000};
  std::uint32_t disable_after = 3;  // deaths within disable_window: that (model, backend) is disabled
  Millis disable_window{600'000};
};

// Each a part of a device's id or its driver's name; none: the best GPU, for Vulkan beside OpenCL's card
// where there is a second one. Over several a model's layers are split. Naming a software device allows it.
using DeviceNames = std::vector<std::string>;

// Prompts' KV on disk, for those who return when it has left the engine's memory.
struct KvSpill {
  std::filesystem::path directory;        // "": kv/ in cache_dir; for this user alone
  std::uint64_t max_bytes = 4ULL << 30U;  // of all engines together; 0: none
};

// What `log_level` and --log-level take: spdlog's names, its two short ones too.
inline constexpr std::array<std::string_view, 9> kLogLevels{"trace", "debug", "info",     "warn", "warning",
                                                            "err",   "error", "critical", "off"};

struct Config {
  std::vector<Listener> listeners;    // at least one
  bool loopback_without_key = false;  // requests from loopback or unix sockets with no key act as default_app
  std::string default_app;            // an app id; required with loopback_without_key
  OperatorAccess operator_access;
  std::vector<std::string> allowed_hosts;  // beside localhost, 127.0.0.1, [::1] and the listeners' addresses
  // Web pages that may read answers, by their origin as browsers send it: "https://app.example".
  std::vector<std::string> allowed_origins;
  std::vector<ModelEntry> models;
  std::string default_model;  // "", or closed to the app: the only one open to it, or required in requests
  HttpLimits http;
  WorkerLimits worker;
  PerKind<DeviceNames> devices;
  KvSpill kv_spill;
  MemoryRules memory;
  CalibrateRules calibrate;
  std::uint32_t max_queue = 256;  // waiting answers over all apps
  Millis drain_timeout{30'000};
  std::string log_level = "info";
  std::filesystem::path policy_path;           // "": the shipped default policy
  std::filesystem::path apps_dir;              // "": next to config.yaml, apps.d
  std::filesystem::path state_dir, cache_dir;  // "": from systemd's environment or XDG
  std::filesystem::path models_dir;            // of fetched models; "": the usual place (config_files.hpp)
  Hub hub;
  std::map<std::string, std::string> places;   // by key ("models.demo.context"): where it is written

  // A machine whose processes need no key to ask needs none to look, unless the operator says otherwise.
  bool operator_on_loopback() const { return operator_access.loopback.value_or(loopback_without_key); }
  // file:line:column of the key or, where it is not written, of the nearest one around it; "" for none.
  std::string place(std::string_view key) const;
};

// Reads path, then `config.d/*.yaml` beside it in name order. Errors are config_invalid with
// file:line:column in Error::where, or the file that cannot be read, and a did-you-mean for unknown keys.
// Relative paths in the files are relative to config.yaml's folder. Where apps_dir is not given and `apps.d`
// exists beside config.yaml, load_config sets it; "" afterwards means the shipped example app (apps_of).
Result<Config> load_config(const std::filesystem::path& path);
Result<Config> parse_config(std::string_view yaml, std::string_view file_name);
// The same with every finding, for `flyball check`.
std::expected<Config, std::vector<Error>> load_config_all(const std::filesystem::path& path);
// JSON Schema of config.yaml, from the table that the parser reads by.
std::string config_schema();
// The shipped defaults (config/defaults/, embedded): loopback only, the embedded demo model.
std::string_view default_config_yaml() noexcept;
std::string_view default_policy_yaml() noexcept;
std::string_view default_engines_yaml() noexcept;  // config/engines.yaml
std::string_view default_app_yaml() noexcept;      // config/defaults/apps.d/example.yaml

}  // namespace flyball::config
