// Who is admitted, where a request is sent, how long it waits, and the receipt of all that.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

struct Dispatch : InferenceTest {};

// Of one rule, as its YAML says, and the processor for everybody else.
auto settings_with(const std::string& rule) {
  auto settings = make_settings();
  settings->tree = tree_of("rules:\n  - " + rule + "\ndefault: {because: b, use: cpu}\n");
  return settings;
}

TEST_F(Dispatch, nothing_available_is_no_target) {
  Rig bare(make_settings(), policy::Facts{});
  Wire wire(bare);
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(wire.answer().status, 503);
  EXPECT_EQ(json::parse(wire.answer().body)["error"]["code"], "no_target");
}

// What a machine with these two engines predicts of a request.
policy::Facts predicting(std::int64_t vulkan_ms, std::int64_t cpu_ms, bool in_time) {
  policy::Facts facts = make_hardware(true);
  for (const auto& [backend, ms] : {std::pair{"vulkan", vulkan_ms}, {"cpu", cpu_ms}}) {
    const std::string prefix = std::string("backend.") + backend + ".";
    facts.set(prefix + "expected_total", ms * 1000, "predicted: test");
    facts.set(prefix + "meets_slo", in_time, "predicted: test");
  }
  return facts;
}

TEST_F(Dispatch, a_rule_may_pick_the_engine_that_is_faster_for_a_request) {
  const auto settings = settings_with("{id: r, because: b, use: [vulkan, cpu], pick: fastest}");
  Rig slow_gpu(settings, predicting(900, 400, true)), fast_gpu(settings, predicting(300, 400, true));
  for (Rig* one : {&slow_gpu, &fast_gpu}) {
    one->cpu();
    one->vulkan();
    Wire wire(*one);
    wire.send(post(kChatPath, kHello));
    EXPECT_EQ(wire.answer().field("x-flyball-route"),
              one == &slow_gpu ? "backend=cpu; rule=r; model=demo" : "backend=vulkan; rule=r; model=demo");
  }
}

// A target that missed the SLO is an alternative to one that was chosen, and nothing to ask where none was.
TEST_F(Dispatch, a_request_goes_to_no_engine_that_missed_the_slo_where_none_was_chosen) {
  const auto settings = make_settings();
  settings->tree =
      tree_of("rules: [{id: r, because: b, use: cpu, pick: meets_slo}]\ndefault: {because: b, use: vllm}\n");
  Rig late(settings, predicting(900, 900, false));
  late.cpu();
  Wire wire(late);
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(wire.answer().status, 503);
  const json error = json::parse(wire.answer().body)["error"];
  EXPECT_EQ(error["code"], "no_target");
  EXPECT_THAT(error["message"].get<std::string>(),
              ::testing::HasSubstr("cpu would miss the SLO, vllm is not available."));
  EXPECT_TRUE(late.cpu().started.empty());
}

TEST_F(Dispatch, a_disabled_engine_is_ruled_out) {
  ask(kHello);
  rig.fleet.disabled["cpu"] = {ErrorCode::model_unavailable, "It died 3 times.", {}, {}};
  EXPECT_EQ(ask(kHello).field("x-flyball-route"), "backend=vulkan; rule=everything; model=demo");
}

// A start copies the prompt: the answers to one of 300 KiB begin in turns of the loop of their own.
TEST_F(Dispatch, LargePromptsAreHandedOverOneInATurnOfTheLoop) {
  constexpr std::size_t kAnswers = 4;
  const std::string request =
      post("/v1/completions", R"({"model":"demo","n":4,"prompt":")" + std::string(300 * 1024, 'x') + R"("})");
  FakeBackend& engine = rig.cpu();
  Wire wire(rig);
  for (std::size_t at = 0; at < request.size(); at += 16 * 1024)
    wire.connection().receive(std::string_view(request).substr(at, 16 * 1024));
  std::size_t most = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (engine.started.size() < kAnswers && std::chrono::steady_clock::now() < deadline) {
    const std::size_t before = engine.started.size();
    rig.io.restart();
    rig.io.run_one_for(std::chrono::milliseconds(100));
    most = std::max(most, engine.started.size() - before);
  }
  EXPECT_EQ(engine.started.size(), kAnswers);
  EXPECT_EQ(most, 1U);
  wire.run();
  EXPECT_EQ(wire.answer().status, 200);
}

