// config.yaml: the shipped default, every kind of mistake with its message and place, drop-ins, the JSON
// Schema.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/app_manifest.hpp"
#include "config/config.hpp"

namespace flyball::config {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kBase = R"(schema: flyball.config/v1
listeners:
  local: {tcp: "127.0.0.1:8080"}
models:
  m: {path: models/m.gguf}
)";

TEST(Config, ShippedDefaultsLoadWithoutFindings) {
  const auto config = parse_config(default_config_yaml(), "config.yaml");
  ASSERT_TRUE(config) << config.error().where << ": " << config.error().message;
  ASSERT_EQ(config->listeners.size(), 1U);
  EXPECT_EQ(config->listeners[0].kind, Listener::Kind::tcp);
  EXPECT_EQ(config->listeners[0].address, "127.0.0.1");
  EXPECT_EQ(config->listeners[0].port, 8080);
  EXPECT_TRUE(config->loopback_without_key);
  EXPECT_EQ(config->default_app, "example");
  ASSERT_EQ(config->models.size(), 1U);
  EXPECT_EQ(config->models[0].id, "demo");
  EXPECT_TRUE(config->models[0].embedded);
  EXPECT_EQ(config->default_model, "demo");
  const auto apps = apps_of(*config);
  ASSERT_TRUE(apps) << apps.error().message;
  EXPECT_TRUE(cross_check(*config, *apps).empty());
  EXPECT_EQ((*apps)[0].id, "example");
}

TEST(Config, EachKeyHasItsPlace) {
  const auto c = parse_config(std::string(kBase) + "log_level: warning\n", "c.yaml");
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->place("log_level"), "c.yaml:6:12");
  EXPECT_EQ(c->place("models.m.path"), "c.yaml:5:13");
  EXPECT_EQ(c->place("models.m.context"), c->place("models.m")) << "not written: the nearest around it";
  EXPECT_EQ(c->place("models.m"), "c.yaml:5:3");
  EXPECT_EQ(c->place("state_dir"), "");
}

TEST(Config, HubIsAnHttpAddressWithAtMostOneTokenSource) {
  const auto hub = [](const std::string& text) {
    return parse_config(std::string(kBase) + "hub: " + text + "\n", "c.yaml");
  };
  EXPECT_EQ(hub("{}")->hub.url, "https://huggingface.co");
  EXPECT_FALSE(hub("{}")->hub.token);
  for (const char* wrong :
       {"ftp://a", "https://", "https:///x", "http://a/", "http://a?b", "http://me@a", "a.b", "'http://a b'"})
    EXPECT_FALSE(hub("{url: " + std::string(wrong) + "}")) << wrong;
  const auto both = hub("{token: {env: A, credential: b}}");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().message, "hub.token: expected exactly one of file, env and credential");
  EXPECT_THAT(both.error().where, HasSubstr("c.yaml:6:"));
}

TEST(Config, LogLevelTakesTheSpellingsOfTheOption) {
  for (const std::string_view level : kLogLevels) {
    const auto c = parse_config(std::string(kBase) + "log_level: \"" + std::string(level) + "\"\n", "c.yaml");
    ASSERT_TRUE(c) << level << ": " << c.error().message;
    EXPECT_EQ(c->log_level, level);
  }
}

