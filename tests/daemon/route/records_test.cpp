// What is kept of decided requests: found again behind the ring and behind a restart, by its own app alone,
// small, bounded, and without a prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "daemon/route/kept_facts.hpp"
#include "daemon/route/records.hpp"
#include "daemon/route/slo.hpp"
#include "tests/daemon/api/wire.hpp"
#include "tests/daemon/store/support.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kPolicy = R"(constraints:
  stay: {because: private, when: {fact: app.privacy, eq: local_only}, deny: remote}
rules:
  - {id: busy, because: b, when: {fact: backend.cpu.running, gte: 8}, use: vulkan}
  - {id: small, because: b, when: {fact: request.prompt_bytes, lt: 100000}, use: [vllm, vulkan, cpu]}
default: {because: b, use: cpu}
)";

std::shared_ptr<settings::Settings> settings_by(const char* policy) {
  auto settings = make_settings();
  settings->tree = tree_of(policy);
  return settings;
}

class Records : public test::StoreDirectory {
 protected:
  // One life of the daemon over the file.
  struct Life {
    explicit Life(store::Database database, const char* policy = kPolicy)
        : writer(std::move(database)), rig(settings_by(policy), make_hardware(), &writer) {
      rig.cpu();
      rig.cpu("small");
    }
    Answer send(const std::string& bytes) {
      Wire wire(rig);
      wire.send(bytes);
      // What was looked up by the writer's thread arrives after that.
      while (wire.received().empty()) {
        writer.flush();
        wire.run();
      }
      return wire.answer();
    }
    std::string chat(std::string_view body = kHello) {
      return send(post("/v1/chat/completions", body)).field("x-request-id");
    }
    Answer receipt(const std::string& id, std::string_view key = "key-alice") {
      return send(get("/v1/route/receipts/" + id, key));
    }

    store::Writer writer;
    Rig rig;
  };

  std::int64_t number_of(store::Database& database, const char* sql) {
    std::int64_t out = -1;
    const auto read = database.query(sql, {}, [&](store::Row row) {
      out = store::integer(row[0]);
      return true;
    });
    EXPECT_TRUE(read) << read.error().message;
    return out;
  }
};

json without_router_time(const std::string& body) {
  json out = json::parse(body);
  out["timings"].erase(
      "router_us");  // known when the answer's first byte has left; the record is written before
  return out;
}

TEST_F(Records, a_past_request_is_found_after_a_restart) {
  std::string id, before;
  {
    Life first(open());
    id = first.chat(kHelloStream);
    before = first.receipt(id).body;
  }
  Life second(open(), "default: {because: another one by now, use: vulkan}\n");
  const Answer found = second.receipt(id);
  EXPECT_EQ(found.status, 200);
  EXPECT_EQ(without_router_time(found.body), without_router_time(before));
  const json receipt = json::parse(found.body);
  EXPECT_EQ(receipt["rule"]["id"], "small");
  EXPECT_EQ(receipt["target"]["backend"], "cpu");
  EXPECT_EQ(receipt["attempts"][0]["outcome"], "done");
  EXPECT_EQ(receipt["usage"]["completion_tokens"], 4);
  EXPECT_EQ(second.receipt(id, "key-bobby").status, 404) << "another app's";
  EXPECT_EQ(second.receipt("req-never").status, 404);
}

// The facts are kept, and not the pick: it is taken again, and said in the same bytes.
TEST_F(Records, PicksAreTakenAgainFromKeptPredictions) {
  auto tree = policy::parse_policy(R"(schema: flyball.policy/v1
rules:
  - {id: in_time, because: b, use: [vulkan, cpu], pick: meets_slo}
  - {id: fastest, because: b, use: [vulkan, "cpu:latency", opencl], pick: fastest}
default: {because: b, use: cpu}
)",
                                   "p.yaml");
  ASSERT_TRUE(tree) << tree.error().message;
  const auto shared = std::make_shared<const policy::Tree>(std::move(*tree));
  std::vector<std::string> before;
  const auto request = [&](int i) {
    route::Receipt out;
    out.request_id = "req-" + std::to_string(i);
    out.app = "alice";
    out.model = "m";
    out.state = route::RunState::Kind::done;
    out.created = 1'700'000'000;
    for (const char* backend : {"vulkan", "cpu", "opencl"}) {
      const std::string prefix = std::string("backend.") + backend + ".";
      const std::string source = "predicted: queue " + std::to_string(i) + " ms + prefill 40.1 ms";
      const std::int64_t us = 100'000 + (i * 37 + backend[0] * 11) % 50 * 1'000;
      out.facts.set(prefix + "available", true, "supervisor");
      out.facts.set(prefix + "loaded", (i + backend[0]) % 3 == 0, "supervisor");
      out.facts.set(prefix + "expected_total", us, source);
      out.facts.set(prefix + "expected_ttft", us / 4, source);
      out.facts.set(prefix + "meets_slo", us < 110'000, source);
    }
    out.keep = shared;
    out.decision = policy::decide(*shared, out.facts);
    before.push_back(policy::receipt(out.decision, out.facts).dump());
    return out;
  };
  {
    store::Writer writer(open());
    route::ReceiptStore receipts(&writer);
    for (int i = 0; i < 40; ++i) receipts.keep(request(i));
    writer.flush();
  }
  auto database = open(store::Database::Access::read_only);
  std::set<std::string> chosen;
  for (int i = 0; i < 40; ++i) {
    const auto found = route::find_record(database, "req-" + std::to_string(i), "alice");
    ASSERT_TRUE(found && *found) << i;
    EXPECT_EQ(policy::receipt((*found)->decision, (*found)->facts).dump(),
              before[static_cast<std::size_t>(i)]);
    chosen.insert((*found)->decision.rule->id + " " + to_string(*(*found)->decision.target));
  }
  EXPECT_GE(chosen.size(), 4U) << "the predictions decide";
}

