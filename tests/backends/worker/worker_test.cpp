// Real worker processes around the scripted backend: start, stream, fall behind, break the protocol, die.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>
#include <boost/asio/steady_timer.hpp>

#include "backends/worker/client.hpp"
#include "backends/worker/codec.hpp"
#include "backends/worker/wire.hpp"
#include "tests/backends/worker/fake_backend.hpp"
#include "tests/backends/worker/frame_line.hpp"
#include "tests/backends/worker/loop.hpp"
#include "tests/harness/epoll_fault.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::RecordingSink;
using test::request;

struct WorkerTest : ::testing::Test {
  boost::asio::io_context io;
  WorkerOptions options;
  std::unique_ptr<WorkerClient> client;
  bool ready = false;
  std::vector<Error> deaths;
  std::function<void()> on_death;

  void spawn(const std::string& script) {
    options.model_id = "m";
    options.model_path = script;
    options.executable = FAKE_ENGINE;
    options.heartbeat = milliseconds(50);
    auto made = WorkerClient::spawn(io, options,
                                    {.ready = [this] { ready = true; },
                                     .died =
                                         [this](const Error& error) {
                                           deaths.push_back(error);
                                           if (on_death) on_death();
                                         }});
    ASSERT_TRUE(made) << made.error().message;
    client = std::move(*made);
  }
  void spawn_ready(const std::string& script) {
    spawn(script);
    ASSERT_TRUE(until([this] { return ready; })) << (deaths.empty() ? "" : deaths[0].message);
  }
  bool until(const std::function<bool()>& done, milliseconds limit = seconds(60)) {
    return test::run_until(io, done, limit);
  }
  // Lets everything that was on its way arrive.
  void settle(milliseconds time = milliseconds(200)) {
    until([] { return false; }, time);
  }
};

bool process_exists(int pid) {
  return kill(pid, 0) == 0;
}

std::string counted(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += std::to_string(i) + " ";
  return text;
}

TEST_F(WorkerTest, StreamsACompletion) {
  spawn_ready("tokens=100");
  EXPECT_EQ(client->info().vocab_size, test::kFakeVocab);
  EXPECT_EQ(client->info().model, "m");
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = client->start(request(), sink);
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(until([&] { return sink->over(); }));
  EXPECT_EQ(sink->text, counted(0, 100));
  ASSERT_EQ(sink->done.size(), 1U);
  EXPECT_EQ(sink->done[0].usage.completion_tokens, 100U);
  EXPECT_TRUE(sink->errors.empty());
}

TEST_F(WorkerTest, ResumesWhereAnotherEngineDied) {
  spawn_ready("tokens=20");
  auto sink = std::make_shared<RecordingSink>();
  CompletionRequest q = request();
  q.resume_tokens = {0, 1, 2};
  auto ticket = client->start(q, sink);
  ASSERT_TRUE(until([&] { return sink->over(); }));
  EXPECT_EQ(sink->text, counted(3, 20));
}

TEST_F(WorkerTest, ManyStreamsKeepTheirOrder) {
  spawn_ready("tokens=200");
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<Ticket> tickets;
  for (int i = 0; i < 30; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    tickets.push_back(std::move(*client->start(request(), sinks.back())));
  }
  ASSERT_TRUE(until([&] { return std::ranges::all_of(sinks, [](const auto& s) { return s->over(); }); }));
  for (const auto& s : sinks) EXPECT_EQ(s->text, counted(0, 200));
}

TEST_F(WorkerTest, HeartbeatsCarryProgress) {
  spawn_ready("tokens=1000000,delay_us=1000");
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = client->start(request(), sink);
  ASSERT_TRUE(until([&] { return client->load().running == 1 && client->load().steps > 0; }));
  const auto steps = client->load().steps;
  const auto before = std::chrono::steady_clock::now();
  ASSERT_TRUE(until([&] { return client->load().steps > steps; }));
  const auto without = client->without_progress();
  EXPECT_LE(without, std::chrono::steady_clock::now() - before);
}