// KV is shared among requests of one owner only: the engine has to know whose each one is.
TEST_F(Dispatch, the_engine_hears_whose_request_it_is) {
  ask(kHello);
  Wire bob(rig);
  bob.send(post(kChatPath, R"({"model":"small","messages":[{"role":"user","content":"hi"}]})", "key-bobby"));
  EXPECT_EQ(bob.answer().status, 200);
  EXPECT_EQ(rig.cpu("demo").started.at(0).owner, "alice");
  EXPECT_EQ(rig.cpu("small").started.at(0).owner, "bob");
}

// No engine is left because they died too often: the cause, not a word about the policy.
TEST_F(Dispatch, nothing_but_disabled_engines_is_model_unavailable_with_the_cause) {
  rig.cpu();
  rig.fleet.backend("demo", "vulkan");
  for (const char* engine : {"cpu", "vulkan"})
    rig.fleet.disabled[engine] = {
        ErrorCode::model_unavailable, std::string(engine) + " died 3 times.", {}, {}};
  const auto answer = ask(kHello);
  EXPECT_EQ(answer.status, 503);
  const auto error = json::parse(answer.body)["error"];
  EXPECT_EQ(error["code"], "model_unavailable");
  EXPECT_EQ(error["message"], "cpu died 3 times.");
}

TEST_F(Dispatch, the_fleet_hears_what_the_app_may) {
  auto settings = make_settings();
  settings->apps[0].limits.resident = 1000;
  settings->apps[0].limits.may_evict = false;
  Rig other(settings, make_hardware());
  Wire wire(other);
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(wire.answer().status, 200);
  EXPECT_EQ(other.fleet.askers.at(0), (fleet::Asker{"alice", false, 1000}));
}

// Decided on what is free as the request comes.
TEST_F(Dispatch, a_rule_may_ask_what_memory_is_free) {
  const auto settings = settings_with(
      "{id: room, because: b, when: {all: [{fact: backend.vulkan.memory_free, gte: 100}, "
      "{fact: hardware.memory.pressure, lt: 20}]}, use: vulkan}");
  Rig other(settings, make_hardware(true));
  const auto route = [&] {
    Wire wire(other);
    wire.send(post(kChatPath, kHello));
    return std::string(wire.answer().field("x-flyball-route"));
  };
  EXPECT_EQ(route(), "backend=cpu; rule=default; model=demo") << "nothing is known";
  other.fleet.memory_status.pools = {{"machine", 1000, 900, 100, 1, 0, {}}};
  other.fleet.memory_status.pressure = 1;
  EXPECT_EQ(route(), "backend=vulkan; rule=room; model=demo");
  other.fleet.memory_status.pools[0].free = 99;
  EXPECT_EQ(route(), "backend=cpu; rule=default; model=demo");
  other.fleet.memory_status.pools[0].free = 100;
  other.fleet.memory_status.pressure = 20;
  EXPECT_EQ(route(), "backend=cpu; rule=default; model=demo");
}

// Twenty requests of one app fill the engine and its line: another app's begins beside them, and from then on
// a place is kept for it.
TEST_F(Dispatch, an_app_that_floods_is_not_in_another_ones_way) {
  constexpr const char* kSmall = R"({"model":"small","messages":[{"role":"user","content":"hi"}]})";
  FakeBackend& engine = rig.cpu("small");
  script(engine, Script{.tokens = 4, .manual = true});
  std::vector<std::unique_ptr<Wire>> wires;
  const auto send = [&](const char* key) {
    wires.push_back(std::make_unique<Wire>(rig));
    wires.back()->send(post(kChatPath, kSmall, key));
  };
  for (int i = 0; i < 20; ++i) send("key-alice");
  EXPECT_EQ(engine.started.size(), 8U) << "as many as it computes at once";
  send("key-bobby");
  ASSERT_EQ(engine.started.size(), 9U);
  EXPECT_EQ(engine.started.back().owner, "bob");
  engine.emit(5, 1);
  wires.back()->run();
  EXPECT_EQ(engine.started.size(), 9U) << "one less: eight run";
  engine.emit(5, 8);  // bob's among them: seven of alice's follow, and bob's place stays free
  wires.back()->run();
  EXPECT_EQ(engine.live(), 7U);
  send("key-bobby");
  wires.back()->run();
  EXPECT_EQ(engine.live(), 8U);
  EXPECT_EQ(engine.started.back().owner, "bob");
}

