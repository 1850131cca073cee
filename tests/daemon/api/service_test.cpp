// The service around its requests: drain, reload, routes and who may use them, metrics.
#include "daemon/api/table/codecs.hpp"
#include "daemon/api/views.hpp"

#include <openssl/sha.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

struct ServiceTest : InferenceTest {
  // The metrics that the operator sees.
  std::string scrape() {
    Wire wire(rig, {.loopback = true, .unix_uid = {}, .address = {}});
    wire.send(get("/metrics", ""));
    return wire.answer().body;
  }
};

TEST_F(ServiceTest, draining_refuses_what_is_new_and_finishes_what_runs) {
  script(rig.cpu(), Script{.manual = true});
  Wire running(rig), fresh(rig);
  running.send(post(kChatPath, kHelloStream));
  rig.cpu().emit(1);
  running.run();
  rig.service.start_draining();
  fresh.send(post(kChatPath, kHello));
  EXPECT_EQ(fresh.answer().status, 503);
  EXPECT_EQ(json::parse(fresh.answer().body)["error"]["code"], "shutting_down");
  rig.cpu().emit(5);
  running.run();
  EXPECT_EQ(text_of(frames(running.answer())), "t0 t1 t2 t3 ");
  Wire ready(rig);
  ready.send(get("/readyz"));
  EXPECT_EQ(ready.answer().status, 503);
}

TEST_F(ServiceTest, a_drain_that_takes_too_long_ends_streams_with_a_frame) {
  script(rig.cpu(), Script{.manual = true});
  Wire wire(rig);
  wire.send(post(kChatPath, kHelloStream));
  rig.cpu().emit(1);
  wire.run();
  rig.service.abort_all({ErrorCode::shutting_down, "The daemon is shutting down.", {}, {}});
  wire.run();
  EXPECT_EQ(frames(wire.answer()).back()["error"]["code"], "shutting_down");
  EXPECT_EQ(rig.cpu().live(), 0U);
}

TEST_F(ServiceTest, readiness_waits_for_engines_that_are_to_be_preloaded) {
  auto settings = make_settings();
  settings->config.models[0].preload = true;
  Rig starting(settings);
  const auto ready = [&] {
    Wire wire(starting);
    wire.send(get("/readyz", ""));
    return wire.answer();
  };
  EXPECT_EQ(ready().status, 503);
  EXPECT_EQ(json::parse(ready().body)["status"], "loading");
  starting.cpu();
  EXPECT_EQ(ready().status, 200);
  EXPECT_EQ(json::parse(ready().body)["status"], "ready");
}

TEST_F(ServiceTest, a_reload_leaves_running_requests_alone) {
  script(rig.cpu(), Script{.manual = true});
  Wire wire(rig);
  wire.send(post(kChatPath, kHello));
  auto empty = make_settings();
  empty->apps.clear();
  rig.service.reload(empty);
  Wire refused(rig);
  refused.send(get("/v1/models"));
  EXPECT_EQ(refused.answer().status, 401);
  rig.cpu().emit(5);
  wire.run();
  EXPECT_EQ(wire.answer().status, 200);
}

TEST_F(ServiceTest, every_route_wants_a_key_but_the_probes) {
  std::vector<std::string> open;
  for (const api::Route& route : api::routes(api::all_codecs())) {
    std::string path(route.path);
    if (route.takes_id()) path += "demo";
    Wire stranger(rig);
    std::string asked = post(path, "{}", "");
    asked.replace(0, asked.find(' '), route.method);
    stranger.send(route.method == "GET" ? get(path, "") : asked);
    if (route.access == api::Access::open || route.access == api::Access::open_viewer) {
      EXPECT_EQ(stranger.answer().status, 200) << path;
      open.push_back(path);
    } else {
      EXPECT_EQ(stranger.answer().status, 401) << path;
    }
  }
  EXPECT_EQ(open, (std::vector<std::string>{"/healthz", "/health", "/readyz", "/", "/api/version"}));
}