// Its facts are read by the catalogue of the policy that decided.
TEST_F(Records, AnEngineOfItsOwnIsFoundWithItsFacts) {
  auto tree = policy::parse_policy(R"(schema: flyball.policy/v1
profiles: {night: {because: b, engine: own}}
default: {because: b, use: [cpu, "cpu:night"], pick: fastest}
)",
                                   "p.yaml");
  ASSERT_TRUE(tree) << tree.error().message;
  const auto shared = std::make_shared<const policy::Tree>(std::move(*tree));
  route::Receipt request;
  request.request_id = "req-own";
  request.app = "alice";
  request.model = "m";
  request.state = route::RunState::Kind::done;
  request.created = 1'700'000'000;
  request.facts = policy::Facts(shared->targets);
  for (const std::string backend : {"cpu", "cpu:night"}) {
    request.facts.set("backend." + backend + ".available", true, "supervisor");
    request.facts.set("backend." + backend + ".loaded", true, "supervisor");
    request.facts.set("backend." + backend + ".expected_total",
                      std::int64_t{backend == "cpu" ? 900'000 : 100'000}, "predicted: by requests");
  }
  request.keep = shared;
  request.decision = policy::decide(*shared, request.facts);
  ASSERT_EQ(to_string(*request.decision.target), "cpu:night");
  {
    store::Writer writer(open());
    route::ReceiptStore receipts(&writer);
    receipts.keep(request);
    writer.flush();
  }
  auto database = open(store::Database::Access::read_only);
  const auto found = route::find_record(database, "req-own", "alice");
  ASSERT_TRUE(found && *found) << (found ? "" : found.error().message);
  EXPECT_EQ(policy::receipt((*found)->decision, (*found)->facts).dump(),
            policy::receipt(request.decision, request.facts).dump());
  const auto kept = [&](const policy::Targets& targets) {
    std::string out;
    EXPECT_TRUE(route::each_record(
        database, 0,
        [&](const route::Record& one) {
          out = one.target + (one.facts.get("backend.cpu:night.loaded") != nullptr ? " with its facts" : "");
        },
        targets));
    return out;
  };
  EXPECT_EQ(kept(shared->targets), "cpu:night with its facts");
  EXPECT_EQ(kept(policy::default_targets()), "cpu:night") << "another policy has no such engine";
}

TEST_F(Records, ARequestThatAHardSloLetThroughIsFoundAsOne) {
  auto tree = policy::parse_policy("schema: flyball.policy/v1\ndefault: {because: b, use: cpu}\n", "p.yaml");
  ASSERT_TRUE(tree) << tree.error().message;
  const auto shared = std::make_shared<const policy::Tree>(std::move(*tree));
  route::Receipt receipt;
  receipt.request_id = "req-probe";
  receipt.app = "alice";
  receipt.model = "m";
  receipt.state = route::RunState::Kind::done;
  receipt.created = 1'700'000'000;
  receipt.facts.set("backend.cpu.available", true, "supervisor");
  route::set_let_through({"cpu", "as a probe, although it is slow"}, receipt.facts);
  receipt.keep = shared;
  receipt.decision = policy::decide(*shared, receipt.facts);
  {
    store::Writer writer(open());
    route::ReceiptStore receipts(&writer);
    receipts.keep(receipt);
    writer.flush();
  }
  auto database = open(store::Database::Access::read_only);
  const auto found = route::find_record(database, "req-probe", "alice");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ(route::to_json(**found).value("let_through", ""), "as a probe, although it is slow");
}

TEST_F(Records, PredictedFactsAreFoundAfterARestart) {
  std::string id, before;
  {
    Life first(open());
    for (int i = 0; i < 5; ++i)
      id = first.chat(kHelloStream);  // the first ones are what the last is predicted from
    before = first.receipt(id).body;
  }
  Life second(open());
  const std::string found = second.receipt(id).body;
  EXPECT_EQ(without_router_time(found), without_router_time(before));
  const json receipt = json::parse(found);
  std::string source;
  for (const json& target : receipt.at("targets"))
    for (const json& fact : target.value("known", json::array()))
      if (target["backend"] == "cpu" && fact["name"] == "expected_ttft") source = fact.value("source", "");
  EXPECT_TRUE(source.starts_with("predicted: queue 0 ms + load 0 ms + prefill ")) << receipt["targets"];
}

