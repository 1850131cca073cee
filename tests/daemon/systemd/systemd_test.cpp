// sd_notify against a socket of our own, the watchdog's judgement, and the fields of log lines.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "daemon/systemd/logging.hpp"
#include "daemon/systemd/notify.hpp"
#include "daemon/systemd/progress.hpp"

namespace flyball::systemd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class NotifySocket {
 public:
  NotifySocket()
      : path_(std::filesystem::temp_directory_path() / ("flyball-notify-" + std::to_string(getpid()))) {
    std::filesystem::remove(path_);
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.string().copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  }
  ~NotifySocket() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(fd_);
    std::filesystem::remove(path_);
  }
  std::string receive() const {
    char buffer[4096];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    return n < 0 ? "" : std::string(buffer, static_cast<std::size_t>(n));
  }

 private:
  std::filesystem::path path_;
  int fd_;
};

TEST(Notifier, SaysWhatSystemdReads) {
  const NotifySocket socket;
  const Notifier notifier;
  EXPECT_FALSE(notifier.watchdog_interval());
  notifier.ready("serving\nwell");
  EXPECT_EQ(socket.receive(), "READY=1\nSTATUS=serving well");
  notifier.reloading();
  const std::string reloading = socket.receive();
  EXPECT_TRUE(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC=")) << reloading;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long long said = std::stoll(reloading.substr(reloading.rfind('=') + 1));
  EXPECT_NEAR(static_cast<double>(said),
              static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3, 5e6);
  notifier.stopping("draining");
  EXPECT_EQ(socket.receive(), "STOPPING=1\nSTATUS=draining");
  notifier.watchdog();
  EXPECT_EQ(socket.receive(), "WATCHDOG=1");
}

TEST(Notifier, FeedsTwiceAsOftenAsAsked) {
  const NotifySocket socket;
  setenv("WATCHDOG_USEC", "3000000", 1);
  unsetenv("WATCHDOG_PID");
  EXPECT_EQ(Notifier().watchdog_interval(), milliseconds(1500));
}

TEST(Notifier, IsSilentWithoutSystemd) {
  unsetenv("NOTIFY_SOCKET");
  Notifier().ready("nobody hears");
}

struct JudgeTest : ::testing::Test {
  ProgressJudge judge{seconds(10)};
  ProgressJudge::TimePoint now{seconds(100)};
};

TEST_F(JudgeTest, AnIdleDaemonIsHealthyForEver) {
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(judge.healthy({}, now += seconds(60)));
}

TEST_F(JudgeTest, RequestsWithoutMovementAreAWedge) {
  Observation seen{.finished = 5, .engine_steps = 100, .waiting = true, .worst_engine = {}};
  EXPECT_TRUE(judge.healthy(seen, now));
  EXPECT_TRUE(judge.healthy(seen, now + seconds(10)));
  EXPECT_FALSE(judge.healthy(seen, now + seconds(11)));
  seen.engine_steps = 101;
  EXPECT_TRUE(judge.healthy(seen, now + seconds(12)));
  EXPECT_FALSE(judge.healthy(seen, now + seconds(30)));
  seen.finished = 6;
  EXPECT_TRUE(judge.healthy(seen, now + seconds(31)));
  seen.waiting = false;
  EXPECT_TRUE(judge.healthy(seen, now + seconds(300)));
}

// One wedged engine shows although another one is busy.
TEST_F(JudgeTest, OneWedgedEngineIsEnough) {
  Observation seen{.finished = 0, .engine_steps = 0, .waiting = true, .worst_engine = seconds(11)};
  EXPECT_FALSE(judge.healthy(seen, now));
}

TEST(LogFields, AreTheTailOfTheMessage) {
  const LogLine line = split_fields("chat completed in 12 ms | request_id=r-1 app=example code=");
  EXPECT_EQ(line.message, "chat completed in 12 ms");
  ASSERT_EQ(line.fields.size(), 3U);
  EXPECT_EQ(line.fields[0].first, "FLYBALL_REQUEST_ID");
  EXPECT_EQ(line.fields[0].second, "r-1");
  EXPECT_EQ(line.fields[2].second, "");
}

TEST(LogFields, OtherMessagesStayWhole) {
  for (const char* text : {"plain", "a | b", "a | b=c d", "a | =x", "a | k-y=v", ""}) {
    const LogLine line = split_fields(text);
    EXPECT_EQ(line.message, text);
    EXPECT_TRUE(line.fields.empty());
  }
}

}  // namespace
}  // namespace flyball::systemd