// Clients of Ollama add its default tag to names, whatever API they speak.
TEST_F(ServiceTest, models_answer_to_their_names_with_the_default_tag_in_every_api) {
  const auto status = [&](std::string_view bytes) {
    Wire wire(rig);
    wire.send(bytes);
    return wire.answer().status;
  };
  const std::string messages = R"("messages":[{"role":"user","content":"Hi"}])";
  for (const char* name : {"demo:latest", "default-demo:latest"}) {
    const std::string model = R"({"model":")" + std::string(name) + R"(",)";
    EXPECT_EQ(status(post("/v1/chat/completions", model + messages + "}")), 200);
    EXPECT_EQ(status(post("/v1/completions", model + R"("prompt":"Hi"})")), 200);
    EXPECT_EQ(status(post("/v1/responses", model + R"("input":"Hi"})")), 200);
    EXPECT_EQ(status(post("/v1/messages", model + R"("max_tokens":3,)" + messages + "}")), 200);
    EXPECT_EQ(status(post("/api/chat", model + messages + "}")), 200);
    EXPECT_EQ(status(post("/v1/route/explain", model.substr(0, model.size() - 1) + "}")), 200);
    EXPECT_EQ(status(get("/v1/models/" + std::string(name))), 200);
  }
  EXPECT_EQ(rig.cpu().started.size(), 10U);
}

TEST_F(ServiceTest, policies_see_a_models_name_without_the_default_tag) {
  auto settings = make_settings();
  settings->tree = tree_of(R"(rules:
  - {id: plain, because: b, when: {fact: request.model, eq: demo}, use: vulkan}
default: {because: b, use: cpu}
)");
  Rig plain(settings, make_hardware(true));
  const auto chat = [](std::size_t bytes) {
    return std::string(R"({"model":"demo:latest","messages":[{"role":"user","content":")")
        .append(bytes, 'x')
        .append(R"("}]})");
  };
  for (const auto& [path, body] : {std::pair("/v1/chat/completions", chat(2)),
                                   std::pair("/v1/chat/completions", chat(20'000)),  // over kParsedOnLoop
                                   std::pair("/v1/route/explain", chat(2))}) {
    Wire wire(plain);
    wire.send(post(path, body));
    EXPECT_EQ(wire.answer().field("x-flyball-route"), "backend=vulkan; rule=plain; model=demo") << path;
  }
}

TEST_F(ServiceTest, ollamas_list_of_loaded_models_has_those_whose_engines_differ_in_the_file) {
  const auto loaded = [&] {
    Wire wire(rig);
    wire.send(get("/api/ps"));
    return json::parse(wire.answer().body)["models"];
  };
  rig.fleet.stopped = {"cpu", "vulkan"};
  rig.cpu().info_of_the_model().digest = "a";
  rig.vulkan().info_of_the_model().digest = "b";
  EXPECT_TRUE(loaded().empty());
  rig.fleet.stopped = {"vulkan"};
  json models = loaded();
  ASSERT_EQ(models.size(), 1U) << "no engine has loaded the other model";
  EXPECT_EQ(models[0]["name"], "demo:latest");
  EXPECT_EQ(models[0]["digest"], "a");
  rig.fleet.stopped.clear();
  models = loaded();
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0]["digest"], "");
}

TEST_F(ServiceTest, unknown_paths_are_refused_in_the_shape_of_the_api_that_has_such_paths) {
  const auto look = [&](std::string_view path) {
    Wire wire(rig);
    wire.send(get(path));
    EXPECT_EQ(wire.answer().status, 404) << path;
    return json::parse(wire.answer().body);
  };
  EXPECT_TRUE(look("/api/blobs/sha256:0")["error"].is_string());
  EXPECT_EQ(look("/v1/messages/batches")["type"], "error");
  for (const char* path : {"/v1/message", "/apis", "/props", "/v1/api/chat"})
    EXPECT_EQ(look(path)["error"]["code"], "not_found") << path;
}