TEST_F(Records, a_request_that_left_the_ring_is_found) {
  Life life(open());
  const std::string first = life.chat();
  for (std::size_t i = 0; i < route::Receipts::kKept; ++i) life.chat();
  EXPECT_EQ(life.receipt(first).status, 200);
  Rig forgetful(settings_by(kPolicy));
  Wire wire(forgetful);
  wire.send(get("/v1/route/receipts/" + first));
  EXPECT_EQ(wire.answer().status, 404);
}

TEST_F(Records, failures_and_clients_that_left_are_kept_too) {
  std::string failed;
  {
    Life life(open());
    life.rig.fleet.disabled["cpu"] = {ErrorCode::model_unavailable, "It died 3 times.", {}, {}};
    failed = life.chat();
    life.rig.fleet.disabled.clear();
    life.rig.cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
    Wire leaving(life.rig);
    leaving.send(post("/v1/chat/completions", kHello));
    leaving.hang_up();
  }
  auto database = open(store::Database::Access::read_only);
  std::vector<route::Record> kept;
  ASSERT_TRUE(route::each_record(database, 0, [&](const route::Record& one) { kept.push_back(one); }));
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].request.request_id, failed);
  EXPECT_EQ(kept[0].request.state.text(), "model_unavailable");
  EXPECT_EQ(kept[0].target, "");
  EXPECT_EQ(kept[0].rule, "default");
  EXPECT_EQ(kept[1].request.state.text(), "cancelled");
  EXPECT_EQ(kept[1].target, "cpu");
  EXPECT_EQ(kept[1].request.attempts.at(0).outcome.text(), "cancelled");
  const auto counts = route::count_by_rule(database, 0);
  ASSERT_TRUE(counts);
  EXPECT_EQ(*counts, (policy::RuleCounts{{"default", 1}, {"small", 1}}));
  const auto later = route::count_by_rule(database, std::time(nullptr) + 3600);
  ASSERT_TRUE(later);
  EXPECT_TRUE(later->empty());
}

TEST_F(Records, a_record_is_small_and_holds_no_prompt) {
  constexpr int kRequests = 500;
  {
    Life life(open());
    for (int i = 0; i < kRequests; ++i)
      life.chat(R"({"model":"demo","messages":[{"role":"user","content":"Sesame )" +
                std::string(i % 90, 'x') + R"("}],"max_tokens":)" + std::to_string(1 + i % 50) + "}");
  }
  auto database = open();  // and closes it: what is in the log goes into the file
  EXPECT_EQ(number_of(database, "SELECT COUNT(*) FROM decisions"), kRequests);
  EXPECT_EQ(number_of(database, "SELECT COUNT(*) FROM decision_frames"), 1);
  EXPECT_EQ(number_of(database, "SELECT COUNT(*) FROM decision_policies"), 1);
  ASSERT_TRUE(database.run("PRAGMA wal_checkpoint(TRUNCATE)"));
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(file()));
  std::printf("%.0f bytes a record\n", static_cast<double>(bytes) / kRequests);
  EXPECT_LT(bytes, 896 * kRequests);  // the predictions of one engine are 380 of them
  std::stringstream all;
  all << std::ifstream(file(), std::ios::binary).rdbuf();
  EXPECT_EQ(all.str().find("Sesame"), std::string::npos);
  EXPECT_NE(all.str().find("request.prompt_bytes"), std::string::npos);
}

route::Receipt decided(const policy::Tree& tree, std::string id, std::int64_t created) {
  route::Receipt receipt;
  receipt.request_id = std::move(id);
  receipt.app = "alice";
  receipt.model = "demo";
  receipt.created = created;
  receipt.facts = make_hardware();
  receipt.facts.set("request.prompt_bytes", created, "request");
  receipt.decision = policy::decide(tree, receipt.facts);
  return receipt;
}

