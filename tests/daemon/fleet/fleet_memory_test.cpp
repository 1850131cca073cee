// The fleet under a limit of memory, over real worker processes: who loads, who waits, who ends.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/fleet/fleet.hpp"
#include "daemon/fleet/fleet_memory.hpp"
#include "tests/backends/worker/loop.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::fleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::RecordingSink;

struct FleetMemoryTest : ::testing::Test {
  boost::asio::io_context io;
  config::Config config;
  std::unique_ptr<Fleet> fleet;
  test::TempDir dir;
  MachineMemory machine{1000, 1000};
  std::optional<std::uint64_t> touched;  // of every engine
  double margin = 0;
  config::OwnEngines own;
  std::vector<LoadReport> reports;

  void SetUp() override {
    config.worker.heartbeat = milliseconds(50);
    config.worker.backoff_min = milliseconds(50);
    config.memory.reserve = 0;
    config.memory.limit = 100;
    config.memory.turn = milliseconds(100);
  }
  // Every load of the model writes a line.
  config::ModelEntry& model(const std::string& id, const std::string& script) {
    config::ModelEntry entry;
    entry.id = id;
    entry.path = "log=" + (dir.path() / id).string() + "," + script;
    return config.models.emplace_back(entry);
  }
  int loads(const std::string& id) const {
    std::ifstream in(dir.path() / id);
    int n = 0;
    for (std::string line; std::getline(in, line);) ++n;
    return n;
  }
  void make() {
    FleetOptions options;
    options.executable = FAKE_ENGINE;
    options.machine_memory = [this] { return machine; };
    options.touched_memory = [this](int) { return touched; };
    options.margin = [this](const std::string& backend) { return backend == "cpu" ? margin : 0; };
    options.on_loaded = [this](const LoadReport& report) { reports.push_back(report); };
    options.own_engines = own;
    fleet = make_worker_fleet(io, config, std::move(options));
  }
  bool until(const std::function<bool()>& done, milliseconds limit = seconds(60)) {
    return test::run_until(io, done, limit);
  }
  Result<Backend*> acquire(const std::string& id, const Asker& asker = {}) {
    return acquire_on(id, "cpu", asker);
  }
  Result<Backend*> acquire_on(const std::string& id, const std::string& backend, const Asker& asker = {}) {
    std::optional<Result<Backend*>> got;
    fleet->acquire(
        id, backend, [&](Result<Backend*> r) { got = std::move(r); }, asker);
    EXPECT_TRUE(until([&] { return got.has_value(); }));
    return got ? *got : fail(ErrorCode::internal, "no answer");
  }
  WorkerStatus status_of(const std::string& id) const {
    for (const WorkerStatus& s : fleet->status())
      if (s.model == id) return s;
    return {};
  }
  std::uint64_t accounted() const { return fleet->memory().pools.at(0).accounted; }
};

TEST_F(FleetMemoryTest, AHundredRequestsForAColdModelLoadItOnceAndOneAccountIsOpened) {
  model("a", "need=60,need_kv=2,load_ms=50");
  make();
  int answered = 0;
  for (int i = 0; i < 100; ++i)
    fleet->acquire("a", "cpu", [&](Result<Backend*> r) {
      EXPECT_TRUE(r);
      ++answered;
    });
  ASSERT_TRUE(until([&] { return answered == 100; }));
  EXPECT_EQ(loads("a"), 1);
  EXPECT_EQ(fleet->memory().loads, 1U);
  EXPECT_EQ(status_of("a").account_bytes,
            60U + 10);  // of 16 bytes for all sequences a quarter of what is left
  EXPECT_EQ(status_of("a").info.kv_bytes, 10U);
  EXPECT_EQ(accounted(), 70U);
  EXPECT_EQ(fleet->memory().pools[0].capacity, 100U);
}