// An id is the rest of the path, percent-decoded once (RFC 3986, section 2.1).
TEST_F(ServiceTest, ids_in_paths_may_hold_anything) {
  rig.settings->config.models[0].id = "org/tiny";
  rig.settings->config.models[0].aliases = {"fam:7b", "team/a%2Fb", "mod\u00e8le d'essai"};
  rig.settings->config.default_model = "org/tiny";
  const auto ask = [&](std::string_view path) {
    Wire wire(rig);
    wire.send(get(path));
    return wire.answer();
  };
  for (const char* id : {"org/tiny", "org%2Ftiny", "org%2ftiny", "%6Frg/tiny", "fam:7b", "fam%3A7b",
                         "team/a%252Fb", "mod%C3%A8le%20d'essai", "org/tiny?x=y"}) {
    const Answer answer = ask("/v1/models/" + std::string(id));
    EXPECT_EQ(answer.status, 200) << id;
    EXPECT_EQ(nlohmann::json::parse(answer.body).value("id", ""), "org/tiny") << id;
  }
  for (const char* id : {"org", "org/tiny/", "/org/tiny", "team/a%2Fb", "org%2Ftiny%00", "a%0Ab", "%FF"})
    EXPECT_EQ(ask("/v1/models/" + std::string(id)).status, 404) << id;
  for (const char* id : {"org%2", "org%", "100%25%", "%zz", "%2gtiny"}) {
    const Answer answer = ask("/v1/models/" + std::string(id));
    EXPECT_EQ(answer.status, 400) << id;
    EXPECT_NE(answer.body.find("two hexadecimal digits"), std::string::npos) << answer.body;
  }
  EXPECT_TRUE(json::parse(ask("/v1/models/").body)["data"].is_array()) << "no id, all of them";
  EXPECT_EQ(ask("/v1/route/receipts/").status, 404) << "no id, no route";
  Wire served(rig);
  served.send(post("/v1/completions", R"({"model":"org/tiny","prompt":"Once"})"));
  EXPECT_EQ(served.answer().status, 200);
  const std::string receipt(served.answer().field("x-request-id"));
  EXPECT_EQ(ask("/v1/route/receipts/" + receipt).status, 200);
  EXPECT_EQ(ask("/v1/route/receipts/%72" + receipt.substr(1)).status, 200);
}

TEST_F(ServiceTest, who_needs_no_key) {
  const auto status = [&](http::Peer peer, std::string_view path) {
    Wire wire(rig, std::move(peer));
    wire.send(get(path, ""));
    return wire.answer().status;
  };
  const http::Peer loopback{.loopback = true, .unix_uid = {}, .address = {}};
  const http::Peer user{.loopback = false, .unix_uid = 4711, .address = {}};
  const http::Peer other{.loopback = false, .unix_uid = 4712, .address = {}};
  EXPECT_EQ(status(loopback, "/v1/models"), 401);
  EXPECT_EQ(status(loopback, "/metrics"), 200);
  EXPECT_EQ(status(user, "/v1/models"), 200);
  EXPECT_EQ(status(other, "/v1/models"), 401);
  rig.settings->config.loopback_without_key = true;
  rig.settings->config.default_app = "bob";
  EXPECT_EQ(status(loopback, "/v1/models"), 200);
  EXPECT_EQ(status(other, "/v1/models"), 200);
  EXPECT_EQ(status({}, "/v1/models"), 401);
  Wire wrong(rig, loopback);
  wrong.send(get("/v1/models", "no-such-key"));
  EXPECT_EQ(wrong.answer().status, 401);  // a wrong key is never better than none
}

// Each app's requests, and what each way of asking sees of them.
struct ViewersTest : ServiceTest {
  const http::Peer loopback{.loopback = true, .unix_uid = {}, .address = {}};
  const http::Peer alices{.loopback = false, .unix_uid = 4711, .address = {}};