// Requests that an engine never took wait for their turn at the next one like everybody.
TEST_F(Dispatch, who_is_refused_by_one_engine_takes_a_turn_at_the_next) {
  FakeBackend& vulkan = rig.vulkan();
  script(vulkan, Script{.tokens = 4, .manual = true});
  for (int i = 0; i < 20; ++i)
    rig.fleet.acquire_errors["cpu"].push_back({ErrorCode::insufficient_memory, "It does not fit.", {}, {}});
  std::vector<std::unique_ptr<Wire>> wires;
  for (int i = 0; i < 20; ++i) {
    wires.push_back(std::make_unique<Wire>(rig));
    wires.back()->send(post(kChatPath, kHello));
    wires.back()->run();
  }
  EXPECT_EQ(vulkan.started.size(), 8U) << "as many as it computes at once";
  vulkan.emit(5, 2);
  wires.back()->run();
  EXPECT_EQ(vulkan.started.size(), 10U);
}

// The profile of the target that is asked, also where another one was asked before it.
TEST_F(Dispatch, EachEngineGetsTheSettingsOfItsOwnProfile) {
  const auto settings = make_settings();
  settings->tree = tree_of(R"(profiles:
  latency: {because: b, step_budget: 20ms, place: ahead}
  throughput: {because: b, place: behind}
default: {because: b, use: ['cpu:latency', 'vulkan:throughput']}
)");
  Rig profiles(settings, make_hardware(true));
  const auto receipt_of_one = [&] {
    Wire wire(profiles), receipt(profiles);
    wire.send(post(kChatPath, kHello));
    EXPECT_EQ(wire.answer().status, 200);
    receipt.send(get("/v1/route/receipts/" + wire.answer().field("x-request-id")));
    return json::parse(receipt.answer().body);
  };
  const json at_cpu = receipt_of_one();
  config::RequestSettings latency, throughput;
  latency.step_budget = std::chrono::milliseconds(20);
  latency.place = config::QueuePlace::ahead;
  throughput.place = config::QueuePlace::behind;
  EXPECT_EQ(profiles.cpu().started.at(0).settings, latency);
  EXPECT_EQ(at_cpu["attempts"][0]["profile"], "latency");
  EXPECT_EQ(at_cpu["attempts"][0]["settings"], "step budget 20ms, place ahead");
  profiles.fleet.acquire_errors["cpu"].push_back(
      {ErrorCode::insufficient_memory, "It does not fit.", {}, {}});
  const json at_vulkan = receipt_of_one();
  EXPECT_EQ(profiles.vulkan().started.at(0).settings, throughput);
  EXPECT_FALSE(at_vulkan["attempts"][0].contains("settings")) << "cpu was sent nothing";
  EXPECT_EQ(at_vulkan["attempts"][1]["settings"], "place behind");
}

// Nine requests of a night job fill the engine, and others begin beside them all the same.
TEST_F(Dispatch, EngineFullOfRequestsBehindHasAPlaceForOthers) {
  const auto settings = make_settings();
  settings->tree = tree_of(R"(profiles: {night: {because: b, place: behind}}
rules:
  - {id: night, because: b, when: {fact: request.prompt_bytes, gte: 500}, use: ['cpu:night']}
default: {because: b, use: [cpu]}
)");
  Rig nightly(settings, make_hardware(true));
  FakeBackend& engine = nightly.cpu();
  script(engine, Script{.tokens = 4, .manual = true});
  std::vector<std::unique_ptr<Wire>> wires;
  const auto send = [&](const std::string& text) {
    wires.push_back(std::make_unique<Wire>(nightly));
    wires.back()->send(post(kChatPath, R"({"messages":[{"role":"user","content":")" + text + R"("}]})"));
  };
  for (int i = 0; i < 9; ++i) send(std::string(600, 'a'));
  EXPECT_EQ(engine.started.size(), 8U) << "as many as it computes at once";
  for (int i = 0; i < 9; ++i) send("hi");
  EXPECT_EQ(engine.started.size(), 15U) << "one of those behind keeps its slot";
  EXPECT_EQ(engine.started.at(7).settings.place, config::QueuePlace::behind);
  EXPECT_EQ(engine.started.at(8).settings.place, config::QueuePlace::usual);
}

