// The fleet over real worker processes: one load for many, restarts, refusals, reload, drain.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <boost/asio/post.hpp>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/fleet/fleet.hpp"
#include "tests/backends/worker/loop.hpp"

namespace flyball::fleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::RecordingSink;
using test::request;

struct FleetTest : ::testing::Test {
  boost::asio::io_context io;
  config::Config config;
  std::unique_ptr<Fleet> fleet;
  std::filesystem::path dir;

  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    dir =
        std::filesystem::temp_directory_path() / ("flyball-fleet-" + std::to_string(getpid()) + info->name());
    std::filesystem::create_directories(dir);
    config.worker.heartbeat = milliseconds(50);
    config.worker.backoff_min = milliseconds(50);
  }
  void TearDown() override {
    fleet.reset();
    std::filesystem::remove_all(dir);
  }
  // Every load of the model writes a line.
  config::ModelEntry& model(const std::string& id, const std::string& script) {
    config::ModelEntry entry;
    entry.id = id;
    entry.path = "log=" + (dir / id).string() + "," + script;
    return config.models.emplace_back(entry);
  }
  int loads(const std::string& id) {
    std::ifstream in(dir / id);
    int n = 0;
    for (std::string line; std::getline(in, line);) ++n;
    return n;
  }
  void make(FleetOptions options = {}) {
    options.executable = FAKE_ENGINE;
    fleet = make_worker_fleet(io, config, std::move(options));
  }
  bool until(const std::function<bool()>& done, milliseconds limit = seconds(60)) {
    return test::run_until(io, done, limit);
  }
  Result<Backend*> acquire(const std::string& id, const std::string& backend = "cpu") {
    std::optional<Result<Backend*>> got;
    fleet->acquire(id, backend, [&](Result<Backend*> r) { got = std::move(r); });
    EXPECT_FALSE(got);  // never inside the call
    EXPECT_TRUE(until([&] { return got.has_value(); }));
    return got ? *got : fail(ErrorCode::internal, "no answer");
  }
  Result<std::vector<std::string>> unload(const std::string& id, const std::string& backend = "") {
    std::optional<Result<std::vector<std::string>>> got;
    fleet->unload(id, backend, [&](auto r) { got = std::move(r); });
    EXPECT_FALSE(got);  // never inside the call
    EXPECT_TRUE(until([&] { return got.has_value(); }));
    return got ? *got : fail(ErrorCode::internal, "no answer");
  }
  WorkerStatus status_of(const std::string& id, const std::string& backend = "cpu") {
    for (const WorkerStatus& s : fleet->status()) {
      if (s.model == id && s.backend == backend) return s;
    }
    return {};
  }
};

TEST_F(FleetTest, AHundredWaitersOneLoad) {
  model("a", "load_ms=100");
  make();
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
  int answered = 0;
  for (int i = 0; i < 100; ++i) {
    fleet->acquire("a", "cpu", [&](Result<Backend*> r) {
      EXPECT_TRUE(r);
      ++answered;
    });
  }
  ASSERT_TRUE(until([&] { return answered == 100; }));
  EXPECT_EQ(loads("a"), 1);
  EXPECT_EQ(status_of("a").state, WorkerState::ready);
  EXPECT_GT(status_of("a").pid, 0);
  EXPECT_EQ(status_of("a").info.model, "a");
}

TEST_F(FleetTest, UnknownModelsAreNotFound) {
  model("a", "");
  make();
  EXPECT_EQ(acquire("b").error().code, ErrorCode::model_not_found);
}

TEST_F(FleetTest, PreloadsWhatTheConfigSays) {
  model("a", "").preload = true;
  model("b", "");
  make();
  ASSERT_TRUE(until([&] { return status_of("a").state == WorkerState::ready; }));
  EXPECT_EQ(status_of("b").state, WorkerState::stopped);
  kill(status_of("a").pid, SIGKILL);
  ASSERT_TRUE(until([&] { return loads("a") == 2; }));  // nobody waits for it, but it is to be there
}

TEST_F(FleetTest, PreloadsOnTheEnginesThatAreWanted) {
  model("a", "").preload = true;
  model("b", "");
  FleetOptions options;
  options.devices[config::kOpenCl] = {"some device", "and another"};
  options.preload_on = [](const config::ModelEntry&, const MemoryStatus&) {
    return std::vector<std::string>{"opencl"};
  };
  make(std::move(options));
  ASSERT_TRUE(until([&] { return status_of("a", "opencl").state == WorkerState::ready; }));
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
  EXPECT_EQ(status_of("b").state, WorkerState::stopped);
  kill(status_of("a", "opencl").pid, SIGKILL);
  ASSERT_TRUE(until([&] { return loads("a") == 2; }));
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
}