TEST_F(Records, old_ones_and_too_many_go) {
  const auto settings = settings_by(kPolicy);
  const auto other = settings_by("default: {because: b, use: cpu}\n");
  const std::int64_t now = std::time(nullptr), old = now - route::kMaxRecordAge;
  {
    store::Writer writer(open());
    route::ReceiptStore(&writer).keep(decided(*other->tree, "old", old - 1));
    route::ReceiptStore(&writer).keep(decided(*settings->tree, "first", old + 60));
    writer.flush();
    route::ReceiptStore receipts(&writer);
    receipts.keep(decided(*settings->tree, "now", now));  // the first after a start looks what may go
    writer.flush();
    EXPECT_EQ(writer.health().last_error, "");
    route::ReceiptStore(&writer).keep(decided(*settings->tree, "then", now));  // and knows "now" for the time
    writer.flush();
    EXPECT_EQ(writer.health().last_error, "");
  }
  auto database = open();
  EXPECT_FALSE(*route::find_record(database, "old", ""));
  EXPECT_TRUE(*route::find_record(database, "first", ""));
  EXPECT_TRUE(*route::find_record(database, "now", "alice"));
  EXPECT_FALSE(*route::find_record(database, "now", "bob"));
  EXPECT_EQ(number_of(database, "SELECT COUNT(*) FROM decision_policies"), 1) << "the old one's went with it";
  ASSERT_TRUE(database.run("UPDATE decisions SET id = ? WHERE request = 'now'", {route::kMaxRecords + 1}));
  {
    store::Writer writer(std::move(database));
    route::ReceiptStore(&writer).keep(decided(*settings->tree, "next", now));
  }
  auto later = open();
  EXPECT_FALSE(*route::find_record(later, "first", "")) << "more than kMaxRecords lie behind it";
  EXPECT_TRUE(*route::find_record(later, "now", ""));
}

// One request with a wrong clock must not take the past along; nor the next one, with a right one.
TEST_F(Records, a_clock_that_is_ahead_prunes_nothing) {
  const auto settings = settings_by(kPolicy);
  const std::int64_t now = std::time(nullptr);
  {
    store::Writer writer(open());
    route::ReceiptStore(&writer).keep(decided(*settings->tree, "past", now));
    route::ReceiptStore(&writer).keep(decided(*settings->tree, "ahead", now + 2 * route::kMaxRecordAge));
    route::ReceiptStore(&writer).keep(decided(*settings->tree, "right again", now + 1));
  }
  auto database = open();
  for (const char* id : {"past", "ahead", "right again"})
    EXPECT_TRUE(*route::find_record(database, id, "alice")) << id;
}

// More pairs of an app and a model than frames are kept of: those in use keep theirs.
TEST_F(Records, a_pair_in_use_keeps_its_frame) {
  const auto settings = settings_by(kPolicy);
  {
    store::Writer writer(open());
    route::ReceiptStore receipts(&writer);
    std::int64_t n = 1;  // a fact of each record, so that no two frames are the same
    for (int round = 0; round < 3; ++round)
      for (int app = 0; app < 1000; ++app) {
        for (const std::string& name : {std::string("busy"), "app" + std::to_string(app)}) {
          auto one = decided(*settings->tree, "r" + std::to_string(n), n);
          ++n;
          one.app = name;
          receipts.keep(one);
        }
        if (app % 100 == 0) writer.flush();  // its queue is bounded
      }
  }
  auto database = open();
  EXPECT_EQ(number_of(database, "SELECT COUNT(DISTINCT frame) FROM decisions WHERE app = 'busy'"), 1);
}

// Another program holds the file's write lock for longer than the writer waits: a look is answered all the
// same.
TEST_F(Records, a_receipt_is_found_while_nothing_can_be_written) {
  std::string id;
  {
    Life first(open());
    id = first.chat();
  }
  Life second(open());
  auto other = open();
  ASSERT_TRUE(other.run("BEGIN IMMEDIATE"));
  second.writer.post([](store::Database& database) { return test::note(database, "a", "1"); });
  Wire wire(second.rig);
  wire.send(get("/v1/route/receipts/" + id));
  second.writer.flush();
  wire.run();
  ASSERT_FALSE(wire.received().empty()) << "it is never answered";
  EXPECT_EQ(wire.answer().status, 200);
  EXPECT_EQ(second.writer.health().failed, 1U);
}

// The record says what was decided. A replay that says otherwise is no explanation of it.
TEST_F(Records, a_policy_that_is_read_in_another_way_is_an_error) {
  const auto settings = settings_by(kPolicy);
  store::Writer writer(open());
  route::ReceiptStore(&writer).keep(decided(*settings->tree, "req-1", 5));
  for (const char* changed : {"no policy", "schema: flyball.policy/v1\ndefault: {because: b, use: cpu}\n"}) {
    writer.post([changed](store::Database& database) {
      return database.run("UPDATE decision_policies SET text = ?", {changed});
    });
    writer.post([](store::Database& database) -> Result<void> {
      const auto found = route::find_record(database, "req-1", "alice");
      EXPECT_FALSE(found);
      EXPECT_EQ(found.error().code, ErrorCode::receipt_outdated);
      EXPECT_THAT(found.error().message, HasSubstr("Rule small of policy.yaml decided it (cpu)"));
      return {};
    });
  }
  writer.post([](store::Database& database) -> Result<void> {
    EXPECT_TRUE(database.run("UPDATE decision_frames SET facts = '['"));
    EXPECT_FALSE(route::find_record(database, "req-1", "alice"));
    const auto read = route::each_record(database, 0, [](const route::Record&) {});
    EXPECT_FALSE(read);
    EXPECT_THAT(read.error().message, HasSubstr("req-1"));
    return {};
  });
  writer.flush();
  EXPECT_EQ(writer.health().last_error, "");
}