  void SetUp() override {
    rig.settings->config.operator_access = {{sha256_of("key-of-the-operator")}, {}};
    ask(kHello);
    Wire bob(rig);
    bob.send(get("/v1/models", "key-bobby"));
  }
  static config::Sha256 sha256_of(std::string_view key) {
    config::Sha256 digest{};
    SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
    return digest;
  }
  Answer look(std::string_view path, std::string_view key, http::Peer peer = {}) {
    Wire wire(rig, std::move(peer));
    wire.send(get(path, key));
    return wire.answer();
  }
  // "all", "alice" (her figures alone), "bob", or the status of a refusal.
  std::string sees(std::string_view key, http::Peer peer = {}) {
    const Answer answer = look("/metrics", key, std::move(peer));
    if (answer.status != 200) return std::to_string(answer.status);
    const auto has = [&](std::string_view text) { return answer.body.find(text) != std::string::npos; };
    EXPECT_TRUE(has("flyball_build_info{") && has("flyball_config_last_reload_success 1"));
    const bool all = has("flyball_policy_decisions_total{") && has("flyball_requests_running ");
    if (all && has(R"(app="alice")") && has(R"(app="bob")")) return "all";
    EXPECT_FALSE(has("rejections") || has("decisions") || has("model_loaded") || has("memory") ||
                 has("overhead"));
    std::string seen;
    for (const char* app : {"alice", "bob", "uid", "none"})
      if (has("app=\"" + std::string(app) + "\"")) seen += app;
    return seen;
  }
};

TEST_F(ViewersTest, the_operator_sees_all_and_an_app_itself_alone) {
  EXPECT_EQ(sees("key-of-the-operator"), "all");
  EXPECT_EQ(sees("key-alice"), "alice");
  EXPECT_EQ(sees("key-bobby"), "bob");
  EXPECT_EQ(sees("key-alice", loopback), "alice") << "a key decides alone";
  EXPECT_EQ(sees(""), "401");
}

TEST_F(ViewersTest, a_wrong_key_is_refused_from_everywhere) {
  rig.settings->config.loopback_without_key = true;
  rig.settings->config.default_app = "bob";
  for (const http::Peer& peer : {http::Peer{}, loopback, alices})
    for (const char* path : {"/metrics", "/readyz", "/v1/models"})
      EXPECT_EQ(look(path, "no-such-key", peer).status, 401) << path;
  EXPECT_EQ(look("/healthz", "no-such-key").status, 200) << "it looks at no key";
}

TEST_F(ViewersTest, this_machine_sees_all_where_the_configuration_says_so) {
  auto& config = rig.settings->config;
  EXPECT_EQ(sees("", loopback), "401");
  EXPECT_EQ(sees("", alices), "uid") << "a user who is an app sees that app";
  config.operator_access.loopback = true;
  EXPECT_EQ(sees("", loopback), "all");
  EXPECT_EQ(sees("", alices), "uid");
  EXPECT_EQ(sees(""), "401") << "another machine";
  // Without a word about it: as requests of this machine.
  config.operator_access.loopback.reset();
  config.loopback_without_key = true;
  config.default_app = "bob";
  EXPECT_EQ(sees("", loopback), "all");
  config.operator_access.loopback = false;
  EXPECT_EQ(sees("", loopback), "bob") << "default_app";
}

TEST_F(ViewersTest, the_operators_key_is_no_apps) {
  const Answer answer = look("/v1/models", "key-of-the-operator");
  EXPECT_EQ(answer.status, 401);
  EXPECT_NE(answer.body.find("operator's"), std::string::npos) << answer.body;
}

// Engines, as the operator sees and changes them.
struct EnginesTest : ViewersTest {
  Answer tell(std::string_view path, std::string body, std::string_view key = "key-of-the-operator") {
    Wire wire(rig);
    wire.send(post(path, std::move(body), key));
    return wire.answer();
  }
  json engines() { return json::parse(look("/v1/engines", "key-of-the-operator").body)["engines"]; }
};

TEST_F(EnginesTest, only_the_operator_sees_and_changes_them) {
  for (const std::string_view key : {"key-alice", "no-such-key", ""}) {
    EXPECT_EQ(look("/v1/engines", key).status, 401) << key;
    EXPECT_EQ(tell("/v1/engines/load", R"({"model":"demo"})", key).status, 401) << key;
    EXPECT_EQ(tell("/v1/engines/unload", R"({"model":"demo"})", key).status, 401) << key;
  }
  EXPECT_NE(look("/v1/engines", "key-alice").body.find("the operator's"), std::string::npos);
  EXPECT_EQ(look("/v1/engines", "", alices).status, 401) << "a user who is an app is that app";
  EXPECT_EQ(look("/v1/engines", "", loopback).status, 401)
      << "operator.loopback is absent, and keys are needed";
  rig.settings->config.operator_access.loopback = true;
  EXPECT_EQ(look("/v1/engines", "", loopback).status, 200);
  EXPECT_FALSE(engines().empty());
}