TEST_F(FleetTest, AMachineWithoutRoomForAProcessIsNotTheModelsFault) {
  model("a", "");
  make();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // Two are enough for the socket pair, three for what the child is given, not for what it is waited for
  // with. (Two also let the sanitizers look at memory.)
  for (const int left : {2, 3}) {
    const int first = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(close(first), 0);
    const rlimit few{static_cast<rlim_t>(first + left), before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    std::optional<Result<Backend*>> got;
    fleet->acquire("a", "cpu", [&](Result<Backend*> r) { got = std::move(r); });
    const bool answered = until([&] { return got.has_value(); });
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_TRUE(answered);
    ASSERT_FALSE(*got);
    EXPECT_EQ(got->error().code, ErrorCode::model_unavailable) << got->error().message;
  }
}

// Which one a worker opens is the probe's word: without it there is none.
TEST_F(FleetTest, StartsNoOpenClWorkerWithoutADeviceThatWasProbed) {
  model("a", "");
  make();
  std::optional<Result<Backend*>> got;
  fleet->acquire("a", "opencl", [&](Result<Backend*> r) { got = std::move(r); });
  ASSERT_TRUE(until([&] { return got.has_value(); }));
  EXPECT_EQ(got->error().code, ErrorCode::model_unavailable);
}

// What the gateway does when a worker dies under a stream: acquire again inside the event, resume with the
// tokens.
TEST_F(FleetTest, AKilledWorkersStreamContinuesOnTheNextOne) {
  model("a", "tokens=2000,delay_us=200");
  make();
  auto first = acquire("a");
  ASSERT_TRUE(first);
  auto cut = std::make_shared<RecordingSink>();
  auto rest = std::make_shared<RecordingSink>();
  Ticket rest_ticket;
  cut->on_push = [&] {
    if (cut->errors.empty()) return;
    fleet->acquire("a", "cpu", [&](Result<Backend*> r) {
      ASSERT_TRUE(r);
      CompletionRequest q = request();
      q.resume_tokens = cut->tokens;
      q.resume_text_bytes = cut->text.size();
      rest_ticket = std::move(*(*r)->start(std::move(q), rest));
    });
  };
  auto ticket = (*first)->start(request(), cut);
  ASSERT_TRUE(until([&] { return cut->pushes > 50; }));
  kill(status_of("a").pid, SIGKILL);
  ASSERT_TRUE(until([&] { return rest->pushes > 0; }));
  ASSERT_TRUE(until([&] { return rest->over(); }));
  std::string expected;
  for (int i = 0; i < 2000; ++i) expected += std::to_string(i) + " ";
  EXPECT_EQ(cut->text + rest->text, expected);
  EXPECT_EQ(cut->errors[0].code, ErrorCode::worker_died);
  EXPECT_EQ(status_of("a").restarts, 1U);
}

// A worker that is given up (here: it stopped answering) fails its requests before its process has ended.
// Whoever asks again in between gets its successor, not the dying one.
TEST_F(FleetTest, AWorkerThatIsGivenUpIsNotHandedOutAgain) {
  config.worker.heartbeat_timeout = milliseconds(1000);
  model("a", "tokens=1000,stop_after=5");
  make();
  auto first = acquire("a");
  ASSERT_TRUE(first);
  const int stuck = status_of("a").pid;
  auto cut = std::make_shared<RecordingSink>();
  auto rest = std::make_shared<RecordingSink>();
  Ticket rest_ticket;
  std::string refused;
  cut->on_push = [&] {
    if (cut->errors.empty()) return;
    fleet->acquire("a", "cpu", [&](Result<Backend*> r) {
      CompletionRequest q = request();
      q.max_tokens = 3;
      auto ticket = r ? (*r)->start(std::move(q), rest) : Result<Ticket>(std::unexpected(r.error()));
      if (ticket)
        rest_ticket = std::move(*ticket);
      else
        refused = ticket.error().message;
    });
  };
  auto ticket = (*first)->start(request(), cut);
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(until([&] { return rest->over() || !refused.empty(); }));
  EXPECT_EQ(refused, "");
  EXPECT_EQ(rest->tokens.size(), 3U);
  EXPECT_NE(status_of("a").pid, stuck);
}

TEST_F(FleetTest, ACrashLoopEndsDisabledAndAnswers) {
  model("a", "crash_load");
  make();
  auto answer = acquire("a");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::model_unavailable);
  EXPECT_EQ(loads("a"), 3);
  EXPECT_EQ(status_of("a").state, WorkerState::disabled);
  EXPECT_EQ(acquire("a").error().code, ErrorCode::model_unavailable);
  EXPECT_EQ(loads("a"), 3);
}

TEST_F(FleetTest, AnInvalidModelIsLoadedOnce) {
  model("a", "fail=model_invalid");
  make();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(acquire("a").error().code, ErrorCode::model_invalid);
  EXPECT_EQ(loads("a"), 1);
}

TEST_F(FleetTest, NoMemoryFailsEveryWaiterWithTheCause) {
  model("a", "load_ms=50,fail=insufficient_memory");
  make();
  int failed = 0;
  for (int i = 0; i < 10; ++i) {
    fleet->acquire("a", "cpu", [&](Result<Backend*> r) {
      ASSERT_FALSE(r);
      EXPECT_EQ(r.error().code, ErrorCode::insufficient_memory);
      ++failed;
    });
  }
  ASSERT_TRUE(until([&] { return failed == 10; }));
  EXPECT_EQ(loads("a"), 1);
}