TEST_F(FleetMemoryTest, AnIdleEngineEndsForAnother) {
  model("a", "need=60");
  model("b", "need=60");
  make();
  ASSERT_TRUE(acquire("a"));
  ASSERT_TRUE(acquire("b"));
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
  EXPECT_EQ(accounted(), 60U);
  EXPECT_EQ(fleet->memory().evictions, 1U);
}

TEST_F(FleetMemoryTest, ALoadIsReportedAsPredictedAndAsItIs) {
  model("a", "need=60,need_kv=2,holds=66,load_ms=50");
  margin = 0.25;
  make();
  ASSERT_TRUE(acquire("a"));
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].model, "a");
  EXPECT_EQ(reports[0].backend, "cpu");
  EXPECT_EQ(reports[0].actual_bytes, accounted());
  EXPECT_EQ(reports[0].actual_bytes - reports[0].predicted_bytes, 6U) << "the margin is no prediction";
  EXPECT_GE(reports[0].took.count(), 50);
}

TEST_F(FleetMemoryTest, AMarginIsAskedForAndGivenBackWhenTheEngineIsReady) {
  model("a", "need=40");
  model("b", "need=40");
  model("c", "need=15");
  margin = 0.25;
  make();
  ASSERT_TRUE(acquire("a"));
  ASSERT_TRUE(acquire("b"));
  EXPECT_EQ(accounted(), 80U);
  EXPECT_EQ(fleet->memory().evictions, 0U) << "40 and 50 of 100";
  ASSERT_TRUE(acquire("c"));
  EXPECT_EQ(accounted(), 95U) << "80 and 18 of 100";
  margin = 0.5;
  model("d", "need=5");
  fleet->reload(config, {});
  ASSERT_TRUE(acquire("d"));
  EXPECT_EQ(fleet->memory().evictions, 1U) << "5 are there, 7 are asked for";
}

TEST_F(FleetMemoryTest, AMarginAloneMakesNoModelTooLarge) {
  model("a", "need=98");
  margin = 0.25;
  make();
  ASSERT_TRUE(acquire("a"));
  EXPECT_EQ(accounted(), 98U);
}

// Beside the engines, while nothing is asked.
TEST_F(FleetMemoryTest, WhatIsFreeIsLentUntilSomebodyAsks) {
  model("a", "need=30");
  model("b", "need=60,need_kv=0");
  make();
  ASSERT_TRUE(acquire("a"));
  std::string why;
  const auto lend = [&](std::uint64_t bytes) {
    return fleet->lend(config.models[1], "cpu", {bytes, 0, 0, 0}, [&](const std::string& w) { why = w; });
  };
  const auto refused = lend(71);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().why.code, ErrorCode::insufficient_memory);
  EXPECT_FALSE(refused.error().for_good);
  EXPECT_TRUE(lend(101).error().for_good);
  EXPECT_EQ(accounted(), 30U);
  auto loan = lend(60);
  ASSERT_TRUE(loan) << loan.error().why.message;
  EXPECT_EQ(accounted(), 90U);
  (*loan)->holds(65);
  EXPECT_EQ(accounted(), 95U) << "as it is, once it is loaded";
  std::optional<Result<Backend*>> got;
  fleet->acquire("b", "cpu", [&](Result<Backend*> r) { got = std::move(r); }, {});
  ASSERT_TRUE(until([&] { return !why.empty(); }));
  EXPECT_EQ(why, "others ask for memory");
  EXPECT_EQ(accounted(), 95U) << "it is not gone yet";
  loan->reset();
  ASSERT_TRUE(until([&] { return got.has_value(); }));
  EXPECT_TRUE(*got);
  EXPECT_EQ(accounted(), 90U);
  EXPECT_EQ(fleet->memory().evictions, 0U);
  EXPECT_EQ(status_of("a").state, WorkerState::ready);
}