TEST_F(EnginesTest, are_listed_loaded_and_unloaded) {
  const json before = engines();
  ASSERT_EQ(before.size(), 1U);
  EXPECT_EQ(before[0]["model"], "demo");
  EXPECT_EQ(before[0]["engine"], "cpu");
  EXPECT_EQ(before[0]["state"], "ready");
  const json loaded = json::parse(tell("/v1/engines/load", R"({"model":"small","engine":"vulkan"})").body);
  EXPECT_EQ(loaded, json::parse(R"({"model":"small","engines":[{"engine":"vulkan","state":"ready"}]})"));
  EXPECT_EQ(engines().size(), 2U);
  const json unloaded = json::parse(tell("/v1/engines/unload", R"({"model":"default-demo"})").body);
  EXPECT_EQ(unloaded, json::parse(R"({"model":"demo","unloaded":["cpu"]})"));
  EXPECT_EQ(json::parse(tell("/v1/engines/unload", R"({"model":"demo"})").body)["unloaded"], json::array());
  EXPECT_EQ(engines().size(), 1U);
}

TEST_F(EnginesTest, a_load_without_an_engine_goes_where_preload_would) {
  rig.fleet.acquired.clear();
  EXPECT_EQ(tell("/v1/engines/load", R"({"model":"small"})").status, 200);
  EXPECT_EQ(rig.fleet.acquired, std::vector<std::string>{"cpu"});
}

TEST_F(EnginesTest, a_load_that_fails_is_its_error) {
  rig.fleet.acquire_errors["cpu"].push_back(
      {ErrorCode::insufficient_memory, "The model needs 2 GiB.", {}, {}});
  const Answer answer = tell("/v1/engines/load", R"({"model":"small"})");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(json::parse(answer.body)["error"]["code"], "insufficient_memory");
}

TEST_F(EnginesTest, a_drain_answers_a_call_that_waits) {
  rig.fleet.hold_acquires = true;
  Wire wire(rig);
  wire.send(post("/v1/engines/load", R"({"model":"small"})", "key-of-the-operator"));
  ASSERT_EQ(rig.fleet.held.size(), 1U);
  rig.service.start_draining();
  wire.run();
  const Answer answer = wire.answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(json::parse(answer.body)["error"]["code"], "shutting_down");
  rig.fleet.held.front()(&rig.fleet.backend("small", "cpu"));  // the load ends all the same
}

TEST_F(EnginesTest, mistakes_in_the_body_are_named) {
  const auto mistake = [&](std::string body) {
    const Answer answer = tell("/v1/engines/unload", std::move(body));
    const json error = json::parse(answer.body)["error"];
    return std::to_string(answer.status) + " " + error["code"].get<std::string>() + " " +
           (error["param"].is_string() ? error["param"].get<std::string>() : "");
  };
  EXPECT_EQ(mistake("{}"), "400 missing_field model");
  EXPECT_EQ(mistake("[]"), "400 invalid_value ");
  EXPECT_EQ(mistake("{"), "400 invalid_json ");
  EXPECT_EQ(mistake(R"({"model":7})"), "400 invalid_value model");
  EXPECT_EQ(mistake(R"({"model":"demo","engin":"cpu"})"), "400 unknown_field engin")
      << "a misspelled engine is not all engines";
  EXPECT_EQ(mistake(R"({"model":"demo","engine":"opencl"})"), "400 invalid_value engine");
  EXPECT_EQ(mistake(R"({"model":"demo","engine":""})"), "400 invalid_value engine");
  EXPECT_EQ(mistake(R"({"model":"dem"})"), "404 model_not_found model");
  EXPECT_EQ(mistake(std::string(16 * 1024 + 1, ' ')), "413 body_too_large ");
  EXPECT_EQ(engines().size(), 1U) << "nothing was unloaded";
}