// What is logged while it lives.
struct Log {
  std::ostringstream text;
  std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  Log() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  }
  ~Log() { spdlog::set_default_logger(before); }
};

// Memory for one engine: an idle one ends for another, the one idle longest first, and comes back.
TEST_F(FleetTest, AnIdleEngineMakesRoomForAnother) {
  const std::string one = "memory=" + (dir / "one").string(), two = "memory=" + (dir / "two").string();
  model("old", one);
  model("young", two);
  model("new", one + ",tokens=3");
  make();
  ASSERT_TRUE(acquire("old"));
  ASSERT_TRUE(acquire("young"));
  const int pid = status_of("old").pid;
  const Log log;
  auto got = acquire("new");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_NE(log.text.str().find("2 bytes are needed, 1 are free"), std::string::npos) << log.text.str();
  EXPECT_EQ(loads("new"), 2);
  EXPECT_NE(kill(pid, 0), 0);
  EXPECT_EQ(status_of("old").state, WorkerState::stopped);
  EXPECT_EQ(status_of("young").state, WorkerState::ready);
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = (*got)->start(request(), sink);
  ASSERT_TRUE(until([&] { return sink->over(); }));
  EXPECT_EQ(sink->tokens.size(), 3U);
  // What was ended has failed at nothing. For it "young" ends in vain, and then "new".
  EXPECT_TRUE(acquire("old"));
  EXPECT_EQ(status_of("young").state, WorkerState::stopped);
  EXPECT_EQ(status_of("new").state, WorkerState::stopped);
}

// Idle since its last request ended, whenever that began.
TEST_F(FleetTest, AnEngineThatHasJustEndedItsWorkIsNotTheOneIdleLongest) {
  const std::string memory = "memory=" + (dir / "memory").string();
  model("worked", "tokens=1000000,delay_us=1000");
  model("idle", memory);
  model("new", memory);
  make();
  auto worked = acquire("worked");
  ASSERT_TRUE(worked);
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = (*worked)->start(request(), sink);
  ASSERT_TRUE(until([&] { return sink->pushes > 0; }));
  ASSERT_TRUE(acquire("idle"));
  ticket->cancel();
  EXPECT_TRUE(acquire("new"));
  EXPECT_EQ(status_of("idle").state, WorkerState::stopped);
  EXPECT_EQ(status_of("worked").state, WorkerState::ready);
}