// Records outlive the version that wrote them: their words are read as they stand, and told again as they
// stand.
TEST_F(Records, states_of_other_versions_are_read_as_they_stand) {
  const auto settings = settings_by(kPolicy);
  route::Receipt receipt = decided(*settings->tree, "req-1", 5);
  receipt.state = route::RunState::failed(ErrorCode::worker_died);
  receipt.attempts = {{"vulkan", route::RunState::failed(ErrorCode::device_lost)},
                      {"cpu", route::RunState::Kind::cancelled, 1, 7, {"device 0"}}};
  {
    store::Writer writer(open());
    route::ReceiptStore(&writer).keep(receipt);
  }
  auto database = open();
  const auto kept = [&] {
    std::pair<std::string, std::string> out;
    EXPECT_TRUE(database.query("SELECT state, attempts FROM decisions", {}, [&](store::Row row) {
      out = {store::text(row[0]), store::text(row[1])};
      return true;
    }));
    return out;
  };
  EXPECT_EQ(kept().first, "worker_died");
  EXPECT_EQ(kept().second, R"([["vulkan","device_lost",0,0,[]],["cpu","cancelled",1,7,["device 0"]]])");
  for (const char* state : {"waiting", "parked", "running", "explained", "done", "cancelled", "overloaded",
                            "unsupported_schema", "hibernating"}) {
    ASSERT_TRUE(database.run("UPDATE decisions SET state = ?, attempts = ?",
                             {std::string(state), R"([["cpu",")" + std::string(state) + R"(",0,0,[]]])"}));
    const auto found = route::find_record(database, "req-1", "alice");
    ASSERT_TRUE(found && *found) << state;
    const json shown = route::to_json(**found);
    EXPECT_EQ(shown["state"], state);
    EXPECT_EQ(shown["attempts"][0]["outcome"], state);
  }
}

TEST_F(Records, TheKeptPrefixesOfItsAppAreKept) {
  const auto settings = settings_by(kPolicy);
  route::Receipt receipt = decided(*settings->tree, "req-1", 5);
  receipt.kept_prefixes = {{.app = "alice",
                            .name = "rules",
                            .model = "demo",
                            .backend = "cpu",
                            .state = route::KeptState::partly_kept,
                            .tokens = 64,
                            .tokens_in_memory = 16,
                            .tokens_on_disk = 32,
                            .uses = 3,
                            .saved_tokens = 150,
                            .saved_ms = 12.5},
                           {.app = "alice",
                            .name = "manual",
                            .model = "demo",
                            .backend = "cpu",
                            .state = route::KeptState::failed,
                            .why = "It is \xff too long.",
                            .cause = "The operator alone reads this."}};
  receipt.kept_prefix = "rules";
  receipt.kept_prefix_tokens = 48;
  {
    store::Writer writer(open());
    route::ReceiptStore(&writer).keep(receipt);
  }
  auto database = open();
  const auto found = route::find_record(database, "req-1", "alice");
  ASSERT_TRUE(found && *found);
  const json shown = route::to_json(**found), told = route::to_json(receipt);
  ASSERT_EQ(shown["kept_prefixes"].size(), 2U);
  EXPECT_EQ(shown["kept_prefixes"][0], told["kept_prefixes"][0]);
  EXPECT_EQ(shown["kept_prefixes"][1]["state"], "failed");
  EXPECT_EQ(shown["kept_prefixes"][1]["reason"], "It is \uFFFD too long.");
  EXPECT_FALSE(shown.dump().contains("operator")) << "an app reads its receipts";
  EXPECT_EQ(shown["kept_prefix"], told["kept_prefix"]);
  ASSERT_TRUE(
      database.run("UPDATE decisions SET kept_prefixes = ?", {std::string(R"({"prefixes":[7,{}]})")}));
  const auto damaged = route::find_record(database, "req-1", "alice");
  ASSERT_TRUE(damaged && *damaged);
  EXPECT_FALSE(route::to_json(**damaged).contains("kept_prefixes"));
}

