#include "config/config_table.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "config/ascii_lower.hpp"
#include "config/json_reader.hpp"
#include "config/path.hpp"

namespace flyball::config {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kMaxContext = 1 << 24;
constexpr Millis kLongest{24h};

bool matches_tcp(std::string_view s) {
  return parse_tcp(s).has_value();
}
const Form kTcpAddress{
    "an address and port such as 127.0.0.1:8080 or [::1]:8080 (port 0: any free one; an IPv4 "
    "address without [::ffff:])",
    R"(^(\[[0-9A-Fa-f:.]+\]|[0-9.]+):[0-9]{1,5}$)", &matches_tcp};

bool matches_host(std::string_view s) {
  return std::ranges::all_of(s, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == ':' || c == '[' ||
           c == ']';
  });
}
const Form kHostName{"a host name or address without a path", "^[A-Za-z0-9.:\\[\\]-]+$", &matches_host};

// Accepts an origin as browsers write it in the Origin field (Fetch standard, section 3.1): the host in lower
// case, an IPv6 address in brackets, and no port that is the scheme's own.
bool matches_origin(std::string_view s) {
  const auto scheme_end = s.find("://");
  if (scheme_end == std::string_view::npos || scheme_end == 0) return false;
  const std::string_view scheme = s.substr(0, scheme_end);
  const std::string_view rest = s.substr(scheme_end + 3);
  const auto made_of = [](std::string_view text, std::string_view marks) {
    return !text.empty() && std::ranges::all_of(text, [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || marks.contains(c);
    });
  };
  if (!made_of(scheme, "+-.")) return false;
  const auto bracket = rest.starts_with('[') ? rest.find(']') : 0;
  if (bracket == std::string_view::npos) return false;
  const auto colon = rest.find(':', bracket);
  const std::string_view host = rest.substr(0, colon);
  if (bracket == 0 ? !made_of(host, "-._")
                   : host.size() != bracket + 1 || !made_of(host.substr(1, bracket - 1), ".:"))
    return false;
  if (colon == std::string_view::npos) return true;
  const std::string_view port = rest.substr(colon + 1);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  return error == std::errc{} && end == port.data() + port.size() && !port.starts_with('0') &&
         !(scheme == "http" && number == 80) && !(scheme == "https" && number == 443);
}
const Form kOrigin{
    "an origin as browsers send it, such as https://app.example or http://localhost:3000: in lower case, "
    "without a path, a wildcard or the scheme's own port",
    R"(^[a-z0-9+.-]+://([a-z0-9._-]+|\[[0-9a-z:.]+\])(:[1-9][0-9]{0,4})?$)", &matches_origin};

const std::vector<Bound<Listener>>& listener_table() {
  static const std::vector<Bound<Listener>> table = {
      {{"tcp", text(1, 64, kTcpAddress), "listen on this address and port"},
       [](Listener& l, const Node& n) {
         const TcpAddress tcp = parse_tcp(n.text).value_or(TcpAddress{});
         l.kind = Listener::Kind::tcp;
         l.address = tcp.address;
         l.port = tcp.port;
       }},
      {{"unix", path(kMaxUnixPathBytes), "listen on this unix socket"},
       [](Listener& l, const Node& n) {
         l.kind = Listener::Kind::unix_socket;
         l.path = n.text;
       }},
      {{"systemd", boolean(), "take the sockets that systemd opened (socket activation)"},
       [](Listener& l, const Node&) { l.kind = Listener::Kind::systemd; }},
  };
  return table;
}