// Ollama's clients unload a model by a request without a prompt.
struct UnloadingTest : EnginesTest {
  Answer unload(std::string body, std::string_view key = "", const char* path = "/api/generate") {
    Wire wire(rig, loopback);
    wire.send(post(path, std::move(body), key));
    return wire.answer();
  }
  void let_the_operator_go_without_key() {
    rig.settings->config.loopback_without_key = true;
    rig.settings->config.default_app = "alice";
    rig.settings->config.operator_access.loopback = true;
  }
};

TEST_F(UnloadingTest, a_model_is_unloaded_where_the_operator_asks) {
  let_the_operator_go_without_key();
  EXPECT_EQ(engines().size(), 1U);
  const json generated = json::parse(unload(R"({"model":"demo:latest","keep_alive":0})").body);
  EXPECT_EQ(generated["model"], "demo:latest");
  EXPECT_EQ(generated["response"], "");
  EXPECT_EQ(generated["done_reason"], "unload");
  EXPECT_EQ(generated["done"], true);
  EXPECT_TRUE(engines().empty());
  const Answer chat = unload(R"({"model":"demo","messages":[],"keep_alive":"0s"})", "", "/api/chat");
  EXPECT_EQ(chat.status, 200) << "it was not loaded any more, as the client wants it";
  EXPECT_EQ(json::parse(chat.body)["message"], (json{{"role", "assistant"}, {"content", ""}}));
}

TEST_F(UnloadingTest, apps_keep_each_others_engines) {
  let_the_operator_go_without_key();
  const Answer refused = unload(R"({"model":"demo","keep_alive":0})", "key-alice");
  EXPECT_EQ(refused.status, 400);
  const json body = json::parse(refused.body);
  ASSERT_TRUE(body["error"].is_string()) << refused.body;
  EXPECT_NE(body["error"].get<std::string>().find("only the operator may unload it"), std::string::npos);
  EXPECT_EQ(engines().size(), 1U);
  rig.settings->config.operator_access.loopback = false;
  EXPECT_EQ(unload(R"({"model":"demo","keep_alive":0})").status, 400);
  EXPECT_EQ(engines().size(), 1U);
}

TEST_F(UnloadingTest, mistakes_unload_nothing) {
  let_the_operator_go_without_key();
  EXPECT_EQ(unload(R"({"keep_alive":0})").status, 400) << "which model?";
  EXPECT_EQ(unload(R"({"model":"dem","keep_alive":0})").status, 404);
  EXPECT_EQ(unload(R"({"model":"demo","promt":"Hi","keep_alive":0})").status, 400);
  EXPECT_EQ(unload(R"({"model":"demo","prompt":"Hi","stream":false,"keep_alive":0})").status, 200)
      << "an answer";
  EXPECT_EQ(engines().size(), 1U);
}

TEST_F(ViewersTest, readiness_names_models_to_the_operator_alone) {
  for (const auto& [key, peer, details] :
       {std::tuple("key-of-the-operator", http::Peer{}, true), std::tuple("key-alice", http::Peer{}, false),
        std::tuple("", http::Peer{}, false), std::tuple("", loopback, false)}) {
    const json said = json::parse(look("/readyz", key, peer).body);
    EXPECT_EQ(said["status"], "ready");
    EXPECT_EQ(said.contains("models"), details) << key;
  }
}

// The log while it lives: its lines.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("captured", sink_);
    logger->set_pattern("%v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  std::vector<std::string> lines() const { return sink_->last_formatted(); }

 private:
  const std::shared_ptr<spdlog::logger> before_;
  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> sink_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1000);
};