TEST_F(Records, RedecisionsTheBackgroundLoadIgnoredFieldsAndTheSettingsOfAProfileAreKept) {
  const auto settings = settings_by(kPolicy);
  route::Receipt receipt = decided(*settings->tree, "req-1", 5);
  receipt.redecisions = {{120.5, "cpu", "vulkan:latency", "it passed the SLO"}};
  receipt.background_load = "vulkan: loading in the background, would have met the SLO";
  receipt.ignored_fields = {"tempreature", "tools[0].\xff", "and 3 more"};
  receipt.tools_in_system_message = true;
  receipt.attempts = {{"cpu", route::RunState::Kind::moved},
                      {.backend = "vulkan",
                       .outcome = route::RunState::Kind::done,
                       .profile = "latency",
                       .settings = "step budget 20ms, place ahead"},
                      {.backend = "cpu", .outcome = route::RunState::Kind::done, .profile = "throughput"}};
  receipt.engines = {{"cpu", "/models/a.gguf", "0123", "Q8_0", "f16", 4096, "a processor", "flyball 1"},
                     {"vulkan", "/models/a.gguf", "0123", "Q8_0", "q8_0", 2048, "a \xff card", "its driver"}};
  {
    store::Writer writer(open());
    route::ReceiptStore(&writer).keep(receipt);
  }
  auto database = open();
  const auto found = route::find_record(database, "req-1", "alice");
  ASSERT_TRUE(found && *found);
  const json shown = route::to_json(**found), told = route::to_json(receipt);
  EXPECT_EQ(shown["attempts"], told["attempts"]);
  EXPECT_EQ(shown["redecisions"], told["redecisions"]);
  EXPECT_EQ(shown.value("background_load", ""), receipt.background_load);
  EXPECT_EQ(shown["ignored_fields"], json({"tempreature", "tools[0].\uFFFD", "and 3 more"}));
  EXPECT_EQ(shown.value("tools_in_system_message", false), true);
  EXPECT_EQ(shown["engines"][0], told["engines"][0]);
  EXPECT_EQ(shown["engines"][1]["device"], "a \uFFFD card");
  EXPECT_EQ(shown["engines"][1]["context"], 2048);
  EXPECT_EQ(shown["engines"].size(), 2U);
  EXPECT_EQ(shown["attempts"][0]["outcome"], "moved");
  EXPECT_EQ(shown["attempts"][1]["settings"], "step budget 20ms, place ahead");
  EXPECT_FALSE(shown["attempts"][2].contains("settings"));
  ASSERT_TRUE(
      database.run("UPDATE decisions SET redecisions = '[7, [1, 2, 3, 4], [1]]', "
                   "ignored_fields = '[7, \"x\", {}]'"));
  const auto damaged = route::find_record(database, "req-1", "alice");
  ASSERT_TRUE(damaged && *damaged);
  EXPECT_TRUE((*damaged)->redecisions.empty());
  EXPECT_EQ((*damaged)->ignored_fields, std::vector<std::string>{"x"});
  ASSERT_TRUE(database.run(
      R"(UPDATE decision_engines SET engines = '[7, ["cpu"], ["cpu","","","","","x","",""], ["cpu","","","Q8_0","",1,"",""]]')"));
  const auto repaired = route::find_record(database, "req-1", "alice");
  ASSERT_TRUE(repaired && *repaired);
  ASSERT_EQ((*repaired)->engines.size(), 1U);
  EXPECT_EQ((*repaired)->engines[0].quantization, "Q8_0");
}

