// The service around its requests: drain, reload, routes and who may use them, metrics.
#include "daemon/api/table/codecs.hpp"
#include "daemon/api/views.hpp"
#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

struct ServiceTest : InferenceTest {};

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

TEST_F(ServiceTest, readiness_has_failed_when_nothing_is_coming) {
  using enum fleet::WorkerState;
  config::Config config;
  config.models.resize(2);
  config.models[0].id = "one";
  config.models[1].id = "two";
  config.models[0].preload = true;
  const auto worker = [](std::string model, fleet::WorkerState state, std::string error = {}) {
    fleet::WorkerStatus one;
    one.model = std::move(model);
    one.state = state;
    one.last_error = std::move(error);
    return one;
  };
  const auto status = [&](const std::vector<fleet::WorkerStatus>& workers, bool draining = false) {
    const http::Response answer = api::readiness_view(config, workers, draining);
    const std::string said = json::parse(answer.body)["status"];
    EXPECT_EQ(answer.status, said == "ready" ? 200 : 503);
    return said;
  };
  EXPECT_EQ(status({}), "loading");
  EXPECT_EQ(status({worker("one", stopped)}), "loading");
  EXPECT_EQ(status({worker("one", stopped, "not a GGUF file")}), "failed");
  EXPECT_EQ(status({worker("one", disabled, "died")}), "failed");
  EXPECT_EQ(status({worker("one", starting, "died")}), "loading");
  EXPECT_EQ(status({worker("one", backoff, "died")}), "loading");
  EXPECT_EQ(status({worker("one", stopped, "no memory"), worker("one", starting)}), "loading");
  EXPECT_EQ(status({worker("one", stopped, "no memory"), worker("one", fleet::WorkerState::ready)}), "ready");
  EXPECT_EQ(status({worker("one", fleet::WorkerState::ready), worker("two", stopped, "x")}), "ready");
  EXPECT_EQ(status({worker("one", disabled, "died")}, true), "draining");
  config.models[1].preload = true;
  EXPECT_EQ(status({worker("one", starting), worker("two", stopped, "x")}), "failed");
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
    if (path.ends_with('/')) path += "demo";
    Wire stranger(rig);
    stranger.send(route.method == "GET" ? get(path, "") : post(path, "{}", ""));
    if (route.access == api::Access::open) {
      EXPECT_EQ(stranger.answer().status, 200) << path;
      open.push_back(path);
    } else {
      EXPECT_EQ(stranger.answer().status, 401) << path;
    }
  }
  EXPECT_EQ(open, (std::vector<std::string>{"/healthz", "/readyz"}));
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
  Wire wire(rig);
  wire.send(get("/metrics"));
  const std::string text = wire.answer().body;
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
  const auto scrape = [&] {
    Wire wire(rig);
    wire.send(get("/metrics"));
    return wire.answer().body;
  };
  rig.fleet.memory_status.pressure = 12.5;
  EXPECT_NE(scrape().find("flyball_memory_pressure_percent 12.5"), std::string::npos);
  rig.fleet.memory_status.pressure.reset();
  EXPECT_EQ(scrape().find("flyball_memory_pressure_percent "), std::string::npos);
  rig.fleet.memory_status.pressure = 0;
  EXPECT_NE(scrape().find("flyball_memory_pressure_percent 0"), std::string::npos);
}

TEST_F(ServiceTest, an_app_that_is_gone_leaves_the_metrics) {
  const auto scrape = [&] {
    Wire wire(rig, {.loopback = true, .unix_uid = {}, .address = {}});
    wire.send(get("/metrics", ""));
    return wire.answer().body;
  };
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
  const auto scrape = [&] {
    Wire wire(rig);
    wire.send(get("/metrics"));
    return wire.answer().body;
  };
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
