// The log's thread: nobody who logs waits for a reader, what is lost is counted and told, and an end waits
// for a bounded time.
#include "daemon/systemd/log_writer.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "daemon/systemd/logging.hpp"

namespace flyball::systemd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// A reader of lines that a test stops by closing its door. Shared with a thread that may be
// left behind.
class Door {
 public:
  LogWriter::Write write() const {
    return [state = state_](const LogEntry& entry) {
      std::unique_lock lock(state->mutex);
      state->reached = true;
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return state->open; });
      if (state->error == 0) state->lines.push_back(entry.text);
      return state->error;
    };
  }
  void set_open(bool open) {
    change([&] { state_->open = open; });
  }
  void set_error(int error) {
    change([&] { state_->error = error; });
  }
  void wait_until_reached() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->reached; });
  }
  std::vector<std::string> lines() const {
    const std::scoped_lock lock(state_->mutex);
    return state_->lines;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = true, reached = false;
    int error = 0;
    std::vector<std::string> lines;
  };
  template <class Change>
  void change(Change how) {
    const std::scoped_lock lock(state_->mutex);
    how();
    state_->changed.notify_all();
  }
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

LogEntry line(std::string text, spdlog::level::level_enum level = spdlog::level::info) {
  return {level, spdlog::log_clock::now(), std::move(text)};
}

TEST(LogWriter, WritesEveryLineInOrderBeforeItEnds) {
  Door door;
  std::vector<std::string> expected;
  {
    LogWriter writer(door.write());
    for (int i = 0; i < 1000; ++i) writer.post(line(expected.emplace_back(std::to_string(i))));
  }
  EXPECT_EQ(door.lines(), expected);
  EXPECT_TRUE(wait_for_log(milliseconds(0)));
}