// The probe's facts are of the catalogue that the daemon started with; each policy has one of its own.
TEST_F(Dispatch, AnEngineOfItsOwnIsATargetBesideThatOfItsKind) {
  const auto nightly = make_settings();
  nightly->tree = tree_of(R"(profiles: {night: {because: b, place: behind, engine: own, nice: 10}}
rules:
  - {id: night, because: b, when: {fact: request.prompt_bytes, gte: 500}, use: ['cpu:night']}
default: {because: b, use: [cpu]}
)");
  Rig rigged(nightly, make_hardware());
  FakeBackend& own = rigged.fleet.backend("demo", "cpu:night");
  script(own, Script{.tokens = 4, .manual = true});
  const auto long_prompt =
      post(kChatPath, R"({"messages":[{"role":"user","content":")" + std::string(600, 'a') + R"("}]})");
  Wire waits(rigged), asks(rigged);
  waits.send(long_prompt);
  asks.send(post(kChatPath, kHello));
  EXPECT_EQ(asks.answer().status, 200);
  EXPECT_EQ(own.started.size(), 1U);
  EXPECT_EQ(own.started.at(0).settings.place, config::QueuePlace::behind);
  EXPECT_EQ(rigged.cpu().started.size(), 1U);

  const auto shared = make_settings();
  shared->tree = tree_of("default: {because: b, use: [cpu]}\n");
  rigged.service.reload(shared);
  Wire later(rigged);
  later.send(long_prompt);
  EXPECT_EQ(later.answer().status, 200) << "decided by the policy without such a profile";
  EXPECT_EQ(rigged.cpu().started.size(), 2U);
  own.emit(5);
  waits.run();
  EXPECT_EQ(waits.answer().status, 200) << "the request from before the reload goes on";

  const auto receipt_of = [&](Wire& of) {
    Wire receipt(rigged);
    receipt.send(get("/v1/route/receipts/" + of.answer().field("x-request-id")));
    return json::parse(receipt.answer().body);
  };
  const json by_own = receipt_of(waits), by_shared = receipt_of(later);
  EXPECT_EQ(by_own["target"]["backend"], "cpu:night");
  EXPECT_EQ(by_own["attempts"][0]["settings"], "place behind; engine of its own: nice 10");
  EXPECT_EQ(by_own["engines"][0]["backend"], "cpu:night");
  EXPECT_EQ(by_shared["target"]["backend"], "cpu");
}

// What an engine finds wrong with a request, or nobody ever computed, is not held against its app.
TEST_F(Dispatch, what_was_never_computed_costs_no_turn) {
  constexpr const char* kSmall = R"({"model":"small","messages":[{"role":"user","content":"hi"}]})";
  const std::string large =
      R"({"model":"small","messages":[{"role":"user","content":")" + std::string(50'000, 'x') + R"("}]})";
  FakeBackend& engine = rig.cpu("small");
  Script too_long;
  too_long.tokens = 4;
  too_long.fail_after = 0;
  too_long.error = {ErrorCode::context_length_exceeded, "Too long.", {}, {}};
  script(engine, too_long);
  for (int i = 0; i < 3; ++i) {
    Wire wire(rig);
    wire.send(post(kChatPath, large, "key-bobby"));
    EXPECT_EQ(wire.answer().status, 400);
  }
  script(engine, Script{.tokens = 4, .manual = true});
  std::vector<std::unique_ptr<Wire>> wires;
  const auto send = [&](const char* key) {
    wires.push_back(std::make_unique<Wire>(rig));
    wires.back()->send(post(kChatPath, kSmall, key));
    wires.back()->run();
  };
  for (int i = 0; i < 12; ++i) send("key-alice");
  send("key-bobby");
  EXPECT_EQ(engine.started.back().owner, "bob") << "he has had nothing computed";
}

// on_unavailable: queue. The request waits, and goes on when the engine is back.
TEST_F(Dispatch, a_rule_may_let_requests_wait_for_their_engine) {
  const auto settings = settings_with("{id: r, because: b, use: cpu, on_unavailable: queue}");
  Rig waiting(settings);
  waiting.cpu();
  waiting.fleet.disabled["cpu"] = {ErrorCode::model_unavailable, "It died 3 times.", {}, {}};
  Wire wire(waiting);
  wire.send(post(kChatPath, kHello));
  EXPECT_EQ(wire.received(), "");
  waiting.fleet.disabled.clear();
  for (int i = 0; i < 1000 && wire.received().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    wire.run();
  }
  EXPECT_EQ(wire.answer().status, 200);
}