// Others' engines end for it once, and then not until a reload or a window later.
TEST_F(FleetTest, AModelThatNeverFitsEndsIdleEnginesOnce) {
  model("other", "");
  model("huge", "fail=insufficient_memory");
  make();
  ASSERT_TRUE(acquire("other"));
  EXPECT_EQ(acquire("huge").error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(loads("huge"), 2);
  EXPECT_EQ(status_of("other").state, WorkerState::stopped);
  ASSERT_TRUE(acquire("other"));
  const int pid = status_of("other").pid;
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (loads("huge") < 3 && std::chrono::steady_clock::now() < end)
    EXPECT_EQ(acquire("huge").error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(loads("huge"), 3);
  EXPECT_EQ(status_of("other").pid, pid);
  EXPECT_EQ(status_of("other").state, WorkerState::ready);
  fleet->reload(config, {});
  EXPECT_EQ(acquire("huge").error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(loads("huge"), 5);
  EXPECT_EQ(status_of("other").state, WorkerState::stopped);
}

TEST_F(FleetTest, ADevicesOwnMemoryIsNoRoomInTheMachinesNorTheReverse) {
  const std::string memory = "memory=" + (dir / "memory").string();
  model("a", memory);
  model("b", memory);
  FleetOptions options;
  options.devices[config::kOpenCl] = {"some device"};
  options.device_memory = {{"some device", 0, {{"opencl", 0}}}};
  make(std::move(options));
  ASSERT_TRUE(acquire("a", "opencl"));
  EXPECT_EQ(acquire("b", "cpu").error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(status_of("a", "opencl").state, WorkerState::ready);
  EXPECT_TRUE(acquire("b", "opencl"));
  EXPECT_EQ(status_of("a", "opencl").state, WorkerState::stopped);
  EXPECT_EQ(acquire("a", "cpu").error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(status_of("b", "opencl").state, WorkerState::ready);
}

TEST_F(FleetTest, EnginesAtWorkAndPreloadedOnesStay) {
  const std::string memory = "memory=" + (dir / "memory").string();
  model("busy", memory + ",tokens=1000000,delay_us=1000");
  model("kept", "").preload = true;
  model("new", memory);
  make();
  ASSERT_TRUE(until([&] { return status_of("kept").state == WorkerState::ready; }));
  auto busy = acquire("busy");
  ASSERT_TRUE(busy);
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = (*busy)->start(request(), sink);
  EXPECT_EQ(acquire("new").error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(loads("new"), 1);
  const std::size_t pushes = sink->pushes;
  EXPECT_TRUE(until([&] { return sink->pushes > pushes; }));
  EXPECT_FALSE(sink->over());
  EXPECT_EQ(status_of("kept").state, WorkerState::ready);
}

// Whoever asks for an engine while it makes room gets its successor, or reads that there is no memory; of all
// that asked somebody is served.
TEST_F(FleetTest, AnEngineThatMakesRoomCanBeAskedFor) {
  const std::string memory = "memory=" + (dir / "memory").string();
  model("old", memory);
  model("new", memory);
  make();
  ASSERT_TRUE(acquire("old"));
  std::vector<std::optional<ErrorCode>> answers;
  const auto ask = [&](const std::string& id) {
    fleet->acquire(id, "cpu", [&](Result<Backend*> r) {
      answers.push_back(r ? std::optional<ErrorCode>() : r.error().code);
    });
  };
  ask("new");
  ASSERT_TRUE(until([&] { return loads("new") == 1 && status_of("new").pid == 0; }));
  std::size_t asked = 1;
  do {
    ++asked;
    ask("old");
    io.restart();
    io.run_one_for(milliseconds(1));
  } while (asked < 200 && status_of("new").pid == 0);
  ASSERT_TRUE(until([&] { return answers.size() == asked; }));
  for (const auto& error : answers) EXPECT_TRUE(!error || error == ErrorCode::insufficient_memory);
  EXPECT_TRUE(std::ranges::any_of(answers, [](const auto& error) { return !error; }));
}

// A stopped process ends only when it is killed, two seconds later.
TEST_F(FleetTest, WhoWaitsForAnEngineThatMadeRoomIsServedAlthoughAReloadRemovesTheOther) {
  config.worker.heartbeat_timeout = seconds(60);
  const std::string memory = "memory=" + (dir / "memory").string();
  model("old", memory);
  model("new", memory);
  make();
  ASSERT_TRUE(acquire("old"));
  const int ending = status_of("old").pid;
  kill(ending, SIGSTOP);
  std::optional<Result<Backend*>> gone, kept;
  fleet->acquire("new", "cpu", [&](Result<Backend*> r) { gone = std::move(r); });
  ASSERT_TRUE(until([&] { return loads("new") == 1 && status_of("new").pid == 0; }));
  fleet->acquire("old", "cpu", [&](Result<Backend*> r) { kept = std::move(r); });
  io.restart();
  io.poll();
  ASSERT_EQ(status_of("old").pid, ending) << "it was to end later";
  config.models.pop_back();
  fleet->reload(config, {});
  ASSERT_TRUE(until([&] { return kept.has_value(); }));
  EXPECT_TRUE(*kept) << kept->error().message;
  EXPECT_NE(status_of("old").pid, ending);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->error().code, ErrorCode::shutting_down);
}

TEST_F(FleetTest, ADrainWhileRoomIsMadeEndsAll) {
  const std::string memory = "memory=" + (dir / "memory").string();
  model("old", memory);
  model("new", memory);
  make();
  ASSERT_TRUE(acquire("old"));
  std::optional<Result<Backend*>> got;
  fleet->acquire("new", "cpu", [&](Result<Backend*> r) { got = std::move(r); });
  ASSERT_TRUE(until([&] { return loads("new") == 1 && status_of("new").pid == 0; }));
  bool drained = false;
  fleet->drain(std::chrono::steady_clock::now() + seconds(20), [&] { drained = true; });
  ASSERT_TRUE(until([&] { return drained; }));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->error().code, ErrorCode::shutting_down);
  EXPECT_EQ(loads("new"), 1);
}

TEST_F(FleetTest, ReloadKeepsUnchangedModelsAndLetsOthersFinish) {
  model("same", "tokens=10");
  model("gone", "tokens=500,delay_us=1000");
  make();
  auto same = acquire("same");
  auto gone = acquire("gone");
  ASSERT_TRUE(same && gone);
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = (*gone)->start(request(), sink);
  ASSERT_TRUE(until([&] { return sink->pushes > 0; }));
  const int pid = status_of("same").pid;
  config.models.pop_back();
  model("new", "tokens=10");
  fleet->reload(config, {});
  EXPECT_EQ(status_of("same").pid, pid);
  EXPECT_EQ(acquire("gone").error().code, ErrorCode::model_not_found);
  EXPECT_TRUE(acquire("new"));
  ASSERT_TRUE(until([&] { return sink->over(); }));
  EXPECT_EQ(sink->done.size(), 1U);
  EXPECT_EQ(sink->tokens.size(), 500U);
  EXPECT_EQ(loads("same"), 1);
}

// Stamps of files other than those that the engines were started with (these have none, whose stamp is 0).
TEST_F(FleetTest, AReloadLoadsAFileThatWasReplacedAnewAndLetsStreamsFinish) {
  model("old", "tokens=500,delay_us=1000");
  model("same", "tokens=10");
  model("pinned", "tokens=10").sha256 = std::string(64, 'a');
  make();
  auto old = acquire("old");
  ASSERT_TRUE(old && acquire("same") && acquire("pinned"));
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = (*old)->start(request(), sink);
  ASSERT_TRUE(until([&] { return sink->pushes > 0; }));
  const int pid = status_of("old").pid, same = status_of("same").pid, pinned = status_of("pinned").pid;
  fleet->reload(config, {{"old", 42}, {"same", 0}, {"pinned", 42}});
  EXPECT_EQ(status_of("same").pid, same);
  EXPECT_EQ(status_of("pinned").pid, pinned) << "no other file has its digest";
  ASSERT_TRUE(acquire("old"));
  EXPECT_NE(status_of("old").pid, pid);
  ASSERT_TRUE(until([&] { return sink->over(); }));
  EXPECT_EQ(sink->done.size(), 1U);
  EXPECT_EQ(sink->tokens.size(), 500U);
  EXPECT_EQ(loads("old"), 2);
}

TEST_F(FleetTest, WhoWaitsForALoadGetsTheFileThatReplacedItMeanwhile) {
  model("a", "load_ms=60000");
  make();
  std::optional<Result<Backend*>> got;
  fleet->acquire("a", "cpu", [&](Result<Backend*> result) { got = std::move(result); });
  ASSERT_TRUE(until([&] { return status_of("a").pid > 0; }));
  const int pid = status_of("a").pid;
  config.models[0].path = "load_ms=1";
  fleet->reload(config, {});
  ASSERT_TRUE(until([&] { return got.has_value(); }));
  ASSERT_TRUE(*got) << got->error().message;
  EXPECT_NE(status_of("a").pid, pid);
}

TEST_F(FleetTest, ReloadedLimitsHoldForModelsThatStay) {
  model("a", "crash_load");
  make();
  config.worker.disable_after = 1;
  fleet->reload(config, {});
  EXPECT_EQ(acquire("a").error().code, ErrorCode::model_unavailable);
  EXPECT_EQ(loads("a"), 1);
}

TEST_F(FleetTest, UnloadEndsAnEngineThatHasNoWork) {
  model("a", "tokens=3");
  model("b", "");
  make();
  ASSERT_TRUE(acquire("a") && acquire("b"));
  const int pid = status_of("a").pid;
  EXPECT_EQ(unload("a").value(), std::vector<std::string>{"cpu"});
  EXPECT_NE(kill(pid, 0), 0) << "the process is gone when the answer comes";
  EXPECT_TRUE(status_of("a").unloaded);
  EXPECT_EQ(status_of("b").state, WorkerState::ready);
  EXPECT_EQ(unload("a").value(), std::vector<std::string>{}) << "it is not loaded";
  EXPECT_EQ(unload("b", "vulkan").value(), std::vector<std::string>{}) << "not on that engine";
  EXPECT_EQ(unload("none").error().code, ErrorCode::model_not_found);
  EXPECT_TRUE(acquire("a")) << "the next request loads it";
  EXPECT_FALSE(status_of("a").unloaded);
  EXPECT_EQ(loads("a"), 2);
  EXPECT_EQ(fleet->memory().unloads, 1U);
}

TEST_F(FleetTest, UnloadLetsAnswersEndAndLoadsAgainForLaterRequests) {
  model("a", "tokens=300,delay_us=1000");
  make();
  auto a = acquire("a");
  ASSERT_TRUE(a);
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = (*a)->start(request(), sink);
  std::optional<Result<std::vector<std::string>>> unloaded;
  fleet->unload("a", "", [&](auto r) { unloaded = std::move(r); });
  ASSERT_TRUE(until([&] { return status_of("a").ending; }));
  std::optional<Result<Backend*>> later;
  fleet->acquire("a", "cpu", [&](Result<Backend*> r) { later = std::move(r); });
  ASSERT_TRUE(until([&] { return sink->over(); }));
  EXPECT_FALSE(later) << "it gets no new requests";
  EXPECT_EQ(sink->done.size(), 1U);
  EXPECT_EQ(sink->tokens.size(), 300U);
  ASSERT_TRUE(until([&] { return unloaded && later; }));
  EXPECT_EQ(unloaded->value(), std::vector<std::string>{"cpu"});
  EXPECT_TRUE(*later);
  EXPECT_EQ(loads("a"), 2);
}

TEST_F(FleetTest, APreloadedEngineThatIsUnloadedStaysSoUntilItIsAskedForOrReloaded) {
  model("a", "").preload = true;
  make();
  ASSERT_TRUE(until([&] { return status_of("a").state == WorkerState::ready; }));
  EXPECT_EQ(unload("a").value(), std::vector<std::string>{"cpu"});
  EXPECT_FALSE(until([&] { return status_of("a").state != WorkerState::stopped; }, milliseconds(300)));
  fleet->reload(config, {});
  ASSERT_TRUE(until([&] { return status_of("a").state == WorkerState::ready; }));
}

// `preload` holds again from the next load on: the engine is started again when it dies.
TEST_F(FleetTest, APreloadedEngineThatIsLoadedAgainIsKeptAgain) {
  model("a", "").preload = true;
  make();
  ASSERT_TRUE(until([&] { return status_of("a").state == WorkerState::ready; }));
  ASSERT_TRUE(unload("a"));
  ASSERT_TRUE(acquire("a"));
  kill(status_of("a").pid, SIGKILL);
  ASSERT_TRUE(until([&] { return loads("a") == 3 && status_of("a").state == WorkerState::ready; }));
}

TEST_F(FleetTest, AReloadLoadsAPreloadedEngineThatIsJustBeingUnloaded) {
  model("a", "").preload = true;
  make();
  ASSERT_TRUE(until([&] { return status_of("a").state == WorkerState::ready; }));
  bool unloaded = false;
  fleet->unload("a", "", [&](const auto&) { unloaded = true; });
  boost::asio::post(io, [&] { fleet->reload(config, {}); });
  ASSERT_TRUE(
      until([&] { return unloaded && loads("a") == 2 && status_of("a").state == WorkerState::ready; }));
}

TEST_F(FleetTest, UnloadInThePauseAfterACrashKeepsTheEngineFromComingBack) {
  model("a", "").preload = true;
  config.worker.backoff_min = milliseconds(200);
  make();
  ASSERT_TRUE(until([&] { return status_of("a").state == WorkerState::ready; }));
  kill(status_of("a").pid, SIGKILL);
  ASSERT_TRUE(until([&] { return status_of("a").state == WorkerState::backoff; }));
  EXPECT_EQ(unload("a").value(), std::vector<std::string>{});
  EXPECT_FALSE(until([&] { return loads("a") == 2; }, milliseconds(600)));
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
  EXPECT_TRUE(acquire("a")) << "the next request loads it";
}

TEST_F(FleetTest, UnloadInThePauseAfterACrashServesTheRequestsThatWaitAndEndsTheEngineThen) {
  model("a", "tokens=3");
  config.worker.backoff_min = milliseconds(200);
  make();
  ASSERT_TRUE(acquire("a"));
  kill(status_of("a").pid, SIGKILL);
  ASSERT_TRUE(until([&] { return status_of("a").state == WorkerState::backoff; }));
  auto sink = std::make_shared<RecordingSink>();
  std::optional<Result<Ticket>> ticket;
  fleet->acquire("a", "cpu", [&](Result<Backend*> r) {
    ASSERT_TRUE(r);
    ticket = (*r)->start(request(), sink);
  });
  ASSERT_TRUE(unload("a"));
  ASSERT_TRUE(until([&] { return sink->over(); }));
  EXPECT_EQ(sink->tokens.size(), 3U);
  EXPECT_TRUE(until([&] { return status_of("a").state == WorkerState::stopped; }));
}

TEST_F(FleetTest, UnloadGivesUpALoadThatNobodyWaitsFor) {
  model("a", "load_ms=60000").preload = true;
  config.worker.ready_timeout = seconds(600);
  make();
  ASSERT_TRUE(until([&] { return status_of("a").pid != 0; }));
  EXPECT_EQ(unload("a").value(), std::vector<std::string>{"cpu"});
  EXPECT_EQ(status_of("a").state, WorkerState::stopped);
}

TEST_F(FleetTest, AnUnloadIsAnsweredAlsoWhereTheEngineCrashesOrTheFleetDrains) {
  model("a", "tokens=1000000,delay_us=1000");
  model("b", "tokens=1000000,delay_us=1000");
  make();
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<Result<Ticket>> tickets;
  std::size_t answered = 0;
  for (const char* id : {"a", "b"}) {
    auto backend = acquire(id);
    ASSERT_TRUE(backend);
    tickets.push_back((*backend)->start(request(), sinks.emplace_back(std::make_shared<RecordingSink>())));
    fleet->unload(id, "", [&](const auto& r) { answered += r ? 1 : 0; });
  }
  ASSERT_TRUE(until([&] { return status_of("a").ending && status_of("b").ending; }));
  kill(status_of("a").pid, SIGKILL);
  ASSERT_TRUE(until([&] { return answered == 1; }));
  bool drained = false;
  fleet->drain(std::chrono::steady_clock::now(), [&] { drained = true; });
  ASSERT_TRUE(until([&] { return drained; }));
  EXPECT_EQ(answered, 2U);
}

TEST_F(FleetTest, DrainLetsStreamsFinishAndEndsEveryWorker) {
  model("a", "tokens=300,delay_us=1000");
  model("b", "");
  make();
  auto a = acquire("a");
  auto b = acquire("b");
  ASSERT_TRUE(a && b);
  const int pid = status_of("b").pid;
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = (*a)->start(request(), sink);
  bool drained = false;
  fleet->drain(std::chrono::steady_clock::now() + seconds(20), [&] { drained = true; });
  EXPECT_EQ(acquire("b").error().code, ErrorCode::shutting_down);
  ASSERT_TRUE(until([&] { return drained; }));
  EXPECT_EQ(sink->done.size(), 1U);
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(FleetTest, DrainOfAnIdleFleetIsImmediate) {
  model("a", "");
  make();
  bool drained = false;
  fleet->drain(std::chrono::steady_clock::now() + std::chrono::hours(1), [&] { drained = true; });
  ASSERT_TRUE(until([&] { return drained; }));
}

// A traced process stops on its way out until its tracer lets it go, killed or not: to the daemon it is what
// a driver that hangs in the kernel looks like.
TEST_F(FleetTest, DrainDoesNotWaitForAProcessThatCannotEnd) {
  model("a", "");
  make();
  ASSERT_TRUE(acquire("a"));
  const pid_t pid = status_of("a").pid;
  if (ptrace(PTRACE_SEIZE, pid, nullptr, PTRACE_O_TRACEEXIT) != 0)
    GTEST_SKIP() << "ptrace is not allowed here";
  bool drained = false;
  fleet->drain(std::chrono::steady_clock::now(), [&] { drained = true; });
  EXPECT_TRUE(until([&] { return drained; }));
  EXPECT_EQ(kill(pid, 0), 0) << "it was to hang";
  fleet.reset();
  ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  EXPECT_TRUE(until([&] { return kill(pid, 0) != 0; })) << "it is reaped in the background";
}

TEST_F(FleetTest, ALoadDoesNotWaitForAnIdleEngineThatCannotEnd) {
  const std::string memory = "memory=" + (dir / "memory").string();
  model("old", memory);
  model("new", memory);
  make();
  ASSERT_TRUE(acquire("old"));
  const pid_t pid = status_of("old").pid;
  if (ptrace(PTRACE_SEIZE, pid, nullptr, PTRACE_O_TRACEEXIT) != 0)
    GTEST_SKIP() << "ptrace is not allowed here";
  const auto got = acquire("new");
  EXPECT_EQ(kill(pid, 0), 0) << "it was to hang";
  EXPECT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::insufficient_memory);
  EXPECT_EQ(got.error().message, "2 bytes are needed, 1 are free.");
  ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  EXPECT_TRUE(until([&] { return status_of("old").pid == 0; }));
  EXPECT_EQ(status_of("new").pid, 0) << "its load has failed: the end of the other starts none";
  EXPECT_EQ(loads("new"), 1);
}

// ---- engines of their own ---------------------------------------------------------------------------------

// The words of the process's command line behind `option`; absent: it has no such word.
std::optional<std::string> word_behind(int pid, const std::string& option) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/cmdline");
  for (std::string word, next; std::getline(in, word, '\0');)
    if (word == option) return std::getline(in, next, '\0') ? next : "";
  return std::nullopt;
}

TEST_F(FleetTest, AnEngineOfItsOwnIsASecondProcessWithItsSettings) {
  model("a", "tokens=500,delay_us=1000").threads = 3;
  FleetOptions options;
  options.own_engines["cpu:night"] = {1U, 10, true, false};
  make(std::move(options));
  const auto shared = acquire("a"), own = acquire("a", "cpu:night");
  ASSERT_TRUE(shared && own);
  EXPECT_EQ(loads("a"), 2);
  const int first = status_of("a").pid, second = status_of("a", "cpu:night").pid;
  EXPECT_NE(first, second);
  EXPECT_EQ(word_behind(first, "--threads"), "3");
  EXPECT_EQ(word_behind(first, "--nice"), std::nullopt);
  EXPECT_EQ(word_behind(first, "--lock-memory"), std::nullopt);
  EXPECT_EQ(word_behind(second, "--backend"), "cpu");
  EXPECT_EQ(word_behind(second, "--threads"), "1");
  EXPECT_EQ(word_behind(second, "--nice"), "10");
  EXPECT_NE(word_behind(second, "--lock-memory"), std::nullopt);
  EXPECT_EQ(fleet->own_engines(), std::vector<std::string>{"cpu:night"});

  auto stream = std::make_shared<RecordingSink>();
  auto ticket = (*shared)->start(request(), stream);
  ASSERT_TRUE(until([&] { return stream->pushes > 0; }));
  kill(second, SIGKILL);
  ASSERT_TRUE(until([&] { return status_of("a", "cpu:night").pid != second; }));
  ASSERT_TRUE(until([&] { return stream->over(); }));
  EXPECT_EQ(stream->tokens.size(), 500U) << "the death of the other is not its own";
  EXPECT_EQ(status_of("a").pid, first);
}

TEST_F(FleetTest, EnginesThatYieldAreHeldFromTheirStart) {
  model("a", "");
  FleetOptions options;
  options.own_engines["cpu:night"] = {.yields = true};
  options.own_engines["cpu:day"] = {};
  make(std::move(options));
  fleet->hold_yielding({"cpu"});
  const auto yields = acquire("a", "cpu:night"), stays = acquire("a", "cpu:day"), shared = acquire("a");
  ASSERT_TRUE(yields && stays && shared);
  EXPECT_NE(word_behind(status_of("a", "cpu:night").pid, "--yields"), std::nullopt);
  const auto held = std::make_shared<RecordingSink>();
  auto ticket = (*yields)->start(request(), held);
  for (Backend* const other : {*stays, *shared}) {
    const auto sink = std::make_shared<RecordingSink>();
    auto open = other->start(request(), sink);
    ASSERT_TRUE(until([&] { return sink->over(); })) << "it does not yield";
  }
  EXPECT_EQ(held->pushes, 0U);
  fleet->hold_yielding({"opencl"});
  EXPECT_TRUE(until([&] { return held->over(); })) << "people are at another card";
}

TEST_F(FleetTest, AHeldEngineThatHasToEndFinishesWhatItHas) {
  model("a", "tokens=5");
  FleetOptions options;
  options.own_engines["cpu:night"] = {.yields = true};
  make(std::move(options));
  const auto yields = acquire("a", "cpu:night");
  ASSERT_TRUE(yields);
  fleet->hold_yielding({"cpu"});
  const auto held = std::make_shared<RecordingSink>();
  auto ticket = (*yields)->start(request(), held);
  ASSERT_TRUE(ticket);
  EXPECT_TRUE(status_of("a", "cpu:night").held);
  config.drain_timeout = seconds(60);
  fleet->set_own_engines({});
  fleet->reload(config, {});
  ASSERT_TRUE(until([&] { return held->over(); })) << "people are still there";
  EXPECT_EQ(held->tokens.size(), 5U);
}

TEST_F(FleetTest, AnEngineThatNoProfileHasIsNotStarted) {
  model("a", "");
  FleetOptions options;
  options.own_engines["vulkan:night"] = {};
  make(std::move(options));
  EXPECT_EQ(acquire("a", "cpu:night").error().code, ErrorCode::model_unavailable);
  EXPECT_EQ(acquire("a", "vulkan:night").error().code, ErrorCode::model_unavailable) << "no device is here";
  EXPECT_TRUE(fleet->own_engines().empty());
  EXPECT_EQ(loads("a"), 0);
}

TEST_F(FleetTest, UnloadEndsOneOfTheEnginesOfAModel) {
  model("a", "");
  FleetOptions options;
  options.own_engines["cpu:night"] = {};
  make(std::move(options));
  ASSERT_TRUE(acquire("a"));
  ASSERT_TRUE(acquire("a", "cpu:night"));
  EXPECT_EQ(unload("a", "cpu:night").value(), std::vector<std::string>{"cpu:night"});
  EXPECT_EQ(status_of("a").state, WorkerState::ready);
  EXPECT_EQ(status_of("a", "cpu:night").state, WorkerState::stopped);
}

TEST_F(FleetTest, ReloadKeepsAnEngineOfItsOwnWhileItsSettingsStay) {
  model("a", "");
  FleetOptions options;
  options.own_engines["cpu:night"] = {1U, 10};
  options.own_engines["cpu:gone"] = {};
  make(std::move(options));
  ASSERT_TRUE(acquire("a") && acquire("a", "cpu:night") && acquire("a", "cpu:gone"));
  const int shared = status_of("a").pid, night = status_of("a", "cpu:night").pid,
            gone = status_of("a", "cpu:gone").pid;

  fleet->set_own_engines({{"cpu:night", {1U, 10}}});
  fleet->reload(config, {});
  EXPECT_EQ(status_of("a", "cpu:night").pid, night);
  EXPECT_EQ(status_of("a", "cpu:gone").pid, 0) << "no profile wants it";
  ASSERT_TRUE(until([&] { return kill(gone, 0) != 0; }));
  EXPECT_EQ(acquire("a", "cpu:gone").error().code, ErrorCode::model_unavailable);

  fleet->set_own_engines({{"cpu:night", {2U, 10}}});
  fleet->reload(config, {});
  ASSERT_TRUE(acquire("a", "cpu:night"));
  EXPECT_NE(status_of("a", "cpu:night").pid, night);
  EXPECT_EQ(word_behind(status_of("a", "cpu:night").pid, "--threads"), "2");
  EXPECT_EQ(status_of("a").pid, shared);
}

TEST_F(FleetTest, WhoWaitsForAnEngineOfItsOwnGetsTheOneWithTheNewSettings) {
  model("a", "load_ms=60000");
  FleetOptions options;
  options.own_engines["cpu:night"] = {1U, 10};
  make(std::move(options));
  std::optional<Result<Backend*>> got;
  fleet->acquire("a", "cpu:night", [&](Result<Backend*> result) { got = std::move(result); });
  ASSERT_TRUE(until([&] { return status_of("a", "cpu:night").pid > 0; }));
  config.models[0].path = "load_ms=1";
  fleet->set_own_engines({{"cpu:night", {2U, 5}}});
  fleet->reload(config, {});
  ASSERT_TRUE(until([&] { return got.has_value(); }));
  ASSERT_TRUE(*got) << got->error().message;
  EXPECT_EQ(word_behind(status_of("a", "cpu:night").pid, "--nice"), "5");
}

}  // namespace
}  // namespace flyball::fleet