const std::vector<Bound<ModelEntry>>& model_table() {
  static const std::vector<Bound<ModelEntry>> table = {
      {{"path", path(), "the GGUF file, or the directory of an MLX model"},
       [](ModelEntry& m, const Node& n) { m.path = n.text; }},
      {{"embedded", boolean(), "the demo model inside the program; instead of path"},
       [](ModelEntry& m, const Node& n) { m.embedded = as_bool(n); }},
      {{"sha256", text(64, 64, kSha256Hex), "digest the file must have, checked before it is loaded"},
       [](ModelEntry& m, const Node& n) { m.sha256 = ascii_lower(n.text); }},
      {{"context", integer(0, kMaxContext), "tokens a sequence may hold; 0: the file's own, at most 4096"},
       [](ModelEntry& m, const Node& n) { m.context = as<std::uint32_t>(n); }},
      {{"max_sequences", integer(1, 256), "sequences that run at once"},
       [](ModelEntry& m, const Node& n) { m.max_sequences = as<std::uint32_t>(n); }},
      {{"threads", integer(0, 4096), "threads of the cpu engine; 0: one per core"},
       [](ModelEntry& m, const Node& n) { m.threads = as<std::uint32_t>(n); }},
      {{"expert_bytes", size(0, 1ULL << 50),
        "memory that a mixture's experts may take in the cpu engine; 0: three quarters of what is free"},
       [](ModelEntry& m, const Node& n) { m.expert_bytes = as_bytes(n); }},
      {{"kv_type", choice({"f16", "q8_0"}), "what keys and values are kept as; q8_0: half the memory of f16"},
       [](ModelEntry& m, const Node& n) { m.kv_type = n.text; }},
      {{"aliases", list(id(), 0, 64), "further names that clients may use"},
       [](ModelEntry& m, const Node& n) { m.aliases = as_texts(n); }},
      {{"preload", boolean(), "start its engine with the daemon instead of at the first request"},
       [](ModelEntry& m, const Node& n) { m.preload = as_bool(n); }},
      {{"pin", boolean(), "once it is loaded it ends for no other model, and not for being idle"},
       [](ModelEntry& m, const Node& n) { m.pin = as_bool(n); }},
      {{"idle_unload", duration(0ms, 24h * 30), "as memory.idle_unload, of this model"},
       [](ModelEntry& m, const Node& n) { m.idle_unload = as_duration(n); }},
      {{"group", id(), "of all models with the same group one is loaded at a time"},
       [](ModelEntry& m, const Node& n) { m.group = n.text; }},
  };
  return table;
}

}  // namespace

std::optional<TcpAddress> parse_tcp(std::string_view s) {
  const std::size_t colon = s.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  TcpAddress out;
  const std::string_view port = s.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc{} || end != port.data() + port.size()) return std::nullopt;
  std::string host(s.substr(0, colon));
  char text[INET6_ADDRSTRLEN] = {};
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    in6_addr raw{};
    if (inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &raw) != 1) return std::nullopt;
    if (IN6_IS_ADDR_V4MAPPED(&raw)) return std::nullopt;
    out.ipv6 = true;
    inet_ntop(AF_INET6, &raw, text, sizeof text);
  } else {
    in_addr raw{};
    if (inet_pton(AF_INET, host.c_str(), &raw) != 1) return std::nullopt;
    inet_ntop(AF_INET, &raw, text, sizeof text);
  }
  out.address = text;
  return out;
}