// Its receipt said "parked" until its first token came, long after it had an engine to wait for.
TEST_F(Dispatch, a_parked_request_waits_again_once_its_engine_is_back) {
  const auto settings = settings_with("{id: r, because: b, use: cpu, on_unavailable: queue}");
  Rig parked(settings);
  parked.cpu();
  parked.fleet.hold_acquires = true;
  parked.fleet.disabled["cpu"] = {ErrorCode::model_unavailable, "It died 3 times.", {}, {}};
  const std::string before = parked.service.next_request_id();  // they count up
  char id[32];
  std::snprintf(id, sizeof id, "req-%016llx", std::stoull(before.substr(4), nullptr, 16) + 1);
  Wire wire(parked);
  wire.send(post(kChatPath, kHello));
  const auto state = [&] {
    Wire receipt(parked);
    receipt.send(get(std::string("/v1/route/receipts/") + id));
    return json::parse(receipt.answer().body)["state"].get<std::string>();
  };
  EXPECT_EQ(state(), "parked");
  parked.fleet.disabled.clear();
  for (int i = 0; i < 1000 && state() == "parked"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    wire.run();
  }
  EXPECT_EQ(state(), "waiting");
}

TEST_F(Dispatch, a_deadline_refuses_what_has_not_begun) {
  auto settings = make_settings();
  settings->apps[0].slo.deadline = std::chrono::milliseconds(100);
  Rig late(settings);
  late.cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
  Wire begun(late), waiting(late);
  begun.send(post(kChatPath, kHello));
  late.cpu().emit(1);
  waiting.send(post(kChatPath, kHello));
  for (int i = 0; i < 1000 && waiting.received().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    waiting.run();
  }
  EXPECT_EQ(waiting.answer().status, 503);
  EXPECT_EQ(json::parse(waiting.answer().body)["error"]["code"], "deadline_exceeded");
  late.cpu().emit(5);
  begun.run();
  EXPECT_EQ(begun.answer().status, 200);
}

// The same for those whose engine is not there yet: loading, or waited for because the rule says so.
TEST_F(Dispatch, AnEchoOfThePromptIsNoFirstToken) {
  auto settings = make_settings();
  settings->apps[0].slo.deadline = std::chrono::milliseconds(100);
  Rig late(settings);
  late.cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
  Wire wire(late);
  wire.send(post("/v1/completions", R"({"model":"demo","prompt":"hi","echo":true})"));
  late.cpu().emit(3);
  for (int i = 0; i < 1000 && wire.received().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    wire.run();
  }
  EXPECT_EQ(wire.answer().status, 503);
  EXPECT_EQ(json::parse(wire.answer().body)["error"]["code"], "deadline_exceeded");
}

TEST_F(Dispatch, a_deadline_holds_while_no_engine_is_there) {
  for (const bool loading : {true, false}) {
    const auto settings = settings_with("{id: r, because: b, use: cpu, on_unavailable: queue}");
    settings->apps[0].slo.deadline = std::chrono::milliseconds(100);
    Rig late(settings);
    late.cpu();
    late.fleet.hold_acquires = loading;
    if (!loading) late.fleet.disabled["cpu"] = {ErrorCode::model_unavailable, "It died 3 times.", {}, {}};
    Wire wire(late);
    wire.send(post(kChatPath, kHello));
    EXPECT_EQ(wire.received(), "");
    for (int i = 0; i < 1000 && wire.received().empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      wire.run();
    }
    EXPECT_EQ(wire.answer().status, 503);
    EXPECT_EQ(json::parse(wire.answer().body)["error"]["code"], "deadline_exceeded");
    EXPECT_EQ(late.service.in_flight(), 0U);
  }
}

// ---- admission: every answer takes a place ----------------------------------------------------------------

std::string wanting(const char* model, int n) {
  return R"({"model":")" + std::string(model) + R"(","messages":[{"role":"user","content":"x"}],"n":)" +
         std::to_string(n) + "}";
}