TEST_F(ServiceTest, a_flood_of_refusals_is_two_lines_for_each_app_and_code) {
  const CapturedLog log;
  {
    Rig flooded;
    spdlog::set_level(spdlog::level::info);
    const auto flood = [&](std::string_view request, int status) {
      for (int i = 0; i < 100; ++i) {
        Wire wire(flooded);
        wire.send(request);
        EXPECT_EQ(wire.answer().status, status);
      }
    };
    flood(get("/v1/models", "no-such-key"), 401);
    flood(post(kChatPath, R"({"n":99})"), 400);
  }  // what was counted in a second that is not over is told
  // Whole lines count one, the others what they say. On a machine that takes longer than a second there are
  // some more of both.
  std::map<std::string, std::uint64_t> refusals;
  for (const std::string& line : log.lines())
    for (const std::string code : {"code=invalid_api_key ", "code=invalid_value "})
      if (line.find(code) != std::string::npos) {
        const auto count = line.find(" count=");
        refusals[code] += count == std::string::npos ? 1 : std::stoull(line.substr(count + 7));
      }
  EXPECT_EQ(refusals["code=invalid_api_key "], 100U);
  EXPECT_EQ(refusals["code=invalid_value "], 100U);
  EXPECT_LE(log.lines().size(), 40U);
}

TEST_F(ServiceTest, a_flood_of_failures_before_a_token_is_two_lines) {
  for (const std::uint32_t tokens : {0U, 2U}) {
    const CapturedLog log;
    {
      Rig flooded;
      spdlog::set_level(spdlog::level::info);
      Script fails;
      fails.fail_after = tokens;
      fails.error = {ErrorCode::context_length_exceeded, "9 tokens do not fit 8.", "messages", {}};
      script(flooded.cpu(), fails);
      for (int i = 0; i < 50; ++i) {
        Wire wire(flooded);
        wire.send(post(kChatPath, kHello));
        EXPECT_EQ(wire.answer().status, 400);
      }
    }  // what was counted in a second that is not over is told
    std::size_t whole = 0;
    std::uint64_t counted = 0;
    for (const std::string& line : log.lines()) {
      if (line.find("code=context_length_exceeded ") == std::string::npos) continue;
      if (const auto count = line.find(" count="); count != std::string::npos) {
        counted += std::stoull(line.substr(count + 7));
        continue;
      }
      ++whole;
      EXPECT_NE(line.find(" model=demo backend=cpu "), std::string::npos) << line;
    }
    EXPECT_EQ(whole + counted, 50U);
    if (tokens == 0)
      EXPECT_LE(whole, 20U) << "one for each second";
    else
      EXPECT_EQ(whole, 50U) << "their prompts were counted";
  }
}

TEST_F(ServiceTest, a_connection_is_known_once_an_apps_request_was_let_in) {
  const auto known = [&](http::Peer peer, std::string_view request) {
    Wire wire(rig, std::move(peer));
    wire.send(request);
    return wire.connection().known();
  };
  const http::Peer loopback{.loopback = true, .unix_uid = {}, .address = {}};
  const http::Peer user{.loopback = false, .unix_uid = 4711, .address = {}};
  EXPECT_TRUE(known({}, get("/v1/models")));
  EXPECT_TRUE(known(user, get("/v1/models", "")));
  EXPECT_FALSE(known({}, get("/v1/models", "no-such-key")));
  EXPECT_FALSE(known({}, get("/healthz"))) << "a key that nobody looked at";
  EXPECT_FALSE(known({}, get("/elsewhere")));
  EXPECT_FALSE(known(loopback, get("/v1/models", "")));
  rig.settings->config.loopback_without_key = true;
  rig.settings->config.default_app = "bob";
  EXPECT_TRUE(known(loopback, get("/v1/models", "")));
  EXPECT_FALSE(known({}, get("/v1/models", "")));
  const std::string head = post(kChatPath, kHello);
  EXPECT_TRUE(known({}, std::string_view(head).substr(0, head.find("\r\n\r\n") + 4))) << "before the body";
}

TEST_F(ServiceTest, models) {
  Wire wire(rig);
  wire.send(get("/v1/models"));
  const json list = json::parse(wire.answer().body);
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "demo");
  EXPECT_EQ(list["data"][0]["object"], "model");
  Wire bob(rig);
  bob.send(get("/v1/models", "key-bobby"));
  EXPECT_EQ(json::parse(bob.answer().body)["data"].size(), 1U);
  Wire one(rig);
  one.send(get("/v1/models/default-demo"));
  EXPECT_EQ(json::parse(one.answer().body)["id"], "demo");
}