// The ledger learns of its load as of an engine's.
TEST_F(FleetMemoryTest, WhatWasLentIsReportedOnceItIsLoaded) {
  model("a", "need=30");
  margin = 0.1;
  make();
  auto loan = fleet->lend(config.models[0], "cpu", {50, 0, 20, 5}, [](const std::string&) {});
  ASSERT_TRUE(loan);
  EXPECT_EQ((*loan)->kv_bytes(), 11U) << "a quarter of what weights and margin leave";
  EXPECT_EQ(accounted(), 66U);
  EXPECT_TRUE(reports.empty());
  (*loan)->holds(63);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].model, "a");
  EXPECT_EQ(reports[0].backend, "cpu");
  EXPECT_EQ(reports[0].predicted_bytes, 61U) << "without the margin";
  EXPECT_EQ(reports[0].actual_bytes, 63U);
  EXPECT_GE(reports[0].took.count(), 0);
}

TEST_F(FleetMemoryTest, AnEngineCouldHaveAllButWhatIsPinned) {
  model("pinned", "need=40,need_kv=0").pin = true;
  model("idle", "need=30,need_kv=0");
  make();
  ASSERT_TRUE(acquire("idle"));
  EXPECT_EQ(fleet->memory().pools.at(0).most_for_one, 100U);
  ASSERT_TRUE(acquire("pinned"));
  EXPECT_EQ(fleet->memory().pools.at(0).most_for_one, 60U);
}

TEST_F(FleetMemoryTest, ALoanMayOutliveTheFleet) {
  model("a", "need=30");
  make();
  auto loan = fleet->lend(config.models[0], "cpu", {10, 0, 0, 0}, [](const std::string&) {});
  ASSERT_TRUE(loan);
  fleet.reset();
  (*loan)->holds(12);
  loan->reset();
}

TEST_F(FleetMemoryTest, WhatCanNeverFitIsToldSoAndNobodyEndsForIt) {
  model("a", "need=60");
  model("huge", "need=101");
  make();
  ASSERT_TRUE(acquire("a"));
  const auto got = acquire("huge");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(got.error().message,
            "The model needs 101 bytes of this machine's memory; 100 bytes are available to engines.");
  EXPECT_EQ(status_of("a").state, WorkerState::ready);
  EXPECT_EQ(loads("huge"), 0) << "it was to load nothing";
  EXPECT_EQ(accounted(), 60U);
}

// Every request is decided on it: the system is not asked again for each.
TEST(FleetMemory, WhatIsFreeIsAskedForOnceASecond) {
  MachineMemory machine{1000, 400, 12.5};
  int asked = 0;
  config::MemoryRules rules;
  rules.reserve = 0;
  FleetOptions options;
  options.machine_memory = [&] {
    ++asked;
    return machine;
  };
  FleetMemory memory(rules, options, [] { return std::vector<std::pair<Governor::Id, int>>(); });
  const TimePoint start = TimePoint() + seconds(1000);
  const MemoryStatus first = memory.status(start);
  EXPECT_EQ(first.pools.at(0).free, 400U);
  EXPECT_EQ(first.pressure, 12.5);
  EXPECT_EQ(first.free_for("cpu"), 400U);
  EXPECT_EQ(first.age, milliseconds(0));
  const int before = asked;
  machine.available = 300;
  const MemoryStatus same = memory.status(start + milliseconds(999));
  EXPECT_EQ(asked, before);
  EXPECT_EQ(same.pools[0].free, 400U);
  EXPECT_EQ(same.age, milliseconds(999));
  const MemoryStatus next = memory.status(start + seconds(1));
  EXPECT_EQ(asked, before + 1);
  EXPECT_EQ(next.pools[0].free, 300U);
  EXPECT_EQ(next.age, milliseconds(0));
}

// It is there for everybody, whoever waits for it as it starts again.
TEST_F(FleetMemoryTest, APreloadedEngineIsNobodysInParticular) {
  model("a", "need=40,load_ms=300").preload = true;
  model("b", "need=40");
  make();
  ASSERT_TRUE(until([&] { return status_of("a").state == WorkerState::ready; }));
  const Asker small{"small", false, 39};
  ::kill(status_of("a").pid, SIGKILL);
  ASSERT_TRUE(until([&] { return status_of("a").state != WorkerState::ready; }));
  EXPECT_TRUE(acquire("a", small)) << "more than the app may have, and not for it alone";
  EXPECT_FALSE(acquire("b", small));
  EXPECT_TRUE(acquire("b", {"larger", true, 40})) << "of its own it has nothing yet";
}