TEST_F(WorkerTest, TellsWhichPrefixesTheEngineKeepsUntilTheyAreDropped) {
  spawn_ready("tokens=3");
  EXPECT_TRUE(client->kept_prefixes().empty());
  CompletionRequest keep = request();
  keep.owner = "app";
  keep.wanted = Wanted::kept_prefix;
  keep.kept = "rules";
  const auto sink = std::make_shared<RecordingSink>();
  auto ticket = client->start(keep, sink);
  ASSERT_TRUE(ticket) << ticket.error().message;
  ASSERT_TRUE(until([&] { return client->kept_prefixes().size() == 1; }));
  EXPECT_EQ(client->kept_prefixes()[0], (KeptPrefixState{"app", "rules", 32, 32, 0, 32, 0, 0}));
  client->drop_kept_prefix("app", "rules");
  EXPECT_TRUE(until([&] { return client->kept_prefixes().empty(); }));
}

TEST_F(WorkerTest, CancelReachesTheEngine) {
  spawn_ready("tokens=1000000,delay_us=500");
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = client->start(request(), sink);
  ASSERT_TRUE(until([&] { return sink->pushes > 3; }));
  ticket->cancel();
  const std::size_t pushes = sink->pushes;
  ASSERT_TRUE(until([&] { return client->load().running == 0; }));
  EXPECT_EQ(sink->pushes, pushes);  // never called after the ticket is gone
  EXPECT_EQ(sink.use_count(), 1);
}

TEST_F(WorkerTest, CancelInsideAPushIsSafe) {
  spawn_ready("tokens=1000000");
  auto sink = std::make_shared<RecordingSink>();
  Ticket ticket;
  sink->on_push = [&] { ticket.cancel(); };
  ticket = std::move(*client->start(request(), sink));
  ASSERT_TRUE(until([&] { return sink->pushes > 0; }));
  settle();
  EXPECT_EQ(sink->pushes, 1U);
}

// The client of one stream stops reading: its sequence pauses (what was on its way still arrives, a bounded
// amount), the other stream goes on, and after resume() nothing is missing.
TEST_F(WorkerTest, ASlowReaderIsPausedAndLosesNothing) {
  constexpr int kTokens = 20'000;
  spawn_ready("text_bytes=200");
  auto slow = std::make_shared<RecordingSink>();
  slow->accept = false;
  auto slow_ticket = client->start(request(kTokens), slow);
  ASSERT_TRUE(until([&] { return slow->pushes > 0; }));
  std::size_t before = 0;
  ASSERT_TRUE(until([&] {
    const bool still = slow->pushes == before;
    before = slow->pushes;
    if (!still) settle(milliseconds(100));
    return still;
  }));
  EXPECT_FALSE(slow->over());
  // A read, the socket's buffers and the worker's queue: never the whole 4 MB.
  EXPECT_LT(slow->text.size(), 1'500'000U);
  auto fast = std::make_shared<RecordingSink>();
  auto fast_ticket = client->start(request(100), fast);
  ASSERT_TRUE(until([&] { return fast->over(); }));
  EXPECT_EQ(slow->pushes, before);
  slow->accept = true;
  slow_ticket->resume();
  ASSERT_TRUE(until([&] { return slow->over(); }));
  ASSERT_EQ(slow->tokens.size(), static_cast<std::size_t>(kTokens));
  for (int i = 0; i < kTokens; ++i) ASSERT_EQ(slow->tokens[static_cast<std::size_t>(i)], i);
}

// Our own loop stands still: the worker's queue fills, its engine pauses, and everything arrives afterwards.
TEST_F(WorkerTest, AStoppedDaemonLoopLosesNothing) {
  constexpr int kTokens = 30'000;
  spawn_ready("text_bytes=100");
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = client->start(request(kTokens), sink);
  ASSERT_TRUE(until([&] { return sink->pushes > 0; }));
  std::this_thread::sleep_for(milliseconds(500));
  ASSERT_TRUE(until([&] { return sink->over(); }));
  EXPECT_EQ(sink->tokens.size(), static_cast<std::size_t>(kTokens));
  EXPECT_TRUE(deaths.empty());
}

// Its frame shares two values with it, and each is longer than what the socket takes.
CompletionRequest long_chat(char letter) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  static_assert(kBytes > WireWriter::kSharedBytes);
  const std::string text(kBytes, letter);
  CompletionRequest q = request();
  q.prompt = ChatPrompt{test::packed("[\"" + text + "\"]"), test::packed("[\"short\"]"),
                        test::packed("{\"a\":\"" + text + "\"}"), true};
  return q;
}