TEST(Config, EveryKeyIsRead) {
  const auto c = parse_config(R"(schema: flyball.config/v1
listeners:
  a: {tcp: "[::1]:0"}
  b: {unix: run/flyball.sock}
  c: {systemd: true}
loopback_without_key: true
default_app: ui
operator:
  key_sha256: 00ff000000000000000000000000000000000000000000000000000000000001
  loopback: false
allowed_hosts: [box.local, "box:8080"]
allowed_origins: ["https://app.example", "http://localhost:3000", "http://[::1]:8080", "tauri://localhost"]
models:
  big:
    path: /models/big.gguf
    sha256: ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef0123456789
    context: 8192
    max_sequences: 3
    threads: 5
    kv_type: q8_0
    expert_bytes: 3GiB
    aliases: [gpt-4, large]
    preload: true
  demo: {embedded: true}
default_model: large
http:
  header_bytes: 8KiB
  header_fields: 50
  body_bytes: 1MiB
  connections: 10
  connections_per_address: 7
  reserved_connections: 0
  stream_buffer_bytes: 32KiB
  header_timeout: 1s
  body_timeout: 2s
  idle_timeout: 3s
  stalled_reader_timeout: 4s
  heartbeat: 5s
worker:
  ready_timeout: 6s
  heartbeat: 100ms
  heartbeat_timeout: 7s
  backoff_min: 8ms
  backoff_max: 9s
  disable_after: 4
  disable_window: 10m
opencl: {devices: [RTX, Arc]}
kv_spill:
  directory: spilled
  max_bytes: 3GiB
max_queue: 12
drain_timeout: 13s
log_level: debug
policy_path: p.yaml
apps_dir: /a
state_dir: s
cache_dir: /c
models_dir: m
hub: {url: "http://hub.lan:8000/hf", token: {file: hub.token}}
)",
                              "/etc/x/config.yaml");
  ASSERT_TRUE(c) << c.error().where << ": " << c.error().message;
  using namespace std::chrono_literals;
  ASSERT_EQ(c->listeners.size(), 3U);
  EXPECT_EQ(c->listeners[0].address, "::1");
  EXPECT_EQ(c->listeners[0].port, 0);
  EXPECT_EQ(c->listeners[0].id, "a");
  EXPECT_EQ(c->listeners[1].kind, Listener::Kind::unix_socket);
  EXPECT_EQ(c->listeners[1].path, "/etc/x/run/flyball.sock");
  EXPECT_EQ(c->listeners[2].kind, Listener::Kind::systemd);
  EXPECT_EQ(c->default_app, "ui");
  ASSERT_EQ(c->operator_access.keys.size(), 1U);
  EXPECT_EQ(c->operator_access.keys[0][1], 0xff);
  EXPECT_EQ(c->operator_access.keys[0][31], 1);
  EXPECT_FALSE(c->operator_on_loopback());
  EXPECT_THAT(c->allowed_hosts, testing::ElementsAre("box.local", "box:8080"));
  EXPECT_THAT(c->allowed_origins, testing::ElementsAre("https://app.example", "http://localhost:3000",
                                                       "http://[::1]:8080", "tauri://localhost"));
  const ModelEntry& m = c->models[0];
  EXPECT_EQ(m.path, "/models/big.gguf");
  EXPECT_EQ(m.sha256, "abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789");
  EXPECT_EQ(m.context, 8192U);
  EXPECT_EQ(m.max_sequences, 3U);
  EXPECT_EQ(m.threads, 5U);
  EXPECT_EQ(m.kv_type, "q8_0");
  EXPECT_EQ(m.expert_bytes, 3ULL << 30);
  EXPECT_THAT(m.aliases, testing::ElementsAre("gpt-4", "large"));
  EXPECT_TRUE(m.preload);
  EXPECT_EQ(c->default_model, "large");
  EXPECT_EQ(c->http.header_bytes, 8192U);
  EXPECT_EQ(c->http.header_fields, 50U);
  EXPECT_EQ(c->http.body_bytes, 1U << 20);
  EXPECT_EQ(c->http.connections, 10U);
  EXPECT_EQ(c->http.connections_per_address, 7U);
  EXPECT_EQ(c->http.reserved_connections, 0U);
  EXPECT_EQ(c->http.stream_buffer_bytes, 32768U);
  EXPECT_EQ(c->http.header_timeout, 1s);
  EXPECT_EQ(c->http.body_timeout, 2s);
  EXPECT_EQ(c->http.idle_timeout, 3s);
  EXPECT_EQ(c->http.stalled_reader_timeout, 4s);
  EXPECT_EQ(c->http.heartbeat, 5s);
  EXPECT_EQ(c->worker.ready_timeout, 6s);
  EXPECT_EQ(c->worker.heartbeat, 100ms);
  EXPECT_EQ(c->worker.heartbeat_timeout, 7s);
  EXPECT_EQ(c->worker.backoff_min, 8ms);
  EXPECT_EQ(c->worker.backoff_max, 9s);
  EXPECT_EQ(c->worker.disable_after, 4U);
  EXPECT_EQ(c->worker.disable_window, 10min);
  EXPECT_THAT(c->devices[kOpenCl], testing::ElementsAre("RTX", "Arc"));
  EXPECT_EQ(c->kv_spill.directory, "/etc/x/spilled");
  EXPECT_EQ(c->kv_spill.max_bytes, 3ULL << 30U);
  EXPECT_EQ(c->max_queue, 12U);
  EXPECT_EQ(c->drain_timeout, 13s);
  EXPECT_EQ(c->log_level, "debug");
  EXPECT_EQ(c->policy_path, "/etc/x/p.yaml");
  EXPECT_EQ(c->apps_dir, "/a");
  EXPECT_EQ(c->state_dir, "/etc/x/s");
  EXPECT_EQ(c->cache_dir, "/c");
  EXPECT_EQ(c->models_dir, "/etc/x/m");
  EXPECT_EQ(c->hub.url, "http://hub.lan:8000/hf");
  ASSERT_TRUE(c->hub.token);
  EXPECT_EQ(*c->hub.token, (KeySource{KeySource::Kind::file, "/etc/x/hub.token"})) << "the file is not read";
}