const std::vector<Bound<HttpLimits>>& http_table() {
  static const std::vector<Bound<HttpLimits>> table = {
      {{"header_bytes", size(1024, 1 << 20), "all header fields of a request together"},
       [](HttpLimits& h, const Node& n) { h.header_bytes = static_cast<std::uint32_t>(as_bytes(n)); }},
      {{"header_fields", integer(8, 1000), "header fields of a request"},
       [](HttpLimits& h, const Node& n) { h.header_fields = as<std::uint32_t>(n); }},
      {{"body_bytes", size(1024, kMaxPackedText), "the body of a request"},
       [](HttpLimits& h, const Node& n) { h.body_bytes = as_bytes(n); }},
      {{"connections", integer(1, 100'000), "open connections"},
       [](HttpLimits& h, const Node& n) { h.connections = as<std::uint32_t>(n); }},
      {{"connections_per_address", integer(1, 100'000),
        "open connections of one peer: an IPv4 address, an IPv6 /64 or a unix user; three quarters of "
        "connections"},
       [](HttpLimits& h, const Node& n) { h.connections_per_address = as<std::uint32_t>(n); }},
      {{"reserved_connections", integer(0, 99'999),
        "of connections, those that only connections of known apps may take; an eighth of them"},
       [](HttpLimits& h, const Node& n) { h.reserved_connections = as<std::uint32_t>(n); }},
      {{"stream_buffer_bytes", size(4096, 1 << 24), "unread bytes of a stream before its engine is paused"},
       [](HttpLimits& h, const Node& n) { h.stream_buffer_bytes = static_cast<std::uint32_t>(as_bytes(n)); }},
      {{"header_timeout", duration(100ms, 1h),
        "from a connection's beginning, or a later request's, to the end of the header"},
       [](HttpLimits& h, const Node& n) { h.header_timeout = as_duration(n); }},
      {{"body_timeout", duration(100ms, 1h), "from the end of the header to the end of the body"},
       [](HttpLimits& h, const Node& n) { h.body_timeout = as_duration(n); }},
      {{"idle_timeout", duration(100ms, kLongest), "an open connection between two requests"},
       [](HttpLimits& h, const Node& n) { h.idle_timeout = as_duration(n); }},
      {{"stalled_reader_timeout", duration(100ms, 1h), "a client that does not read its stream"},
       [](HttpLimits& h, const Node& n) { h.stalled_reader_timeout = as_duration(n); }},
      {{"heartbeat", duration(100ms, 1h), "a comment line in streams that wait for their first token"},
       [](HttpLimits& h, const Node& n) { h.heartbeat = as_duration(n); }},
  };
  return table;
}

namespace {

// The section of an engine kind with devices.
std::vector<Bound<DeviceNames>> devices_table(const EngineKind& kind) {
  std::vector<Bound<DeviceNames>> table = {
      {{"device", text(1, 256),
        kind == kVulkan ? "part of the device's id or its driver's name, as probed; without it the best GPU, "
                          "of two cards the one that OpenCL does not take"
                        : "part of the device's id or its driver's name, as probed; without it the best GPU"},
       [](DeviceNames& names, const Node& n) { names = {n.text}; }}};
  if (kind.most_devices > 1)
    table.push_back({{"devices", list(text(1, 256), 1, kind.most_devices),
                      "instead of device: several, in the order in which they share each model's layers"},
                     [](DeviceNames& names, const Node& n) { names = as_texts(n); }});
  return table;
}

// A row reads without captures: the kind is part of its type.
template <std::size_t Kind>
void add_devices_row(std::vector<Bound<Config>>& table) {
  static constexpr const EngineKind& kind = kEngineKinds[Kind];
  if constexpr (kind.has_devices())
    table.push_back({{kind.id, object_of(devices_table(kind)), kind.description},
                     [](Config& c, const Node& n) { read_into(c.devices[kind], n, devices_table(kind)); }});
}
// These rows, and one for each engine kind with devices.
std::vector<Bound<Config>> with_devices(std::vector<Bound<Config>> table) {
  [&]<std::size_t... Kinds>(std::index_sequence<Kinds...>) {
    (add_devices_row<Kinds>(table), ...);
  }(std::make_index_sequence<kEngineKinds.size()>());
  return table;
}

const std::vector<Bound<KvSpill>>& kv_spill_table() {
  static const std::vector<Bound<KvSpill>> table = {
      {{"directory", path(), "where it lies, for this user alone; without it kv in the cache directory"},
       [](KvSpill& k, const Node& n) { k.directory = n.text; }},
      {{"max_bytes", size(0, 1ULL << 50),
        "all of it together, and never more than a quarter of the free disk; 0B: none is written"},
       [](KvSpill& k, const Node& n) { k.max_bytes = as_bytes(n); }},
  };
  return table;
}

}  // namespace

const std::vector<Bound<WorkerLimits>>& worker_table() {
  static const std::vector<Bound<WorkerLimits>> table = {
      {{"ready_timeout", duration(100ms, 1h),
        "from the start of an engine process to its model being loaded"},
       [](WorkerLimits& w, const Node& n) { w.ready_timeout = as_duration(n); }},
      {{"heartbeat", duration(10ms, 1h), "between signs of life of an engine process"},
       [](WorkerLimits& w, const Node& n) { w.heartbeat = as_duration(n); }},
      {{"heartbeat_timeout", duration(20ms, 1h), "without a sign of life, after which it is killed"},
       [](WorkerLimits& w, const Node& n) { w.heartbeat_timeout = as_duration(n); }},
      {{"backoff_min", duration(1ms, 1h), "before the first restart"},
       [](WorkerLimits& w, const Node& n) { w.backoff_min = as_duration(n); }},
      {{"backoff_max", duration(1ms, 1h), "before any later restart; the pause doubles up to this"},
       [](WorkerLimits& w, const Node& n) { w.backoff_max = as_duration(n); }},
      {{"disable_after", integer(1, 1000),
        "deaths within disable_window that disable this model on this engine"},
       [](WorkerLimits& w, const Node& n) { w.disable_after = as<std::uint32_t>(n); }},
      {{"disable_window", duration(1s, kLongest), "see disable_after"},
       [](WorkerLimits& w, const Node& n) { w.disable_window = as_duration(n); }},
  };
  return table;
}

const std::vector<Bound<Config>>& config_table() {
  static const std::vector<Bound<Config>> table = with_devices({
      {{"schema", choice({kConfigSchema}),
        "which version of this file's rules it is written to; the first line", true},
       [](Config&, const Node&) {}},
      {{"listeners", map(object_of(listener_table()), 1, 64),
        "where the daemon listens, by id; one kind each", true},
       [](Config& c, const Node& n) {
         for (const Entry& entry : n.entries) {
           Listener listener;
           listener.id = entry.key;
           read_into(listener, entry.value, listener_table());
           c.listeners.push_back(std::move(listener));
         }
       }},
      {{"loopback_without_key", boolean(), "requests from this machine that carry no key act as default_app"},
       [](Config& c, const Node& n) { c.loopback_without_key = as_bool(n); }},
      {{"default_app", id(), "the app that requests without a key act as"},
       [](Config& c, const Node& n) { c.default_app = n.text; }},
      {{"operator", object_of(operator_table()),
        "who sees the figures of all apps, and loads and unloads models"},
       [](Config& c, const Node& n) { read_into(c.operator_access, n, operator_table()); }},
      {{"allowed_hosts", list(text(1, 255, kHostName), 0, 256),
        "names a Host header may carry beside localhost and the listeners' addresses"},
       [](Config& c, const Node& n) { c.allowed_hosts = as_texts(n); }},
      {{"allowed_origins", list(text(1, 255, kOrigin), 0, 256),
        "origins of the web pages that may ask from a browser and read the answers (CORS)"},
       [](Config& c, const Node& n) { c.allowed_origins = as_texts(n); }},
      {{"models", map(object_of(model_table()), 1, 1000),
        "what can be served, by the id that clients put in `model`", true},
       [](Config& c, const Node& n) {
         for (const Entry& entry : n.entries) {
           ModelEntry model;
           model.id = entry.key;
           read_into(model, entry.value, model_table());
           c.models.push_back(std::move(model));
         }
       }},
      {{"default_model", id(), "for requests that name no model"},
       [](Config& c, const Node& n) { c.default_model = n.text; }},
      {{"http", object_of(http_table()), "limits of one connection and request"},
       [](Config& c, const Node& n) { read_into(c.http, n, http_table()); }},
      {{"worker", object_of(worker_table()), "supervision of the engine processes"},
       [](Config& c, const Node& n) { read_into(c.worker, n, worker_table()); }},
      {{"kv_spill", object_of(kv_spill_table()), "KV of prompts, kept on disk for those who return"},
       [](Config& c, const Node& n) { read_into(c.kv_spill, n, kv_spill_table()); }},
      {{"memory", object_of(memory_table()), "what engines may hold together, and when they give it back"},
       [](Config& c, const Node& n) { read_into(c.memory, n, memory_table()); }},
      {{"calibrate", object_of(calibrate_table()), "when the daemon measures by itself"},
       [](Config& c, const Node& n) { read_into(c.calibrate, n, calibrate_table()); }},
      {{"max_queue", integer(1, 100'000),
        "answers that may wait, over all apps; an empty queue takes any request"},
       [](Config& c, const Node& n) { c.max_queue = as<std::uint32_t>(n); }},
      {{"drain_timeout", duration(0ms, 1h),
        "how long open requests may finish at a stop, and on engines that a reload ends"},
       [](Config& c, const Node& n) { c.drain_timeout = as_duration(n); }},
      {{"log_level", choice({kLogLevels.begin(), kLogLevels.end()}), "what is logged"},
       [](Config& c, const Node& n) { c.log_level = n.text; }},
      {{"policy_path", path(), "the policy file; without it the shipped policy rules"},
       [](Config& c, const Node& n) { c.policy_path = n.text; }},
      {{"apps_dir", path(), "the folder of manifests; without it apps.d beside this file"},
       [](Config& c, const Node& n) { c.apps_dir = n.text; }},
      {{"state_dir", path(), "what must survive a restart; without it systemd's or XDG's"},
       [](Config& c, const Node& n) { c.state_dir = n.text; }},
      {{"cache_dir", path(), "what may be lost; without it systemd's or XDG's"},
       [](Config& c, const Node& n) { c.cache_dir = n.text; }},
      {{"models_dir", path(), "where `flyball models pull` puts models; the daemon only reads it"},
       [](Config& c, const Node& n) { c.models_dir = n.text; }},
      {{"hub", object_of(hub_table()), "the server that `flyball models pull` fetches models from"},
       [](Config& c, const Node& n) { read_into(c.hub, n, hub_table()); }},
  });
  return table;
}

}  // namespace flyball::config