TEST_F(ServiceTest, metrics_have_their_names) {
  ask(kHelloStream);
  ask(R"({"n":99})");
  const std::string text = scrape();
  for (const char* name : {"flyball_requests_total{",
                           "flyball_request_duration_seconds_bucket{",
                           "flyball_time_to_first_token_seconds_count{",
                           "flyball_time_per_output_token_seconds_count{",
                           "flyball_queue_wait_seconds_count{",
                           "flyball_router_overhead_seconds_count 1",
                           "flyball_policy_eval_seconds_count 1",
                           "flyball_requests_waiting 0",
                           "flyball_requests_running 0",
                           "flyball_kv_cache_usage_ratio{",
                           "flyball_tokens_total{",
                           R"(flyball_engine_prefix_cache_queries{backend="cpu",model="demo"} 30)",
                           R"(flyball_engine_prefix_cache_hits{backend="cpu",model="demo"} 20)",
                           R"(flyball_engine_kv_blocks{backend="cpu",model="demo"} 10)",
                           R"(flyball_engine_kv_blocks_used{backend="cpu",model="demo"} 0)",
                           R"(flyball_engine_preemptions{backend="cpu",model="demo"} 3)",
                           R"(flyball_engine_kv_spill{backend="cpu",model="demo"} 1)",
                           R"(flyball_engine_kv_spilled_bytes{backend="cpu",model="demo"} 4096)",
                           R"(flyball_engine_kv_restored_tokens{backend="cpu",model="demo"} 16)",
                           "flyball_policy_decisions_total{rule=\"everything\",target=\"cpu\"} 1",
                           "flyball_rejections_total{reason=\"invalid_value\"} 1",
                           "flyball_model_loaded{",
                           "flyball_model_resident_bytes{",
                           "flyball_engine_restarts{",
                           "flyball_build_info{",
                           "flyball_config_last_reload_success 1"})
    EXPECT_NE(text.find(name), std::string::npos) << name;
  EXPECT_NE(text.find(R"(flyball_tokens_total{app="alice",backend="cpu",model="demo",type="completion"} 4)"),
            std::string::npos);
}

TEST_F(ServiceTest, a_pressure_that_is_not_known_any_more_leaves_the_metrics) {
  rig.fleet.memory_status.pressure = 12.5;
  EXPECT_NE(scrape().find("flyball_memory_pressure_percent 12.5"), std::string::npos);
  rig.fleet.memory_status.pressure.reset();
  EXPECT_EQ(scrape().find("flyball_memory_pressure_percent "), std::string::npos);
  rig.fleet.memory_status.pressure = 0;
  EXPECT_NE(scrape().find("flyball_memory_pressure_percent 0"), std::string::npos);
}

TEST_F(ServiceTest, an_app_that_is_gone_leaves_the_metrics) {
  const std::string gauge = R"(flyball_app_tokens_today{app="bob"})";
  EXPECT_NE(scrape().find(gauge), std::string::npos);
  auto without = make_settings();
  std::erase_if(without->apps, [](const config::AppManifest& app) { return app.id == "bob"; });
  rig.service.reload(without);
  const std::string text = scrape();
  EXPECT_EQ(text.find(R"({app="bob"})"), std::string::npos);
  EXPECT_NE(text.find(R"(flyball_app_workload_drift{app="alice"})"), std::string::npos);
  rig.service.reload(make_settings());
  EXPECT_NE(scrape().find(gauge), std::string::npos);
}

TEST_F(ServiceTest, a_model_that_is_gone_leaves_the_metrics) {
  rig.cpu("demo");
  rig.cpu("small");
  const auto has = [](const std::string& text, const char* model) {
    return text.find("{backend=\"cpu\",model=\"" + std::string(model) + "\"}") != std::string::npos;
  };
  std::string text = scrape();
  EXPECT_TRUE(has(text, "demo") && has(text, "small")) << text;
  rig.fleet.forget("small");  // as a reload does
  text = scrape();
  EXPECT_TRUE(has(text, "demo") && !has(text, "small")) << text;
  rig.cpu("small");
  text = scrape();
  EXPECT_TRUE(has(text, "demo") && has(text, "small")) << text;
}

}  // namespace
}  // namespace flyball::testing