TEST_F(Dispatch, an_app_holds_as_many_answers_as_its_limit) {
  script(rig.cpu("small"), Script{.manual = true});
  const auto ask_bob = [&](Wire& wire, int n) {
    wire.send(post(kChatPath, wanting("small", n), "key-bobby"));
  };
  Wire never(rig), both(rig), more(rig);
  ask_bob(never, 3);  // bob's limit is 2: waiting would not help
  EXPECT_EQ(never.answer().status, 400);
  EXPECT_EQ(json::parse(never.answer().body)["error"]["param"], "n");
  ask_bob(both, 2);
  EXPECT_EQ(rig.cpu("small").live(), 2U);
  ask_bob(more, 1);
  EXPECT_EQ(more.answer().status, 429);
  both.hang_up();
  Wire again(rig);
  ask_bob(again, 2);
  EXPECT_EQ(rig.cpu("small").live(), 2U);
}

TEST_F(Dispatch, the_queue_holds_as_many_answers_as_its_limit) {
  rig.settings->config.max_queue = 3;
  rig.service.reload(rig.settings);
  script(rig.cpu(), Script{.manual = true});
  Wire two(rig), four(rig), one(rig), first(rig);
  two.send(post(kChatPath, wanting("demo", 2)));
  Wire refused(rig);
  refused.send(post(kChatPath, wanting("demo", 2)));
  EXPECT_EQ(refused.answer().status, 503);
  EXPECT_EQ(json::parse(refused.answer().body)["error"]["code"], "overloaded");
  one.send(post(kChatPath, wanting("demo", 1)));
  EXPECT_EQ(rig.cpu().live(), 3U);
  rig.cpu().emit(1);                               // they run, and wait no longer
  four.send(post(kChatPath, wanting("demo", 4)));  // more than the queue's length, into an empty one
  EXPECT_EQ(rig.cpu().live(), 7U);
  EXPECT_EQ(four.received(), "");
  four.hang_up();
  first.send(post(kChatPath, wanting("demo", 3)));
  EXPECT_EQ(rig.cpu().live(), 6U);
}

// ---- receipts ---------------------------------------------------------------------------------------------

// A driver's device name may be any bytes.
TEST_F(Dispatch, a_fact_that_is_no_utf8_spoils_no_receipt) {
  auto hardware = make_hardware();
  hardware.set("backend.vulkan.reason", std::string("no device \xff found"), "probe");
  Rig odd(settings_with("{id: r, because: b, use: [vulkan, cpu]}"), hardware);
  odd.vulkan();
  Wire explained(odd), asked(odd), receipt(odd);
  explained.send(post("/v1/route/explain", R"({"model":"demo"})"));
  EXPECT_EQ(explained.answer().status, 200);
  EXPECT_NE(explained.answer().body.find("no device \xEF\xBF\xBD found"), std::string::npos)
      << explained.answer().body;
  asked.send(post(kChatPath, kHello));
  receipt.send(get("/v1/route/receipts/" + asked.answer().field("x-request-id")));
  EXPECT_EQ(receipt.answer().status, 200);
}

TEST_F(Dispatch, explain_decides_without_running) {
  const json receipt = json::parse(
      ask(R"({"messages":[{"role":"user","content":"Hi"}],"facts":{"backend.cpu.available":false}})",
          "/v1/route/explain")
          .body);
  EXPECT_TRUE(rig.cpu().started.empty() && rig.vulkan().started.empty());
  EXPECT_EQ(receipt["state"], "explained");
  EXPECT_EQ(receipt["app"], "alice");
  Wire wire(rig);
  wire.send(post("/v1/route/explain", R"({"model":"demo"})"));
  EXPECT_EQ(wire.answer().field("x-flyball-route"), "backend=cpu; rule=everything; model=demo");
  EXPECT_EQ(ask(R"({"facts":{"no.such.fact":1}})", "/v1/route/explain").status, 400);
  EXPECT_EQ(ask(R"({"facts":{"request.n":"many"}})", "/v1/route/explain").status, 400);
  const Answer too_many =
      ask(R"({"facts":{"request.model":")" + std::string(64 * 1024, 'x') + "\"}}", "/v1/route/explain");
  EXPECT_EQ(too_many.status, 400);
  EXPECT_EQ(json::parse(too_many.body)["error"]["param"], "facts");
  const auto refusal = [&](const char* body) { return ask(body, "/v1/route/explain").body; };
  EXPECT_NE(refusal(R"({"facts":{"hardware.memory.presure":1}})").find("did you mean"), std::string::npos);
  EXPECT_NE(refusal(R"({"facts":{"hardware.memory.pressure":-1}})").find("is never negative, got -1"),
            std::string::npos);
}