// The process stops before the second chat, and goes on behind the third. Nothing but the frames has the
// values of the chats meanwhile.
TEST_F(WorkerTest, AReaderThatStoodStillReadsEveryFrameInOrder) {
  options.heartbeat_timeout = std::chrono::minutes(10);  // it sends no heartbeat
  spawn_ready("tells_frames");
  std::string sent;
  const auto note = [&](const ToWorker& message) {
    sent += test::frame_line(std::string_view(*encode(message)).substr(kFrameHeaderBytes));
  };
  const auto start = [&](TicketId ticket, char letter, const std::shared_ptr<RecordingSink>& sink) {
    CompletionRequest chat = long_chat(letter);
    note(Start{ticket, chat});
    return client->start(std::move(chat), sink);
  };
  const auto paused = std::make_shared<RecordingSink>(), cancelled = std::make_shared<RecordingSink>(),
             last = std::make_shared<RecordingSink>();
  paused->accept = false;
  note(Hello{kProtocolVersion, static_cast<std::uint32_t>(options.heartbeat.count())});
  auto first = start(1, 'a', paused);
  ASSERT_TRUE(first);
  ASSERT_TRUE(until([&] { return paused->pushes > 0; }));
  note(Pause{1});

  kill(client->pid(), SIGSTOP);
  siginfo_t stopped{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(client->pid()), &stopped, WSTOPPED), 0);
  auto second = start(2, 'b', cancelled);
  ASSERT_TRUE(second);
  io.restart();
  io.poll();  // the socket is full
  first->resume();
  note(Resume{1});
  second->cancel();
  note(Cancel{2});
  auto third = start(3, 'c', last);
  ASSERT_TRUE(third);
  io.restart();
  io.poll();
  kill(client->pid(), SIGCONT);
  ASSERT_TRUE(until([&] { return last->pushes > 0; })) << (deaths.empty() ? "" : deaths[0].message);
  EXPECT_EQ(last->text, sent);
  EXPECT_EQ(cancelled->pushes, 0U);
}

TEST_F(WorkerTest, KilledMidStreamEveryRequestHearsItOnce) {
  spawn_ready("tokens=1000000,delay_us=500");
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<Ticket> tickets;
  for (int i = 0; i < 5; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    tickets.push_back(std::move(*client->start(request(), sinks.back())));
  }
  ASSERT_TRUE(until([&] { return std::ranges::all_of(sinks, [](const auto& s) { return s->pushes > 2; }); }));
  bool streams_first = false;
  on_death = [&] {
    streams_first = std::ranges::all_of(sinks, [](const auto& s) { return s->errors.size() == 1; });
  };
  kill(client->pid(), SIGKILL);
  ASSERT_TRUE(until([&] { return !deaths.empty(); }));
  settle();
  EXPECT_TRUE(streams_first);
  ASSERT_EQ(deaths.size(), 1U);
  EXPECT_EQ(deaths[0].code, ErrorCode::worker_died);
  EXPECT_NE(deaths[0].message.find("signal 9"), std::string::npos) << deaths[0].message;
  for (const auto& s : sinks) {
    ASSERT_EQ(s->errors.size(), 1U);
    EXPECT_EQ(s->errors[0].code, ErrorCode::worker_died);
    EXPECT_TRUE(s->done.empty());
  }
  auto late = client->start(request(), std::make_shared<RecordingSink>());
  EXPECT_FALSE(late);
}

TEST_F(WorkerTest, TheRealCauseOfAFailedLoadArrives) {
  spawn("fail=model_invalid");
  ASSERT_TRUE(until([&] { return !deaths.empty(); }));
  EXPECT_FALSE(ready);
  EXPECT_EQ(deaths[0].code, ErrorCode::model_invalid);
  EXPECT_EQ(deaths[0].message, "the script says so");
  EXPECT_EQ(deaths[0].where, "byte 7");
}

TEST_F(WorkerTest, ACrashWhileLoadingIsADeath) {
  spawn("crash_load");
  ASSERT_TRUE(until([&] { return !deaths.empty(); }));
  EXPECT_EQ(deaths[0].code, ErrorCode::worker_died);
  EXPECT_NE(deaths[0].message.find("signal 6"), std::string::npos) << deaths[0].message;
}