TEST_F(FleetMemoryTest, OthersMemoryIsNotTaken) {
  model("a", "need=60");
  machine.available = 59;
  make();
  EXPECT_EQ(acquire("a").error().message,
            "The model needs 60 bytes of this machine's memory; 59 bytes are available or could be.");
}

TEST_F(FleetMemoryTest, WhatAnEngineHasNotWrittenYetIsItsOwn) {
  model("a", "need=60,need_kv=0");
  model("b", "need=35");
  machine.available = 60;
  touched = 0;
  make();
  ASSERT_TRUE(acquire("a"));
  machine.available = 40;
  touched = 50;
  EXPECT_EQ(acquire("b", {"shy", false, 0}).error().message,
            "The model needs 35 bytes of this machine's memory; 30 bytes are available, and its app may not "
            "end other engines (may_evict).");
}

TEST_F(FleetMemoryTest, ACrashFreesItsAccountAtOnce) {
  model("a", "need=60");
  make();
  ASSERT_TRUE(acquire("a"));
  kill(status_of("a").pid, SIGKILL);
  EXPECT_TRUE(until([&] { return accounted() == 0; }));
}

TEST_F(FleetMemoryTest, WhoMayNotEvictIsToldSo) {
  model("a", "need=60");
  model("b", "need=60");
  make();
  ASSERT_TRUE(acquire("a"));
  const auto got = acquire("b", {"shy", false, 0});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(status_of("a").state, WorkerState::ready);
  EXPECT_TRUE(acquire("b")) << "another app, which may";
}

TEST_F(FleetMemoryTest, AnAppsLimitIsItsOwn) {
  model("a", "need=40");
  model("b", "need=40");
  model("c", "need=61");
  make();
  const Asker small{"small", true, 60}, other{"other", true, 0};
  ASSERT_TRUE(acquire("a", small));
  ASSERT_TRUE(acquire("b", small)) << "its own idle engine ends for it, though there is room";
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
  EXPECT_EQ(accounted(), 40U);
  const auto got = acquire("c", small);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(got.error().message,
            "The model needs 61 bytes of this machine's memory; 60 bytes are available within the app's "
            "limits.resident.");
  EXPECT_EQ(loads("c"), 0);
  EXPECT_TRUE(acquire("c", other)) << "what one app may not have is no failure that others meet";
}

TEST_F(FleetMemoryTest, PinnedOnesStayAndIdleOnesGo) {
  model("pinned", "need=40").pin = true;
  model("idle", "need=40").idle_unload = milliseconds(300);
  make();
  ASSERT_TRUE(acquire("pinned"));
  ASSERT_TRUE(acquire("idle"));
  ASSERT_TRUE(until([&] { return status_of("idle").state == WorkerState::stopped; }));
  EXPECT_EQ(status_of("pinned").state, WorkerState::ready);
  EXPECT_EQ(accounted(), 40U);
  EXPECT_EQ(fleet->memory().idle_unloads, 1U);
}

// An engine that is loaded in the background while requests of its model go elsewhere.
struct ABackgroundLoad : FleetMemoryTest {
  static Asker background(std::uint64_t resident = 0) { return {"alice", false, resident, true}; }
  // Begins one that has its memory and does not end by itself.
  void begin(const std::string& id, int loads_begun = 1) {
    fleet->acquire(
        id, "cpu", [this](Result<Backend*> r) { got = std::move(r); }, background());
    ASSERT_TRUE(until([&] { return loads(id) == loads_begun; }));
  }
  std::optional<Result<Backend*>> got;
};