// A made-up fact counts for all that follows from it: what the fleet says now is of another case.
TEST_F(Dispatch, what_follows_from_facts_follows_from_made_up_ones) {
  const auto settings = settings_with(
      "{id: tight, because: b, when: {all: [{fact: backend.vulkan.fits_now, eq: false}, "
      "{fact: hardware.memory.pressure, gte: 50}]}, use: cpu}");
  Rig other(settings, make_hardware(true));
  other.fleet.memory_status.pools = {{"machine", 1000, 0, 1000, 1, 0, {}}};
  other.fleet.memory_status.pressure = 1;
  const auto route_with = [&](const std::string& facts) {
    Wire wire(other);
    wire.send(post("/v1/route/explain", R"({"facts":{)" + facts + "}}"));
    return std::string(wire.answer().field("x-flyball-route"));
  };
  const std::string tight = "backend=cpu; rule=tight; model=demo";
  const std::string pressed = R"("hardware.memory.pressure":50,)";
  EXPECT_NE(route_with(R"("model.bytes":1001)"), tight);
  EXPECT_NE(route_with(pressed + R"("model.bytes":1000)"), tight);
  EXPECT_EQ(route_with(pressed + R"("model.bytes":1001)"), tight);
  EXPECT_EQ(route_with(pressed + R"("model.bytes":100,"backend.vulkan.memory_free":99)"), tight);
  EXPECT_NE(route_with(pressed + R"("model.bytes":1001,"backend.vulkan.fits_now":true)"), tight);
}

// What the probe found out at the start is that old when a decision is taken; the rest is of this moment.
TEST_F(Dispatch, receipts_tell_the_age_of_what_was_probed) {
  const auto settings = settings_with(
      "{id: r, because: b, when: {all: [{fact: backend.cpu.available, exists: true}, "
      "{fact: request.n, exists: true}]}, use: [cpu, vulkan]}");
  Rig older(settings);
  older.cpu();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Wire asked(older), read(older);
  asked.send(post(kChatPath, kHello));
  read.send(get("/v1/route/receipts/" + asked.answer().field("x-request-id")));
  const json facts = json::parse(read.answer().body)["facts"];
  ASSERT_EQ(facts.size(), 2U) << facts;
  EXPECT_EQ(facts[0]["source"], "probe");
  EXPECT_GE(facts[0]["age_ms"], 20);
  EXPECT_EQ(facts[1]["source"], "request");
  EXPECT_EQ(facts[1]["age_ms"], 0);
}

TEST_F(Dispatch, receipts_belong_to_their_app) {
  const std::string path = "/v1/route/receipts/" + ask(kHello).field("x-request-id");
  Wire alice(rig), bob(rig);
  alice.send(get(path));
  EXPECT_EQ(alice.answer().status, 200);
  const json receipt = json::parse(alice.answer().body);
  EXPECT_EQ(receipt["usage"]["completion_tokens"], 4);
  EXPECT_TRUE(receipt["timings"].contains("total_ms"));
  bob.send(get(path, "key-bobby"));
  EXPECT_EQ(bob.answer().status, 404);
}

// Both times of a receipt begin with the request's first byte, however late the rest of it comes.
TEST_F(Dispatch, a_receipts_times_begin_with_the_first_byte) {
  const std::string request = post(kChatPath, kHello);
  Wire asked(rig), read(rig);
  asked.send(request.substr(0, 10));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  asked.advance(std::chrono::milliseconds(20));  // the connection's clock too: it knows when the rest came
  asked.send(request.substr(10));
  read.send(get("/v1/route/receipts/" + asked.answer().field("x-request-id")));
  const json timings = json::parse(read.answer().body)["timings"];
  EXPECT_GE(timings["ttft_ms"], 20);
  EXPECT_GE(timings["total_ms"], timings["ttft_ms"]);
}

}  // namespace
}  // namespace flyball::testing