TEST_F(Records, TheConstraintOfAnAnswerIsKept) {
  const auto settings = settings_by(kPolicy);
  route::Receipt with = decided(*settings->tree, "req-1", 5), without = decided(*settings->tree, "req-2", 6);
  with.constraint = {
      .kind = "json_schema", .digest = "0123", .compile_us = 812, .engine_compile_us = 700, .mask_us = 3'400};
  {
    store::Writer writer(open());
    route::ReceiptStore store(&writer);
    store.keep(with);
    store.keep(without);
  }
  auto database = open();
  const auto kept = [&](const char* id) {
    const auto found = route::find_record(database, id, "alice");
    EXPECT_TRUE(found && *found) << id;
    return found && *found ? route::to_json(**found) : json();
  };
  EXPECT_EQ(kept("req-1")["constraint"], json({{"kind", "json_schema"},
                                               {"digest", "0123"},
                                               {"compile_us", 812},
                                               {"engine_compile_us", 700},
                                               {"mask_us", 3'400}}));
  EXPECT_FALSE(kept("req-2").contains("constraint"));
  for (const char* damaged : {"[1]", "7", "{\"kind\":1}", "nonsense"}) {
    ASSERT_TRUE(database.run("UPDATE decisions SET answer_constraint = ?", {std::string(damaged)}));
    EXPECT_FALSE(kept("req-1").contains("constraint")) << damaged;
  }
}

TEST_F(Records, EnginesAreKeptOnceAndGoWithTheLastRecordOfThem) {
  const auto settings = settings_by(kPolicy);
  const std::int64_t now = std::time(nullptr);
  const auto keep = [&](const char* id, std::int64_t at, const char* digest) {
    store::Writer writer(open());
    route::Receipt receipt = decided(*settings->tree, id, at);
    receipt.engines = {{"cpu", "/models/a.gguf", digest, "Q8_0", "f16", 4096, "a processor", "flyball 1"}};
    route::ReceiptStore(&writer).keep(receipt);  // the first one of a store prunes
  };
  keep("old", now - route::kMaxRecordAge - 10, "0123");
  keep("new", now, "4567");
  keep("newer", now, "4567");
  auto database = open();
  EXPECT_EQ(number_of(database, "SELECT COUNT(*) FROM decision_engines"), 1)
      << "the old record is gone, and its engine";
  const auto found = route::find_record(database, "newer", "alice");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->engines.at(0).digest, "4567");
}

// The message of a refusal follows from the facts.
TEST_F(Records, ARefusalByAHardSloIsToldAgain) {
  const auto settings = settings_by(kPolicy);
  route::Receipt receipt = decided(*settings->tree, "req-1", 5);
  receipt.facts.set("app.slo.ttft", std::int64_t{500}, "manifest");
  for (const char* id : {"cpu", "vulkan"}) {
    receipt.facts.set(std::string("backend.") + id + ".meets_slo", false, "predicted");
    receipt.facts.set(std::string("backend.") + id + ".expected_ttft", std::int64_t{840'000}, "predicted: p");
  }
  receipt.refused = route::slo_refusal(receipt.decision, receipt.facts);
  ASSERT_TRUE(receipt.refused);
  receipt.state = route::RunState::failed(receipt.refused->code);
  {
    store::Writer writer(open());
    route::ReceiptStore(&writer).keep(receipt);
  }
  auto database = open();
  const auto found = route::find_record(database, "req-1", "alice");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ(route::to_json(**found)["refused"], route::to_json(receipt)["refused"]);
}

TEST(RunState, IsReadAsItIsWritten) {
  using route::RunState;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(ErrorCode::internal); ++i) {
    const RunState failed = RunState::failed(static_cast<ErrorCode>(i));
    EXPECT_EQ(failed.text(), to_string(static_cast<ErrorCode>(i)));
    EXPECT_EQ(RunState::read(failed.text()).kind(), failed.kind()) << failed.text();
    EXPECT_FALSE(failed.open());
  }
  EXPECT_EQ(RunState::failed(ErrorCode::cancelled).kind(), RunState::Kind::cancelled);
  for (const auto kind : {RunState::Kind::waiting, RunState::Kind::parked, RunState::Kind::running}) {
    EXPECT_TRUE(RunState(kind).open());
    EXPECT_EQ(RunState::read(RunState(kind).text()).kind(), kind);
  }
  EXPECT_FALSE(RunState(RunState::Kind::done).open());
  EXPECT_EQ(RunState::read("").kind(), RunState::Kind::foreign);
  EXPECT_FALSE(RunState::read("hibernating").open());
}

TEST_F(Records, facts_that_always_differ_do_not_make_a_frame_each) {
  const auto settings = settings_by(kPolicy);
  {
    store::Writer writer(open());
    route::ReceiptStore receipts(&writer);
    for (int i = 0; i < 80; ++i) {
      route::Receipt receipt = decided(*settings->tree, "req-" + std::to_string(i), 5);
      receipt.facts.set("hardware.gpu.name", std::string(1000, static_cast<char>('a' + i % 20)), "probe");
      receipts.keep(receipt);
    }
  }
  auto database = open();
  EXPECT_EQ(number_of(database, "SELECT COUNT(*) FROM decisions"), 80);
  EXPECT_LE(number_of(database, "SELECT COUNT(*) FROM decision_frames"), 10);
  int read = 0;
  EXPECT_TRUE(route::each_record(database, 0, [&](const route::Record& record) {
    const auto* name = record.facts.get("hardware.gpu.name");
    ASSERT_NE(name, nullptr);
    EXPECT_EQ(std::get<std::string>(name->value)[0], 'a' + read++ % 20);
  }));
  EXPECT_EQ(read, 80);
}

// ---- facts as text ----------------------------------------------------------------------------------------

TEST(KeptFacts, come_back_as_they_were) {
  policy::Facts frame = make_hardware();
  frame.set("hardware.cpu.bandwidth", 41.25, "probe");
  frame.set("model.bytes", std::int64_t{1} << 40, "model file");
  frame.set("workload.modalities", std::vector<std::string>{"text", "image"}, "manifest");
  frame.set("app.id", std::string("alice"), "manifest");
  frame.set_age("probe", std::chrono::milliseconds(70));
  policy::Facts facts = frame;
  facts.forget(*policy::find_fact("model.bytes"));
  facts.set("app.id", std::string("bob \xF0\x9F\x8E\x88"), "manifest");
  facts.set("workload.modalities", std::vector<std::string>{}, "default");
  facts.set_age("probe", std::chrono::milliseconds(1234));
  facts.set("backend.cpu.running", std::int64_t{3}, "probe", std::chrono::milliseconds(5));
  facts.set_derived(*policy::find_fact("engines.fastest"), std::string("cpu"),
                    {*policy::find_fact("app.id"), *policy::find_fact("backend.cpu.running")});
  const std::string whole = route::write_facts(frame, {}), delta = route::write_facts(facts, frame);
  EXPECT_LT(delta.size(), route::write_facts(facts, {}).size());
  EXPECT_THAT(delta, ::testing::Not(HasSubstr("bandwidth"))) << "it is the frame's";
  policy::Facts back;
  ASSERT_TRUE(route::read_facts(whole, back));
  const auto same = [](const policy::Facts& a, const policy::Facts& b) {
    for (std::size_t i = 0; i < policy::default_targets()->facts().size(); ++i) {
      const auto id = static_cast<policy::FactId>(i);
      const policy::Fact *x = a.get(id), *y = b.get(id);
      EXPECT_EQ(x == nullptr, y == nullptr) << policy::default_targets()->facts()[i].name;
      if (x && y) {
        EXPECT_TRUE(x->value == y->value && x->source == y->source && x->age == y->age && x->from == y->from)
            << policy::default_targets()->facts()[i].name;
      }
    }
  };
  same(back, frame);
  ASSERT_TRUE(route::read_facts(delta, back));
  same(back, facts);
}

// Measurements of different days grow old together: a record need not say of each how old it is.
TEST(KeptFacts, what_only_grew_older_takes_no_room) {
  const auto measured = [](std::int64_t later) {
    policy::Facts facts;
    for (const char* name :
         {"backend.cpu.decode_tps", "backend.cpu.prefill_tps", "backend.vulkan.decode_tps"})
      facts.set(name, 10.0, "measured", std::chrono::milliseconds(later + 1000 * std::string(name).size()));
    return facts;
  };
  policy::Facts back = measured(0);
  const std::string delta = route::write_facts(measured(5000), back);
  EXPECT_EQ(delta, R"({"ages":{"measured":27000}})");
  ASSERT_TRUE(route::read_facts(delta, back));
  EXPECT_EQ(back.get("backend.vulkan.decode_tps")->age.count(), 30000);
}

TEST(KeptFacts, FactsOfProfilesComeBackWithTheirDecisionAlone) {
  policy::Facts frame, facts;
  const auto ttft = *policy::find_fact("backend.cpu.expected_ttft");
  const auto meets = *policy::find_fact("backend.cpu.meets_slo");
  facts.set(ttft, std::int64_t{900}, "predicted: usual");
  facts.set(meets, true, "predicted");
  facts.set_of_profile("latency", ttft, policy::FactValue(std::int64_t{300}), "predicted: ahead");
  facts.set_of_profile("latency", meets, std::nullopt, "");
  const std::string text = route::write_facts(facts, frame);
  const std::string later = route::write_facts(frame, facts);
  ASSERT_TRUE(route::read_facts(text, frame));
  ASSERT_NE(frame.get(ttft, "latency"), nullptr);
  EXPECT_EQ(frame.get(ttft, "latency")->value, policy::FactValue(std::int64_t{300}));
  EXPECT_EQ(frame.get(ttft, "latency")->source, "predicted: ahead");
  EXPECT_EQ(frame.get(ttft, "night")->value, policy::FactValue(std::int64_t{900}));
  EXPECT_EQ(frame.get(meets, "latency"), nullptr) << "unknown with this profile";
  EXPECT_NE(frame.get(meets), nullptr);
  ASSERT_TRUE(route::read_facts(later, frame));
  EXPECT_TRUE(frame.of_profiles().empty());
  EXPECT_TRUE(route::read_facts(
      R"({"profiles":{"p":{"no.such":[1,"s"],"model.moe":[1,"s"],"model.bytes":7}}})", frame));
  EXPECT_TRUE(frame.of_profiles().empty());
}

TEST(KeptFacts, UpstreamsFactsComeBackWhereTheyAreConfigured) {
  const policy::Targets racks = policy::TargetCatalogue::make({{"rack1", "vllm"}, {"rack2", "vllm"}}).value();
  policy::Facts facts(racks);
  facts.set("backend.rack2.available", true, "probe");
  facts.set("backend.rack2.queue_waiting", std::int64_t{3}, "probe");
  derive(facts);
  const std::string text = route::write_facts(facts, policy::Facts(racks));
  policy::Facts back(racks), elsewhere;
  ASSERT_TRUE(route::read_facts(text, back));
  EXPECT_EQ(back.get("backend.rack2.queue_waiting")->value, policy::FactValue(std::int64_t{3}));
  ASSERT_NE(back.get("backend.vllm.queue_waiting"), nullptr);
  EXPECT_EQ(back.get("backend.vllm.queue_waiting")->from, facts.get("backend.vllm.queue_waiting")->from);
  ASSERT_TRUE(route::read_facts(text, elsewhere)) << "another configuration reads what it knows";
  EXPECT_EQ(elsewhere.get("backend.vllm.available")->value, policy::FactValue(true));
}

TEST(KeptFacts, what_this_version_does_not_know_stays_unknown) {
  policy::Facts facts;
  EXPECT_TRUE(route::read_facts(
      R"({"facts":{"probe":{"no.such.fact":1,"model.bytes":"many","model.moe":true}},"unknown":["x",3],"ages":{"probe":"old"}})",
      facts));
  EXPECT_EQ(facts.get("model.bytes"), nullptr);
  ASSERT_NE(facts.get("model.moe"), nullptr);
  EXPECT_EQ(facts.get("model.moe")->age.count(), 0);
  for (const char* text : {"", "[", "[]", "null", "3"}) EXPECT_FALSE(route::read_facts(text, facts)) << text;
}

}  // namespace
}  // namespace flyball::testing