// First the socket, then the process: what cannot be watched has ended, and leaves nothing behind.
TEST_F(WorkerTest, AProcessThatCannotBeWatchedIsNone) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  const boost::asio::steady_timer first(io);     // Asio's own descriptors are added for whoever comes first
  while (waitpid(-1, nullptr, 0) > 0) continue;  // those of other tests, which ended
  const auto before = descriptors();
  options.executable = FAKE_ENGINE;
  for (const int n : {0, 1}) {
    test::fail_epoll_add_after(n);
    const auto made = WorkerClient::spawn(io, options, {});
    test::fail_epoll_add_after(-1);
    ASSERT_FALSE(made) << n;
    EXPECT_EQ(made.error().code, ErrorCode::model_unavailable);
    EXPECT_NE(made.error().message.find("No space left on device"), std::string::npos)
        << made.error().message;
    EXPECT_EQ(descriptors(), before) << n;
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << n;
  }
  spawn_ready("");
}

TEST_F(WorkerTest, AProgramThatCannotRunIsADeath) {
  options.executable = "/nonexistent/flyball";
  auto made = WorkerClient::spawn(io, options,
                                  {.ready = {}, .died = [this](const Error& e) { deaths.push_back(e); }});
  ASSERT_TRUE(made);
  ASSERT_TRUE(until([&] { return !deaths.empty(); }));
  EXPECT_NE(deaths[0].message.find("could not be executed"), std::string::npos) << deaths[0].message;
}

struct Misbehaviour {
  const char* script;
  const char* expected;
};
void PrintTo(const Misbehaviour& one, std::ostream* out) {
  *out << one.script;
}
struct WorkerMisbehaves : WorkerTest, ::testing::WithParamInterface<Misbehaviour> {};