struct Mistake {
  const char* name;
  std::string added;  // to kBase
  const char* message;
  const char* where;
};
void PrintTo(const Mistake& one, std::ostream* out) {
  *out << one.name;
}
class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreNamedWithTheirPlace) {
  const auto config = parse_config(kBase + GetParam().added, "c.yaml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::config_invalid);
  EXPECT_THAT(config.error().message, HasSubstr(GetParam().message));
  EXPECT_EQ(config.error().where, GetParam().where);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Mistakes,
    testing::Values(
        Mistake{"unknown_key", "max_que: 3\n", "unknown key \"max_que\"; did you mean \"max_queue\"?",
                "c.yaml:6:1"},
        Mistake{"unknown_key_without_a_guess", "zzzzzz: 3\n", "unknown key \"zzzzzz\"", "c.yaml:6:1"},
        Mistake{"unknown_nested_key", "http:\n  header_byte: 1KiB\n",
                "unknown key \"header_byte\" in http; did you mean \"header_bytes\"?", "c.yaml:7:3"},
        Mistake{"duplicate_key", "max_queue: 3\nmax_queue: 4\n", "duplicate key \"max_queue\"", "c.yaml:7:1"},
        Mistake{"not_a_number", "max_queue: many\n", "max_queue: expected a whole number, got \"many\"",
                "c.yaml:6:12"},
        Mistake{"quoted_number", "max_queue: \"3\"\n", "expected a whole number", "c.yaml:6:12"},
        Mistake{"number_that_may_be_octal", "max_queue: 010\n", "expected a whole number, got \"010\"",
                "c.yaml:6:12"},
        Mistake{"fraction", "max_queue: 3.5\n", "expected a whole number", "c.yaml:6:12"},
        Mistake{"out_of_range", "max_queue: 0\n", "max_queue: 0 is out of range, expected 1 to 100000",
                "c.yaml:6:12"},
        Mistake{"overflow", "max_queue: 99999999999999999999\n", "expected a whole number", "c.yaml:6:12"},
        Mistake{"duration_without_unit", "drain_timeout: 30\n", "expected a duration such as", "c.yaml:6:16"},
        Mistake{"duration_out_of_range", "drain_timeout: 2h\n", "2h is out of range, expected 0ms to 1h",
                "c.yaml:6:16"},
        Mistake{"size_without_unit", "http: {body_bytes: 4}\n", "expected a size such as", "c.yaml:6:20"},
        Mistake{"size_in_percent", "http: {body_bytes: 80%}\n", "expected a size such as", "c.yaml:6:20"},
        Mistake{"size_out_of_range", "http: {body_bytes: 129MiB}\n",
                "129MiB is out of range, expected 1KiB to 128MiB", "c.yaml:6:20"},
        Mistake{"not_boolean", "loopback_without_key: yes\n", "expected true or false, got \"yes\"",
                "c.yaml:6:23"},
        Mistake{"choice", "log_level: inof\n", "did you mean \"info\"?", "c.yaml:6:12"},
        Mistake{"list_expected", "allowed_hosts: a\n", "allowed_hosts: expected a list, got \"a\"",
                "c.yaml:6:16"},
        Mistake{"bad_host", "allowed_hosts: [a/b]\n", "allowed_hosts[0]: expected a host name",
                "c.yaml:6:17"},
        Mistake{"any_origin", "allowed_origins: [\"https://a.b\", \"*\"]\n",
                "allowed_origins[1]: expected an origin as browsers send it, such as https://app.example or "
                "http://localhost:3000: in lower case, without a path, a wildcard or the scheme's own port, "
                "got \"*\"",
                "c.yaml:6:34"},
        Mistake{"origin_of_files", "allowed_origins: [\"null\"]\n", "expected an origin", "c.yaml:6:19"},
        Mistake{"origin_without_scheme", "allowed_origins: [app.example]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"origin_with_path", "allowed_origins: [\"https://a.b/\"]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"origin_in_capitals", "allowed_origins: [\"https://A.b\"]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"origin_with_usual_port", "allowed_origins: [\"https://a.b:443\"]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"origin_with_bad_port", "allowed_origins: [\"https://a.b:99999\"]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"origin_with_zeros_before_the_port", "allowed_origins: [\"https://a.b:08443\"]\n",
                "expected an origin", "c.yaml:6:19"},
        Mistake{"origin_with_port_zero", "allowed_origins: [\"https://a.b:0\"]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"origin_with_an_empty_port", "allowed_origins: [\"https://a.b:\"]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"origin_with_brackets_within", "allowed_origins: [\"https://a[::1]\"]\n",
                "expected an origin", "c.yaml:6:19"},
        Mistake{"origin_with_text_behind_brackets", "allowed_origins: [\"https://[::1]a:8080\"]\n",
                "expected an origin", "c.yaml:6:19"},
        Mistake{"origin_with_an_open_bracket", "allowed_origins: [\"https://[::1\"]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"origin_with_empty_brackets", "allowed_origins: [\"https://[]\"]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"origin_without_host", "allowed_origins: [\"https://\"]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"origin_with_wildcard", "allowed_origins: [\"https://*.b\"]\n", "expected an origin",
                "c.yaml:6:19"},
        Mistake{"map_expected", "http: 3\n", "http: expected a map, got \"3\"", "c.yaml:6:7"},
        Mistake{"nothing", "http:\n", "http: expected a map, got nothing", "c.yaml:6:1"},
        Mistake{"empty_text", "policy_path: \"\"\n", "policy_path: must not be empty", "c.yaml:6:14"},
        Mistake{"no_app_for_loopback", "loopback_without_key: true\n", "needs `default_app`", "c.yaml:6:23"},
        Mistake{"no_such_default_model", "default_model: n\n", "no model is called \"n\"", "c.yaml:6:16"},
        Mistake{"reserve", "http: {connections: 10, reserved_connections: 10}\n",
                "http.reserved_connections: 10, and must be less than connections, which is 10",
                "c.yaml:6:47"},
        Mistake{"reserve_of_default", "http: {reserved_connections: 4096}\n",
                "http.reserved_connections: 4096, and must be less than connections, which is 4096",
                "c.yaml:6:30"},
        Mistake{"heartbeats", "worker: {heartbeat: 10s, heartbeat_timeout: 5s}\n",
                "worker.heartbeat_timeout: 5s, and must be longer than heartbeat, which is 10s",
                "c.yaml:6:45"},
        Mistake{"heartbeats_by_default", "worker: {heartbeat: 10s}\n",
                "worker.heartbeat_timeout: 10s, and must be longer than heartbeat, which is 10s",
                "c.yaml:6:21"},
        Mistake{"backoff", "worker: {backoff_min: 10s, backoff_max: 5s}\n",
                "worker.backoff_max: 5s, and must not be shorter than backoff_min, which is 10s",
                "c.yaml:6:41"},
        Mistake{"device_and_devices", "opencl: {device: a, devices: [b]}\n",
                "opencl.devices: expected only one of `device` and `devices`", "c.yaml:6:30"},
        Mistake{"no_devices", "opencl: {devices: []}\n", "opencl.devices", "c.yaml:6:19"}),
    [](const auto& row) { return std::string(row.param.name); });

struct WholeFile {
  const char* name;
  std::string text;
  const char* message;
  const char* where;
};
void PrintTo(const WholeFile& one, std::ostream* out) {
  *out << one.name;
}
class WholeFiles : public testing::TestWithParam<WholeFile> {};

TEST_P(WholeFiles, AreNamedWithTheirPlace) {
  const auto config = parse_config(GetParam().text, "c.yaml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr(GetParam().message));
  EXPECT_EQ(config.error().where, GetParam().where);
}

const std::string kHead = "schema: flyball.config/v1\n";
const std::string kListener = "listeners: {l: {tcp: \"127.0.0.1:1\"}}\n";
const std::string kModel = "models: {m: {path: x}}\n";

INSTANTIATE_TEST_SUITE_P(
    Table, WholeFiles,
    testing::Values(
        WholeFile{"empty", "", "the first key must be `schema: flyball.config/v1`", "c.yaml:1:1"},
        WholeFile{"schema_is_not_first", kListener + kHead, "the first key must be", "c.yaml:1:1"},
        WholeFile{"other_version", "schema: flyball.config/v2\n", "expected `schema: flyball.config/v1`",
                  "c.yaml:1:9"},
        WholeFile{"list", "- a\n", "the first key must be", "c.yaml:1:1"},
        WholeFile{"no_listeners", kHead + kModel, "missing key \"listeners\"", "c.yaml:1:1"},
        WholeFile{"empty_listeners", kHead + "listeners: {}\n" + kModel,
                  "listeners: expected at least 1 entry", "c.yaml:2:12"},
        WholeFile{"no_models", kHead + kListener, "missing key \"models\"", "c.yaml:1:1"},
        WholeFile{"two_kinds", kHead + "listeners: {l: {tcp: \"127.0.0.1:1\", unix: /x}}\n" + kModel,
                  "expected exactly one of tcp, unix and systemd", "c.yaml:2:13"},
        WholeFile{"host_name", kHead + "listeners: {l: {tcp: \"localhost:1\"}}\n" + kModel,
                  "expected an address and port", "c.yaml:2:22"},
        WholeFile{"port_too_large", kHead + "listeners: {l: {tcp: \"127.0.0.1:70000\"}}\n" + kModel,
                  "expected an address and port", "c.yaml:2:22"},
        WholeFile{"same_listener",
                  kHead + "listeners: {a: {tcp: \"127.0.0.1:1\"}, b: {tcp: \"127.0.0.1:1\"}}\n" + kModel,
                  "another listener already has", "c.yaml:2:47"},
        WholeFile{"listener_of_all_addresses",
                  kHead + "listeners: {a: {tcp: \"127.0.0.1:1\"}, b: {tcp: \"0.0.0.0:1\"}}\n" + kModel,
                  "another listener already has 127.0.0.1:1", "c.yaml:2:47"},
        WholeFile{"listener_of_all_addresses_of_v6",
                  kHead + "listeners: {a: {tcp: \"[::]:1\"}, b: {tcp: \"[::1]:1\"}}\n" + kModel,
                  "another listener already has [::]:1", "c.yaml:2:42"},
        WholeFile{"same_address_spelled_otherwise",
                  kHead + "listeners: {a: {tcp: \"[::1]:1\"}, b: {tcp: \"[0:0::1]:01\"}}\n" + kModel,
                  "another listener already has [::1]:1", "c.yaml:2:43"},
        WholeFile{"same_socket_spelled_otherwise",
                  kHead + "listeners: {a: {unix: s}, b: {unix: ./x/../s}}\n" + kModel,
                  "listeners.b: another listener already has", "c.yaml:2:37"},
        WholeFile{"systemd_twice", kHead + "listeners: {a: {systemd: true}, b: {systemd: true}}\n" + kModel,
                  "another listener takes systemd's sockets", "c.yaml:2:46"},
        WholeFile{"v4_in_the_clothes_of_v6",
                  kHead + "listeners: {a: {tcp: \"[::ffff:127.0.0.1]:1\"}}\n" + kModel,
                  "an IPv4 address without [::ffff:]", "c.yaml:2:22"},
        WholeFile{"pin_of_the_embedded_model",
                  kHead + kListener + "models: {m: {embedded: true, sha256: " + std::string(64, 'a') + "}}\n",
                  "models.m.sha256: the embedded model is part of the program", "c.yaml:3:38"},
        WholeFile{"path_and_embedded", kHead + kListener + "models: {m: {path: x, embedded: true}}\n",
                  "exactly one of `path`", "c.yaml:3:10"},
        WholeFile{"neither", kHead + kListener + "models: {m: {context: 5}}\n", "exactly one of `path`",
                  "c.yaml:3:10"},
        WholeFile{"bad_id", kHead + kListener + "models: {\"a b\": {path: x}}\n", "is not an id",
                  "c.yaml:3:10"},
        WholeFile{"bad_digest", kHead + kListener + "models: {m: {path: x, sha256: abc}}\n",
                  "has 3 bytes, expected 64", "c.yaml:3:31"},
        WholeFile{"bad_kv_type", kHead + kListener + "models: {m: {path: x, kv_type: q8}}\n",
                  "models.m.kv_type: expected f16 or q8_0, got \"q8\"", "c.yaml:3:32"},
        WholeFile{"alias_taken", kHead + kListener + "models: {m: {path: x}, n: {path: y, aliases: [m]}}\n",
                  "\"m\" already names a model", "c.yaml:3:47"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Config, AllAddressesOfBothFamiliesAreTwoListeners) {
  const auto config = parse_config(
      kHead + "listeners: {a: {tcp: \"0.0.0.0:1\"}, b: {tcp: \"[0::0]:1\"}, c: {tcp: \"[::1]:0\"}}\n" +
          kModel,
      "c.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->listeners[1].address, "::");
}

TEST(Config, SeveralFindingsAreCounted) {
  const auto config = parse_config(std::string(kBase) + "max_queue: 0\nlog_level: x\n", "c.yaml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("(and 1 more;"));
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("flyball_config_" + std::to_string(::getpid()) + "_" +
                                        testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name) << text;
  }
  fs::path dir_;
};

TEST_F(Files, DropInsAreLaidOverInNameOrder) {
  write("config.yaml", kBase);
  write("config.d/20.yaml", "schema: flyball.config/v1\nmax_queue: 20\n");
  write("config.d/10.yaml", "schema: flyball.config/v1\nmax_queue: 10\nmodels: {extra: {path: e.gguf}}\n");
  write("config.d/.hidden.yaml", "junk");
  write("config.d/notes.txt", "junk");
  write("config.d/30.yml", "schema: flyball.config/v1\ndrain_timeout: 7s\n");
  const auto config = load_config(dir_ / "config.yaml");
  ASSERT_TRUE(config) << config.error().where << ": " << config.error().message;
  EXPECT_EQ(config->max_queue, 20U);
  EXPECT_EQ(config->drain_timeout, Millis(7000));
  ASSERT_EQ(config->models.size(), 2U);
  EXPECT_EQ(config->models[0].path, dir_ / "models/m.gguf");
  EXPECT_TRUE(config->apps_dir.empty());
}

TEST_F(Files, TheOperatorsKeyComesFromAFileBesideTheConfig) {
  write("key", "correct-horse-battery\n");
  fs::permissions(dir_ / "key", fs::perms::owner_read | fs::perms::owner_write);
  write("config.yaml", std::string(kBase) + "operator: {key: {file: key}}\n");
  const auto config = load_config(dir_ / "config.yaml");
  ASSERT_TRUE(config) << config.error().where << ": " << config.error().message;
  const auto by_digest = parse_config(
      std::string(kBase) +
          "operator: {key_sha256: 62249369389075490555a758353aec61500c6218fa597252d52dc4bd0148f12d}\n",
      "c.yaml");
  ASSERT_TRUE(by_digest);
  EXPECT_EQ(config->operator_access.keys, by_digest->operator_access.keys);
  write("config.yaml", std::string(kBase) + "operator: {key: {file: no-key}}\n");
  const auto missing = load_config(dir_ / "config.yaml");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("operator.key: "));
  EXPECT_THAT(missing.error().message, HasSubstr("no-key"));
  write("config.yaml", std::string(kBase) + "operator: {key: a-secret-by-mistake}\n");
  const auto secret = load_config(dir_ / "config.yaml");
  ASSERT_FALSE(secret);
  EXPECT_THAT(secret.error().message, testing::Not(HasSubstr("a-secret-by-mistake")));
}

TEST(Config, WhoeverNeedsNoKeyOnThisMachineIsItsOperatorUnlessItSaysOtherwise) {
  const auto loopback = [](const std::string& added) {
    return parse_config(std::string(kBase) + added, "c.yaml")->operator_on_loopback();
  };
  EXPECT_FALSE(loopback(""));
  EXPECT_TRUE(loopback("loopback_without_key: true\ndefault_app: a\n"));
  EXPECT_FALSE(loopback("loopback_without_key: true\ndefault_app: a\noperator: {loopback: false}\n"));
  EXPECT_TRUE(loopback("operator: {loopback: true}\n"));
}

TEST_F(Files, AMistakeInADropInNamesTheDropIn) {
  write("config.yaml", kBase);
  write("config.d/10.yaml", "schema: flyball.config/v1\nmax_queue: no\n");
  const auto config = load_config(dir_ / "config.yaml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().where, (dir_ / "config.d/10.yaml").string() + ":2:12");
  write("config.d/10.yaml", "max_queue: 1\n");
  const auto no_schema = load_config(dir_ / "config.yaml");
  ASSERT_FALSE(no_schema);
  EXPECT_THAT(no_schema.error().message, HasSubstr("the first key must be"));
}

TEST_F(Files, AllFindingsOfAFile) {
  write("config.yaml", std::string(kBase) + "max_queue: 0\nlog_level: x\nzzz: 1\n");
  const auto config = load_config_all(dir_ / "config.yaml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().size(), 3U);
}

TEST_F(Files, AppsBesideTheConfigAreFound) {
  write("config.yaml", kBase);
  write("apps.d/a.yaml", "schema: flyball.app/v1\napp: a\n");
  const auto config = load_config(dir_ / "config.yaml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->apps_dir, dir_ / "apps.d");
  const auto apps = apps_of(*config);
  ASSERT_TRUE(apps);
  EXPECT_EQ(apps->size(), 1U);
}

TEST_F(Files, MissingFile) {
  const auto config = load_config(dir_ / "nothing.yaml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::config_invalid);
  EXPECT_EQ(config.error().message, "cannot be read: No such file or directory");
  EXPECT_THAT(config.error().where, HasSubstr("nothing.yaml"));
}

TEST(Config, OneOpenClDeviceIsAListOfOne) {
  const auto config = parse_config(kBase + std::string("opencl: {device: Arc}\n"), "c.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->devices[kOpenCl], testing::ElementsAre("Arc"));
}

TEST(Schemas, AreJsonAndNameEveryKey) {
  const auto config = nlohmann::json::parse(config_schema());
  EXPECT_EQ(config["additionalProperties"], false);
  EXPECT_EQ(config["properties"]["max_queue"]["maximum"], 100'000);
  EXPECT_TRUE(config["properties"]["models"]["additionalProperties"]["properties"].contains("sha256"));
  EXPECT_EQ(config["required"], nlohmann::json::array({"schema", "listeners", "models"}));
  const auto app = nlohmann::json::parse(app_schema());
  EXPECT_TRUE(app["properties"]["workload"]["properties"].contains("shared_prefix_tokens"));
  EXPECT_TRUE(app["properties"]["key_sha256"].contains("anyOf"));
}

}  // namespace
}  // namespace flyball::config