TEST_F(ABackgroundLoad, EndsForTheLoadOfAnotherAppAndIsNotStartedAgain) {
  for (const bool may_evict : {false, true}) {
    SCOPED_TRACE(may_evict);
    config.models.clear();
    model("a", "need=60,load_ms=30000");
    model("b", "need=60");
    make();
    got.reset();
    const int begun = may_evict ? 2 : 1;
    begin("a", begun);
    EXPECT_TRUE(status_of("a").spare);
    ASSERT_TRUE(acquire("b", {"bob", may_evict, 0}));
    ASSERT_TRUE(got);
    EXPECT_EQ((*got).error().code, ErrorCode::insufficient_memory);
    EXPECT_EQ(status_of("a").state, WorkerState::stopped);
    EXPECT_FALSE(status_of("a").spare) << "it would keep others from being loaded in the background";
    EXPECT_EQ(loads("a"), begun);
    EXPECT_EQ(fleet->memory().loads, 1U);
    EXPECT_EQ(fleet->memory().evictions, 0U);
    EXPECT_EQ(fleet->memory().refusals, 0U);
  }
}

TEST_F(ABackgroundLoad, LeavesAnEngineThatEndsForTheLoadOfAnotherApp) {
  for (const bool may_evict : {false, true}) {
    SCOPED_TRACE(may_evict);
    config.models.clear();
    model("a", "need=60").pin = true;
    model("b", "need=60");
    config.memory.turn = seconds(60);
    make();
    ASSERT_TRUE(acquire("a", background()));
    EXPECT_EQ(fleet->memory().pools.at(0).free, 100U) << "its memory counts as available";
    ASSERT_TRUE(acquire("b", {"bob", may_evict, 0})) << "at once, although the model is pinned";
    EXPECT_EQ(status_of("a").state, WorkerState::stopped);
    EXPECT_EQ(fleet->memory().evictions, 0U);
  }
}

TEST_F(ABackgroundLoad, KeepsNothingOfTheShareOfItsApp) {
  model("a", "need=60");
  model("b", "need=60");
  config.memory.limit = 200;
  make();
  ASSERT_TRUE(acquire("a", background(60)));
  EXPECT_TRUE(acquire("b", {"alice", false, 60}));
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
}