TEST_P(WorkerMisbehaves, IsStoppedAndNamed) {
  spawn(GetParam().script);
  const int pid = client->pid();
  std::shared_ptr<RecordingSink> sink;
  Result<Ticket> ticket = fail(ErrorCode::internal, "");
  if (std::string(GetParam().script).starts_with("bad_")) {
    ASSERT_TRUE(until([this] { return ready; }));
    sink = std::make_shared<RecordingSink>();
    ticket = client->start(request(), sink);
  }
  ASSERT_TRUE(until([&] { return !deaths.empty(); }));
  EXPECT_EQ(deaths[0].code, ErrorCode::worker_died);
  EXPECT_NE(deaths[0].message.find(GetParam().expected), std::string::npos) << deaths[0].message;
  EXPECT_FALSE(process_exists(pid));
  if (sink) {
    ASSERT_EQ(sink->errors.size(), 1U);
    EXPECT_TRUE(sink->text.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Protocol, WorkerMisbehaves,
                         ::testing::Values(Misbehaviour{"junk", "length is"},
                                           Misbehaviour{"oversize", "length is 2147483647"},
                                           Misbehaviour{"no_hello", "no hello came first"},
                                           Misbehaviour{"flood_unknown", "never sent"},
                                           Misbehaviour{"bad_token", "beyond the vocabulary"},
                                           Misbehaviour{"bad_utf8", "not UTF-8"},
                                           Misbehaviour{"bad_echo", "not asked for"}),
                         [](const auto& i) { return std::string(i.param.script); });

TEST_F(WorkerTest, ASilentWorkerRunsOutOfTime) {
  options.ready_timeout = milliseconds(300);
  spawn("silent");
  ASSERT_TRUE(until([&] { return !deaths.empty(); }));
  EXPECT_EQ(deaths[0].code, ErrorCode::model_unavailable);
  EXPECT_NE(deaths[0].message.find("300 ms"), std::string::npos) << deaths[0].message;
}

TEST_F(WorkerTest, ALongLoadBeatsOnAndBecomesReady) {
  options.heartbeat_timeout = milliseconds(1000);
  spawn_ready("load_ms=2000");
}

TEST_F(WorkerTest, AStoppedProcessMissesItsHeartbeat) {
  options.heartbeat_timeout = milliseconds(1000);
  spawn_ready("tokens=1000000,delay_us=1000,stop_after=3");
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = client->start(request(), sink);
  ASSERT_TRUE(until([&] { return !deaths.empty(); }));
  EXPECT_NE(deaths[0].message.find("no heartbeat"), std::string::npos) << deaths[0].message;
  EXPECT_EQ(sink->errors.size(), 1U);
}

// It beats, but its scheduler makes no step although a request waits: no wedge behind a green health check.
TEST_F(WorkerTest, AWedgedEngineIsKilled) {
  options.stall_timeout = milliseconds(1500);
  spawn_ready("tokens=1000000,wedge_after=3");
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = client->start(request(), sink);
  ASSERT_TRUE(until([&] { return client->without_progress() > milliseconds(200); }));
  ASSERT_TRUE(until([&] { return !deaths.empty(); }));
  EXPECT_NE(deaths[0].message.find("no step"), std::string::npos) << deaths[0].message;
  EXPECT_EQ(sink->text, counted(0, 3));
  ASSERT_EQ(sink->errors.size(), 1U);
}

// A stream that waits for its own reader is no wedge.
TEST_F(WorkerTest, APausedStreamIsNoWedge) {
  options.stall_timeout = milliseconds(1000);
  spawn_ready("text_bytes=2000");
  auto sink = std::make_shared<RecordingSink>();
  sink->accept = false;
  auto ticket = client->start(request(100'000), sink);
  settle(milliseconds(1500));
  EXPECT_TRUE(deaths.empty()) << deaths[0].message;
  EXPECT_EQ(client->without_progress(), milliseconds(0));
}

TEST_F(WorkerTest, DrainFinishesWhatRuns) {
  spawn_ready("tokens=300,delay_us=1000");
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = client->start(request(), sink);
  client->drain(std::chrono::steady_clock::now() + seconds(20));
  auto refused = client->start(request(), std::make_shared<RecordingSink>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::shutting_down);
  ASSERT_TRUE(until([&] { return !deaths.empty(); }));
  EXPECT_EQ(deaths[0].code, ErrorCode::shutting_down);
  EXPECT_EQ(sink->done.size(), 1U);
  EXPECT_EQ(sink->text, counted(0, 300));
}

TEST_F(WorkerTest, DrainEndsAtItsDeadline) {
  spawn_ready("tokens=100000000,delay_us=1000");
  auto sink = std::make_shared<RecordingSink>();
  auto ticket = client->start(request(), sink);
  ASSERT_TRUE(until([&] { return sink->pushes > 0; }));
  const auto began = std::chrono::steady_clock::now();
  client->drain(began + milliseconds(300));
  ASSERT_TRUE(until([&] { return !deaths.empty(); }));
  // At a token a millisecond its request would take a day.
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(60));
  EXPECT_TRUE(sink->over());
}

TEST_F(WorkerTest, TheOwnersEndKillsTheProcess) {
  spawn_ready("tokens=10");
  const int pid = client->pid();
  client.reset();
  ASSERT_TRUE(until([&] { return !process_exists(pid); }));
  EXPECT_TRUE(deaths.empty());
}

TEST_F(WorkerTest, AHugeRequestIsRefusedHere) {
  spawn_ready("tokens=10");
  CompletionRequest q = request();
  q.prompt = TextPrompt{std::string(33U << 20, 'x')};
  auto ticket = client->start(std::move(q), std::make_shared<RecordingSink>());
  ASSERT_FALSE(ticket);
  EXPECT_EQ(ticket.error().code, ErrorCode::body_too_large);
}

// The daemon is killed: its workers must not stay behind. A child process plays the daemon.
TEST(WorkerOrphans, DieWithTheirDaemon) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t daemon = fork();
  if (daemon == 0) {
    boost::asio::io_context io;
    WorkerOptions options;
    options.model_path = "tokens=1";
    options.executable = FAKE_ENGINE;
    bool ready = false;
    auto client = WorkerClient::spawn(io, options, {.ready = [&] { ready = true; }, .died = {}});
    test::run_until(io, [&] { return ready; });
    const int pid = (*client)->pid();
    [[maybe_unused]] const auto n = write(pipe_fds[1], &pid, sizeof pid);
    while (true) pause();
  }
  int worker = 0;
  ASSERT_EQ(read(pipe_fds[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ASSERT_TRUE(process_exists(worker));
  kill(daemon, SIGKILL);
  waitpid(daemon, nullptr, 0);
  // It is init's child now and may stay a zombie where nobody reaps: dead counts.
  const auto dead = [worker] {
    char state = 'X';
    if (FILE* f = std::fopen(("/proc/" + std::to_string(worker) + "/stat").c_str(), "r")) {
      if (std::fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = '?';
      std::fclose(f);
    }
    return state == 'X' || state == 'Z';
  };
  for (int i = 0; i < 6000 && !dead(); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(dead());
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

}  // namespace
}  // namespace flyball::worker