TEST(LogWriter, DropsAndCountsLinesWhileTheReaderIsStopped) {
  Door door;
  door.set_open(false);
  const std::uint64_t lost_before = lost_log_lines();
  {
    LogWriter writer(door.write(), 64 * 1024);
    writer.post(line("first"));
    door.wait_until_reached();
    for (int i = 0; i < 10'000; ++i) writer.post(line(std::string(100, 'x')));
    EXPECT_FALSE(wait_for_log(milliseconds(1)));
    door.set_open(true);
  }
  const std::vector<std::string> lines = door.lines();
  const std::uint64_t lost = lost_log_lines() - lost_before;
  EXPECT_GT(lost, 9'000U);
  ASSERT_EQ(lines.size(), 10'001 - lost + 1);  // and the warning, right behind the line that went out first
  EXPECT_EQ(lines[0], "first");
  EXPECT_EQ(lines[1], "the log could not be written, lines lost: " + std::to_string(lost) +
                          "; its queue was full, because they were written too slowly");
}

TEST(LogWriter, KeepsRoomForWarningsWhileOtherLinesFlood) {
  Door door;
  door.set_open(false);
  {
    LogWriter writer(door.write(), 64 * 1024);
    for (int i = 0; i < 10'000; ++i) writer.post(line(std::string(100, 'x')));
    writer.post(line("important", spdlog::level::warn));
    door.set_open(true);
  }
  const std::vector<std::string> lines = door.lines();
  EXPECT_NE(std::ranges::find(lines, "important"), lines.end());
}

TEST(LogWriter, EndsAlthoughTheReaderIsStopped) {
  Door door;
  door.set_open(false);
  const auto before = steady_clock::now();
  {
    LogWriter writer(door.write());
    writer.post(line("stuck"));
    writer.post(line("never written"));
  }
  const auto took = steady_clock::now() - before;
  EXPECT_GE(took, LogWriter::kLastWait);
  EXPECT_LT(took, LogWriter::kLastWait + seconds(60));
  // Nobody waits for lines that were given up, also after the thread has gone on.
  EXPECT_TRUE(wait_for_log(milliseconds(0)));
  door.set_open(true);
  LogWriter next(door.write());
  next.post(line("next"));
  EXPECT_TRUE(wait_for_log(seconds(10)));
}

TEST(LogWriter, TellsWhatItLostAtItsEndAlthoughItWarnedAMomentAgo) {
  Door door;
  {
    LogWriter writer(door.write());
    for (int i = 0; i < 2; ++i) {
      door.set_error(ENOSPC);
      writer.post(line("lost"));
      EXPECT_TRUE(wait_for_log(seconds(10)));
      door.set_error(0);
      writer.post(line("kept"));
      EXPECT_TRUE(wait_for_log(seconds(10)));
    }
  }
  const std::string warning = "the log could not be written, lines lost: 1; No space left on device";
  EXPECT_EQ(door.lines(), (std::vector<std::string>{"kept", warning, "kept", warning}));
}

TEST(LostLines, AreToldOnceAMinute) {
  LostLines lines;
  LostLines::TimePoint now{seconds(1000)};
  EXPECT_FALSE(lines.warning(now));
  lines.lost("a");
  lines.lost("b");
  for (int i = 0; i < 2; ++i)  // until it is told
    EXPECT_EQ(lines.warning(now)->text, "the log could not be written, lines lost: 2; b");
  const auto warning = *lines.warning(now);
  lines.lost("c");  // while the warning is written
  lines.told(warning, now);
  EXPECT_TRUE(lines.any());
  EXPECT_FALSE(lines.warning(now + seconds(59)));
  EXPECT_TRUE(lines.warning(now + seconds(59), true));
  lines.lost("d");
  EXPECT_EQ(lines.warning(now + seconds(60))->text, "the log could not be written, lines lost: 2; d");
  lines.told(*lines.warning(now + seconds(60)), now + seconds(60));
  EXPECT_FALSE(lines.warning(now + seconds(600)));
}

// The program's own stderr, for a while another file; and spdlog's logger as it was.
class Stderr {
 public:
  explicit Stderr(int fd) : before_(dup(STDERR_FILENO)), logger_(spdlog::default_logger()) {
    unsetenv("JOURNAL_STREAM");
    become(fd);
  }
  ~Stderr() {
    wait_for_log();
    dup2(before_, STDERR_FILENO);
    close(before_);
    spdlog::set_default_logger(logger_);
  }
  // Lines logged before go where stderr was before.
  void become(int fd) {
    wait_for_log();
    dup2(fd, STDERR_FILENO);
  }

 private:
  int before_;
  std::shared_ptr<spdlog::logger> logger_;
};

std::string content(std::FILE* file) {
  std::string text(64 * 1024, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

// Room for one line and not for what it tells of: that is told later, and at once.
TEST(Logging, CountsLostLinesUntilTheWarningIsWritten) {
  const int full = open("/dev/full", O_WRONLY);
  std::FILE* const file = std::tmpfile();
  ASSERT_TRUE(file != nullptr && full >= 0);
  {
    Stderr stderr_is(full);
    set_up_logging("info");
    for (int i = 0; i < 3; ++i) spdlog::info("lost {}", i);
    stderr_is.become(fileno(file));
    const auto signal_before = signal(SIGXFSZ, SIG_IGN);
    rlimit limit_before = {};
    getrlimit(RLIMIT_FSIZE, &limit_before);
    const rlimit one_line{41, limit_before.rlim_max};  // bytes: as many as the first line has
    setrlimit(RLIMIT_FSIZE, &one_line);
    spdlog::info("kept one");
    EXPECT_TRUE(wait_for_log(seconds(10)));
    setrlimit(RLIMIT_FSIZE, &limit_before);
    signal(SIGXFSZ, signal_before);
    spdlog::info("kept two");
  }
  const std::string text = content(file);
  std::fclose(file);
  close(full);
  const auto one = text.find("kept one"), two = text.find("kept two");
  const auto told = text.find("lines lost: 3; No space left on device");
  EXPECT_LT(one, two) << text;
  EXPECT_NE(told, std::string::npos) << text;
  EXPECT_LT(two, told) << text;
}

// A disk that is full for a while: /dev/full stands in for it, and a file for the disk that has room again.
TEST(Logging, GoesOnAfterAFullDiskAndTellsWhatIsMissing) {
  const int full = open("/dev/full", O_WRONLY);
  std::FILE* const file = std::tmpfile();
  ASSERT_TRUE(file != nullptr && full >= 0);
  {
    Stderr stderr_is(full);
    set_up_logging("info");
    for (int i = 0; i < 3; ++i) spdlog::info("lost {}", i);
    stderr_is.become(fileno(file));
    spdlog::info("kept one");
    spdlog::info("kept two");
  }
  const std::string text = content(file);
  std::fclose(file);
  close(full);
  const auto kept = text.find("kept one"), told = text.find("lines lost: 3; No space left on device");
  EXPECT_NE(told, std::string::npos) << text;
  EXPECT_LT(kept, told) << text;
  EXPECT_LT(told, text.find("kept two")) << text;
  EXPECT_EQ(text.find("lost 0"), std::string::npos) << text;
}

TEST(Logging, IsSetUpAgainWithoutALoss) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    const Stderr stderr_is(fileno(file));
    set_up_logging("info");
    spdlog::info("before");
    set_up_logging("warn");
    spdlog::info("too low");
    spdlog::warn("after");
  }
  const std::string text = content(file);
  std::fclose(file);
  EXPECT_LT(text.find("before"), text.find("after")) << text;
  EXPECT_NE(text.find("after"), std::string::npos) << text;
  EXPECT_EQ(text.find("too low"), std::string::npos) << text;
}

// Runs a process that logs and then ends in `end`, and returns the text it has written.
template <class End>
std::string logged_by_a_process(End end, int& status) {
  std::FILE* const file = std::tmpfile();
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("JOURNAL_STREAM");
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(fileno(file), STDERR_FILENO);
    set_up_logging("info");
    for (int i = 0; i < 2000; ++i) spdlog::info("line {}", i);
    end();
    _exit(99);
  }
  EXPECT_EQ(waitpid(child, &status, 0), child);
  std::string text(1 << 20, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Logging, LosesNothingWhereAnInvariantAborts) {
  int status = 0;
  const std::string text = logged_by_a_process([] { std::abort(); }, status);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  EXPECT_NE(text.find("line 1999\n"), std::string::npos);
}

TEST(Logging, WritesACriticalLineBeforeAnAbort) {
  int status = 0;
  const std::string text = logged_by_a_process(
      [] {
        spdlog::critical("the last word");
        std::abort();
      },
      status);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  EXPECT_NE(text.find("the last word\n"), std::string::npos);
}

TEST(Logging, DoesNotWaitForTheReaderOfACriticalLine) {
  int status = 0;
  logged_by_a_process(
      [] {
        int ends[2];
        if (pipe2(ends, O_NONBLOCK) != 0) _exit(98);
        while (write(ends[1], "x", 1) == 1) continue;
        fcntl(ends[1], F_SETFL, 0);  // a write hangs: the pipe is full
        dup2(ends[1], STDERR_FILENO);
        const auto before = std::chrono::steady_clock::now();
        spdlog::critical("to nobody");
        _exit(std::chrono::steady_clock::now() - before < LogWriter::kLastWait ? 0 : 1);
      },
      status);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: it waited";
}

TEST(Logging, LosesNothingAtAnOrdinaryExit) {
  int status = 0;
  const std::string text = logged_by_a_process([] { std::exit(0); }, status);
  EXPECT_EQ(status, 0);
  EXPECT_NE(text.find("line 1999\n"), std::string::npos);
}

}  // namespace
}  // namespace flyball::systemd