TEST_F(ABackgroundLoad, IsAnOrdinaryOneFromItsFirstRequestOn) {
  model("pinned", "need=60").pin = true;
  model("b", "need=60");
  make();
  ASSERT_TRUE(acquire("pinned", background()));
  EXPECT_EQ(fleet->memory().loads, 0U);
  ASSERT_TRUE(acquire("pinned", {"bob", false, 0}));
  EXPECT_EQ(fleet->memory().loads, 1U);
  const auto refused = acquire("b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(status_of("pinned").state, WorkerState::ready);
  EXPECT_EQ(loads("pinned"), 1);
}

TEST_F(ABackgroundLoad, ServesTheRequestThatJoinsItAndEndsForNobodyFromThenOn) {
  model("a", "need=60,load_ms=300");
  model("b", "need=60");
  make();
  begin("a");
  std::optional<Result<Backend*>> joined;
  fleet->acquire("a", "cpu", [&](Result<Backend*> r) { joined = std::move(r); }, {"bob", false, 0});
  EXPECT_FALSE(acquire("b", {"carol", false, 0}));
  ASSERT_TRUE(until([&] { return joined.has_value(); }));
  EXPECT_TRUE(*joined);
  EXPECT_TRUE(got && *got);
  EXPECT_EQ(loads("a"), 1);
}

TEST_F(ABackgroundLoad, IsRefusedAtOnceWhereTheMemoryIsNotFree) {
  model("a", "need=60");
  model("b", "need=60");
  config.worker.backoff_min = seconds(60);
  make();
  ASSERT_TRUE(acquire("a"));
  const auto refused = acquire("b", background());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(status_of("a").state, WorkerState::ready);
  EXPECT_EQ(fleet->memory().refusals, 0U);
  EXPECT_EQ(fleet->memory().waits, 0U);
  EXPECT_TRUE(acquire("b")) << "a request meets no backoff";
}

TEST_F(ABackgroundLoad, ThatCrashesIsNotRepeatedAndCountsNoDeath) {
  model("a", "crash_load");
  make();
  EXPECT_FALSE(acquire("a", background()));
  EXPECT_EQ(loads("a"), 1);
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
  EXPECT_FALSE(acquire("a"));
  EXPECT_EQ(loads("a"), 1 + 3) << "its own deaths disable the engine";
}

TEST_F(ABackgroundLoad, ThatFindsNoMemoryLeavesNoBackoff) {
  model("a", "fail=insufficient_memory");
  config.worker.backoff_min = config.worker.backoff_max = seconds(60);
  make();
  EXPECT_FALSE(acquire("a", background()));
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
  EXPECT_FALSE(acquire("a"));
  EXPECT_EQ(loads("a"), 2) << "the request tried for itself";
  EXPECT_EQ(status_of("a").state, WorkerState::backoff);
}

TEST_F(ABackgroundLoad, OfAnInvalidModelIsTheLastOne) {
  model("a", "fail=model_invalid");
  make();
  EXPECT_EQ(acquire("a", background()).error().code, ErrorCode::model_invalid);
  EXPECT_EQ(acquire("a").error().code, ErrorCode::model_invalid);
  EXPECT_EQ(loads("a"), 1);
}

// Work that must be in nobody's way: requests that a watcher starts at open engines.
struct AWatcher : ABackgroundLoad, Fleet::Watcher {
  void engine_opens(const std::string& id, const std::string&, std::uint64_t process) override {
    events.push_back("opens " + id);
    processes.push_back(process);
  }
  void engine_closes(const std::string& id, const std::string&) override {
    events.push_back("closes " + id);
    tickets.erase(id);
  }
  void start() {
    make();
    fleet->watch(this);
  }
  // Waits until the engine is open, and starts a request there that does not end by itself.
  void work_at(const std::string& id) {
    Backend* engine = nullptr;
    ASSERT_TRUE(until([&] { return (engine = fleet->open_engine(id, "cpu")) != nullptr; }));
    CompletionRequest request;
    request.id = "watcher's, at " + id;
    request.prompt = TokenPrompt{{1, 2, 3}};
    auto ticket = engine->start(std::move(request), sink);
    ASSERT_TRUE(ticket);
    tickets[id] = std::move(*ticket);
  }
  void TearDown() override {
    tickets.clear();
    if (fleet) fleet->watch(nullptr);
  }
  std::vector<std::string> events;
  std::vector<std::uint64_t> processes;
  std::map<std::string, Ticket> tickets;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
};

TEST_F(AWatcher, HearsOfEveryLoadedEngineAndOfItsEnd) {
  model("a", "need=10").preload = true;
  start();
  ASSERT_TRUE(until([&] { return !events.empty(); }));
  ASSERT_NE(fleet->open_engine("a", "cpu"), nullptr);
  EXPECT_EQ(fleet->open_engine("a", "vulkan"), nullptr);
  kill(status_of("a").pid, SIGKILL);
  ASSERT_TRUE(until([&] { return events.size() == 3; }));
  EXPECT_EQ(events, (std::vector<std::string>{"opens a", "closes a", "opens a"}));
  ASSERT_EQ(processes.size(), 2U);
  EXPECT_NE(processes[0], processes[1]);
}

TEST_F(AWatcher, DelaysNoEviction) {
  model("a", "need=60,tokens=1000000,delay_us=1000");
  model("b", "need=60");
  config.memory.turn = seconds(3600);  // an engine at work stays for others
  start();
  ASSERT_TRUE(acquire("a"));
  work_at("a");
  ASSERT_TRUE(until([&] { return sink->pushes > 0; }));
  EXPECT_TRUE(status_of("a").idle) << "nobody has a request there";
  ASSERT_TRUE(acquire("b"));
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
  EXPECT_EQ(events.at(1), "closes a");
  EXPECT_EQ(fleet->memory().evictions, 1U);
}

TEST_F(AWatcher, GivesWayBehindTheLastRequestOfAnotherToo) {
  model("a", "need=60,tokens=1000000,delay_us=1000");
  model("b", "need=60");
  config.memory.turn = seconds(3600);
  start();
  auto engine = acquire("a");
  ASSERT_TRUE(engine);
  work_at("a");
  const auto request = std::make_shared<RecordingSink>();
  CompletionRequest asked;
  asked.id = "a client's";
  asked.prompt = TokenPrompt{{1, 2, 3}};
  engine = acquire("a");
  ASSERT_TRUE(engine);
  auto ticket = (*engine)->start(std::move(asked), request);
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(until([&] { return request->pushes > 0; }));
  EXPECT_FALSE(status_of("a").idle);
  ticket->cancel();  // the watcher's request is left
  ASSERT_TRUE(acquire("b"));
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
}

TEST_F(AWatcher, IsNoUseOfASpareEngine) {
  model("a", "need=60,tokens=1000000,delay_us=1000");
  model("b", "need=60");
  start();
  ASSERT_TRUE(acquire("a", background()));
  work_at("a");
  ASSERT_TRUE(until([&] { return sink->pushes > 0; }));
  EXPECT_TRUE(status_of("a").spare);
  ASSERT_TRUE(acquire("b", {"bob", false, 0})) << "who may end no engine";
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
}

TEST_F(AWatcher, DelaysNoUnloadAndNoDrain) {
  model("a", "need=10,tokens=1000000,delay_us=1000");
  model("b", "need=10,tokens=1000000,delay_us=1000");
  start();
  ASSERT_TRUE(acquire("a"));
  ASSERT_TRUE(acquire("b"));
  work_at("a");
  work_at("b");
  bool unloaded = false, drained = false;
  fleet->unload("a", "", [&](Result<std::vector<std::string>> ended) { unloaded = ended.has_value(); });
  ASSERT_TRUE(until([&] { return unloaded; }));
  EXPECT_EQ(fleet->open_engine("a", "cpu"), nullptr);
  EXPECT_TRUE(tickets.contains("b"));
  fleet->drain(std::chrono::steady_clock::now() + std::chrono::hours(1), [&] { drained = true; });
  EXPECT_FALSE(tickets.contains("b")) << "within the call";
  ASSERT_TRUE(until([&] { return drained; }));
}

TEST_F(FleetMemoryTest, OfAGroupOneModelIsLoaded) {
  model("a", "need=10").group = "g";
  model("b", "need=10").group = "g";
  make();
  ASSERT_TRUE(acquire("a"));
  ASSERT_TRUE(acquire("b"));
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
}

TEST_F(FleetMemoryTest, IdleEnginesEndWhileTheMachineIsShortOfMemory) {
  model("a", "need=10");
  machine.pressure = 50;
  machine.short_of_memory = true;
  make();
  ASSERT_TRUE(acquire("a"));
  EXPECT_TRUE(until([&] { return status_of("a").state == WorkerState::stopped; }));
  EXPECT_EQ(fleet->memory().pressure_unloads, 1U);
  EXPECT_EQ(fleet->memory().pressure, 50);
}

// Two models that do not fit together, each asked for again by four clients as soon as an answer has ended:
// each gets its turns, and no stream is cut.
TEST_F(FleetMemoryTest, TwoModelsThatDoNotFitTogetherTakeTurns) {
  model("a", "need=90,tokens=40,delay_us=1000");
  model("b", "need=90,tokens=40,delay_us=1000");
  make();
  struct Client {
    std::string model;
    std::shared_ptr<RecordingSink> sink;
    std::shared_ptr<Ticket> ticket;
    int answers = 0;
  };
  std::vector<Client> clients;
  for (const char* id : {"a", "b"})
    for (int i = 0; i < 4; ++i) clients.push_back({id, nullptr, nullptr, 0});
  std::string trouble;
  std::function<void(Client&)> ask = [&](Client& c) {
    fleet->acquire(c.model, "cpu", [&](Result<Backend*> r) {
      if (!r) {
        trouble = r.error().message;
        return;
      }
      c.sink = std::make_shared<RecordingSink>();
      auto ticket = (*r)->start(test::request(), c.sink);
      if (ticket)
        c.ticket = std::make_shared<Ticket>(std::move(*ticket));
      else
        trouble = ticket.error().message;
    });
  };
  for (Client& c : clients) ask(c);
  std::uint64_t most = 0;
  const bool all = until(
      [&] {
        most = std::max(most, accounted());
        for (Client& c : clients) {
          if (!c.sink || !c.sink->over()) continue;
          if (!c.sink->errors.empty() || c.sink->tokens.size() != 40) trouble = "a stream was cut";
          ++c.answers;
          c.sink.reset();
          c.ticket.reset();
          ask(c);
        }
        return !trouble.empty() || (loads("a") >= 3 && loads("b") >= 3);
      },
      seconds(100));
  EXPECT_EQ(trouble, "");
  EXPECT_TRUE(all) << loads("a") << " and " << loads("b") << " loads";
  EXPECT_LE(most, 100U);
  for (const Client& c : clients) EXPECT_GT(c.answers, 0);
  EXPECT_GT(fleet->memory().waits, 0U);
}

TEST_F(FleetMemoryTest, AReloadThatRaisesTheLimitLetsThoseInWhoWait) {
  model("a", "need=60,tokens=1000000,delay_us=1000");
  model("b", "need=60");
  config.memory.turn = seconds(100);
  make();
  auto a = acquire("a");
  ASSERT_TRUE(a);
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = (*a)->start(test::request(), sink);
  std::optional<Result<Backend*>> b;
  fleet->acquire("b", "cpu", [&](Result<Backend*> r) { b = std::move(r); });
  ASSERT_TRUE(until([&] { return status_of("b").waits_for_memory; }));
  config.memory.limit = 200;
  fleet->reload(config, {});
  ASSERT_TRUE(until([&] { return b.has_value(); }));
  EXPECT_TRUE(*b);
  EXPECT_EQ(accounted(), 120U);
  EXPECT_FALSE(sink->over());
}

TEST_F(FleetMemoryTest, AnEngineOfItsOwnHasAnAccountOfItsOwnAndEndsForOthers) {
  model("a", "need=40");
  model("b", "need=40");
  own["cpu:night"] = {};
  make();
  ASSERT_TRUE(acquire("a"));
  ASSERT_TRUE(acquire_on("a", "cpu:night"));
  EXPECT_EQ(accounted(), 80U) << "it holds a second copy";
  ASSERT_TRUE(acquire("b"));
  EXPECT_EQ(accounted(), 80U);
  EXPECT_EQ(fleet->memory().evictions, 1U);
}

TEST_F(FleetMemoryTest, AnEngineThatAProfileKeepsLoadedEndsForNobodyAndNeverForWantOfWork) {
  model("a", "need=40");
  model("b", "need=70");
  config.memory.idle_unload = milliseconds(50);
  own["cpu:night"] = {{}, 0, false, true};
  make();
  ASSERT_TRUE(acquire("a"));
  ASSERT_TRUE(acquire_on("a", "cpu:night"));
  ASSERT_TRUE(until([&] { return fleet->memory().idle_unloads == 1 && accounted() == 40; }))
      << "the shared one is not kept";
  const auto refused = acquire("b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(fleet->memory().evictions, 0U);
  EXPECT_TRUE(std::ranges::any_of(fleet->status(), [](const WorkerStatus& worker) {
    return worker.backend == "cpu:night" && worker.state == WorkerState::ready && worker.pinned;
  }));
}

}  // namespace
}  // namespace flyball::fleet
