// The gateway on real sockets: ports, peers, many connections, clients that vanish, and the way out.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/asio/executor_work_guard.hpp>

#include "daemon/api/table/codecs.hpp"
#include "daemon/api/gateway.hpp"
#include "daemon/api/openai/errors.hpp"
#include "daemon/http/listener.hpp"
#include "tests/daemon/api/wire.hpp"
#include "tests/harness/epoll_fault.hpp"

namespace flyball::testing {
namespace {

using namespace std::chrono_literals;

// A blocking client; the gateway runs on the test's thread while it waits.
class Client {
 public:
  explicit Client(int fd) : fd_(fd) {}
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Client() { close(); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void reset() {  // RST instead of FIN
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void send(std::string_view bytes) {
    ASSERT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  std::string take() {  // what has arrived; sets `eof`
    char buffer[65536];
    std::string out;
    for (;;) {
      const auto n = ::recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n == 0) eof = true;
      if (n <= 0) return out;
      out.append(buffer, static_cast<std::size_t>(n));
    }
  }
  bool eof = false;

 private:
  int fd_;
};

struct SocketTest : ::testing::Test {
  boost::asio::io_context io;
  std::shared_ptr<api::Settings> settings = make_settings();
  FakeFleet fleet{io};
  std::unique_ptr<api::Gateway> gateway;
  std::filesystem::path directory;

  void SetUp() override {
    char name[] = "/tmp/flyball-gateway-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory = name;
  }
  void TearDown() override {
    gateway.reset();
    std::filesystem::remove_all(directory);
  }
  void open() {
    gateway = std::make_unique<api::Gateway>(io, settings, make_hardware(), fleet, api::all_codecs());
    const auto ok = gateway->listen();
    ASSERT_TRUE(ok) << ok.error().message;
  }
  Client connect() {
    const std::string url = gateway->urls().at(0);
    if (url.starts_with("unix:")) {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      url.substr(5).copy(address.sun_path, sizeof address.sun_path - 1);
      const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
      EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
      return Client(fd);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return Client(fd);
  }
  // Runs the gateway until `done`, at most a minute (a loaded machine is no failure).
  bool until(const std::function<bool()>& done) {
    const auto give_up = std::chrono::steady_clock::now() + 60s;
    while (!done()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      io.restart();
      io.run_for(2ms);
    }
    return true;
  }
  std::vector<Answer> answers(Client& client, std::size_t n = 1) {
    std::string bytes;
    std::vector<Answer> out;
    bool whole = false;
    EXPECT_TRUE(until([&] {
      bytes += client.take();
      out = parse_answers(bytes, whole);
      return whole && out.size() >= n;
    })) << bytes;
    return out;
  }
};

TEST_F(SocketTest, tcp_with_keep_alive) {
  open();
  EXPECT_TRUE(gateway->urls().at(0).starts_with("http://127.0.0.1:"));
  Client client = connect();
  client.send(post("/v1/chat/completions", kHello));
  EXPECT_EQ(answers(client).at(0).status, 200);
  client.send(get("/v1/models") + get("/healthz"));
  EXPECT_EQ(answers(client, 2).at(1).status, 200);
  EXPECT_FALSE(client.eof);
  EXPECT_EQ(gateway->requests_finished(), 3U);
  EXPECT_EQ(gateway->inferences_finished(), 1U) << "the others kept no engine from being idle";
}

TEST_F(SocketTest, unix_socket_knows_its_peer) {
  settings->config.listeners[0].kind = config::Listener::Kind::unix_socket;
  settings->config.listeners[0].path = directory / "socket";
  settings->apps[2].unix_uid = ::getuid();
  open();
  Client client = connect();
  client.send(get("/v1/models", ""));
  EXPECT_EQ(answers(client).at(0).status, 200);
  EXPECT_EQ(std::filesystem::status(directory / "socket").permissions(), std::filesystem::perms{0660})
      << "its group is who may connect";
  gateway.reset();
  EXPECT_FALSE(std::filesystem::exists(directory / "socket"));
}

TEST_F(SocketTest, a_stale_socket_is_replaced_and_a_live_one_is_not) {
  settings->config.listeners[0].kind = config::Listener::Kind::unix_socket;
  settings->config.listeners[0].path = directory / "socket";
  open();
  api::Gateway second(io, settings, make_hardware(), fleet, api::all_codecs());
  const auto taken = second.listen();
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::io_error);
  EXPECT_TRUE(std::filesystem::exists(directory / "socket"));
  gateway.reset();
  sockaddr_un address{};  // bound, and left behind
  address.sun_family = AF_UNIX;
  (directory / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(left, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(left);
  EXPECT_TRUE(second.listen());
}

TEST_F(SocketTest, systemd_hands_over_its_sockets) {
  EXPECT_EXIT(  // in a process of its own: descriptor 3 and the environment are systemd's to use
      {
        const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
        if (::listen(fd, 1) != 0 || ::dup2(fd, 3) != 3) std::_Exit(1);
        ::setenv("LISTEN_FDS", "1", 1);
        ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
        config::Listener listener;
        listener.kind = config::Listener::Kind::systemd;
        const auto got = http::open_listener(listener);
        std::_Exit(got && got->size() == 1 && got->front().fd.get() == 3 && !got->front().file ? 0 : 2);
      },
      ::testing::ExitedWithCode(0), "");
  config::Listener listener;
  listener.kind = config::Listener::Kind::systemd;
  EXPECT_FALSE(http::open_listener(listener));  // nothing was passed to us
}

TEST_F(SocketTest, a_second_listener_that_fails_leaves_nothing_of_the_first) {
  config::Listener unix_listener;
  unix_listener.kind = config::Listener::Kind::unix_socket;
  unix_listener.path = directory / "socket";
  settings->config.listeners = {unix_listener, {}};
  settings->config.listeners[1].address = "not an address";
  gateway = std::make_unique<api::Gateway>(io, settings, make_hardware(), fleet, api::all_codecs());
  EXPECT_FALSE(gateway->listen());
  EXPECT_FALSE(std::filesystem::exists(directory / "socket"));
}

TEST_F(SocketTest, a_listener_that_cannot_be_watched_leaves_nothing) {
  config::Listener unix_listener;
  unix_listener.kind = config::Listener::Kind::unix_socket;
  unix_listener.path = directory / "socket";
  settings->config.listeners.insert(settings->config.listeners.begin(), unix_listener);
  for (const int n : {0, 1}) {
    gateway = std::make_unique<api::Gateway>(io, settings, make_hardware(), fleet, api::all_codecs());
    test::fail_epoll_add_after(n);
    const auto listening = gateway->listen();
    test::fail_epoll_add_after(-1);
    ASSERT_FALSE(listening) << n;
    EXPECT_FALSE(std::filesystem::exists(directory / "socket")) << n;
  }
  open();
  EXPECT_TRUE(std::filesystem::exists(directory / "socket"));
}

TEST_F(SocketTest, a_taken_port_is_named) {
  open();
  auto other = make_settings();
  const std::string url = gateway->urls().at(0);
  other->config.listeners[0].id = "lan";
  other->config.listeners[0].port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  api::Gateway second(io, other, make_hardware(), fleet, api::all_codecs());
  const auto taken = second.listen();
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message,
              ::testing::HasSubstr("port " + std::to_string(other->config.listeners[0].port) +
                                   " is taken: name another one for listener lan"));
}

TEST_F(SocketTest, clients_that_vanish_cancel_their_requests) {
  open();
  auto& engine = fleet.backend("demo", "cpu");
  engine.script = [](const CompletionRequest&) { return Script{.manual = true}; };
  for (const bool reset : {false, true})
    for (const auto body : {kHello, kHelloStream}) {
      Client client = connect();
      client.send(post("/v1/chat/completions", body));
      ASSERT_TRUE(until([&] { return engine.live() == 1; }));
      engine.emit(1);
      if (reset)
        client.reset();
      else
        client.close();
      EXPECT_TRUE(until([&] { return engine.live() == 0; }));
    }
  EXPECT_EQ(engine.cancelled, 4U);
  EXPECT_EQ(gateway->requests_in_flight(), 0U);
}

TEST_F(SocketTest, a_reader_that_stops_pauses_the_engine) {
  open();
  auto& engine = fleet.backend("demo", "cpu");
  engine.script = [](const CompletionRequest&) { return Script{.tokens = 20'000, .token_bytes = 2'000}; };
  Client client = connect();
  client.send(post("/v1/chat/completions", kHelloStream));
  ASSERT_TRUE(until([&] { return engine.paused > 0; }));
  const auto emitted = engine.emitted;
  io.restart();
  io.run_for(50ms);
  EXPECT_EQ(engine.emitted, emitted);
  std::size_t got = 0;
  EXPECT_TRUE(until([&] {
    got += client.take().size();
    return engine.emitted == 20'000 && gateway->requests_in_flight() == 0;
  })) << got;
}

TEST_F(SocketTest, slow_clients_time_out) {
  settings->config.http.header_timeout = 50ms;
  settings->config.http.idle_timeout = 100ms;
  open();
  Client slow = connect(), idle = connect();
  slow.send("GET / HT");
  EXPECT_EQ(answers(slow).at(0).status, 408);
  EXPECT_TRUE(until([&] { return slow.take().empty() && slow.eof; }));
  EXPECT_TRUE(until([&] { return idle.take().empty() && idle.eof; }));
}

TEST_F(SocketTest, connections_over_the_limit_are_told) {
  settings->config.http.connections = 2;
  open();
  Client one = connect(), two = connect();
  one.send(get("/healthz"));
  answers(one);
  Client three = connect();
  const Answer told = answers(three).at(0);
  // Written without the service, yet as the table of errors says.
  const auto expected = api::openai::error_response(
      {ErrorCode::overloaded, "Too many connections are open; try again.", {}, {}});
  EXPECT_EQ(told.status, expected.status);
  EXPECT_EQ(told.body, expected.body);
  for (const auto& field : expected.fields) EXPECT_EQ(told.field(field.name), field.value);
  EXPECT_TRUE(until([&] { return three.take().empty() && three.eof; }));
  two.close();
  EXPECT_TRUE(until([&] {
    Client again = connect();
    again.send(get("/healthz"));
    return answers(again).at(0).status == 200;
  }));
}

// No descriptor is left for a new client: it waits in the backlog, others are served, and it is served later.
TEST_F(SocketTest, out_of_descriptors_the_listener_waits_and_serves_on) {
  open();
  Client old = connect();
  old.send(get("/healthz"));
  answers(old);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  Client late = connect();  // in the backlog: nobody ran the gateway since
  const int lowest_free = ::dup(0);
  ::close(lowest_free);
  const rlimit none{static_cast<rlim_t>(lowest_free), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  late.send(get("/healthz"));
  for (int i = 0; i < 3; ++i) {
    old.send(get("/healthz"));
    EXPECT_EQ(answers(old).at(0).status, 200);
    io.restart();
    io.run_for(100ms);
  }
  EXPECT_EQ(late.take(), "");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(answers(late).at(0).status, 200);
}

bool allow_open_files(rlim_t n) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max < n) return false;
  files.rlim_cur = std::max(files.rlim_cur, n);
  return ::setrlimit(RLIMIT_NOFILE, &files) == 0;
}

// 2,000 clients that send a byte now and then cost the others nothing that can be seen.
TEST_F(SocketTest, two_thousand_slow_clients_are_harmless) {
  constexpr std::size_t kSlow = 2000, kAsked = kSlow;
  if (!allow_open_files(2 * kSlow + 200)) GTEST_SKIP() << "needs " << 2 * kSlow + 200 << " open files";
  settings->config.http.header_timeout = 30s;
  open();
  Client quick = connect();
  const auto ask = [&](std::size_t times, const std::function<void()>& before_each) {
    std::vector<double> ms;
    for (std::size_t i = 0; i < times; ++i) {
      before_each();
      const auto begin = std::chrono::steady_clock::now();
      quick.send(post("/v1/chat/completions", kHello));
      std::string bytes;
      bool whole = false;
      while (!whole && std::chrono::steady_clock::now() - begin < 60s) {
        io.restart();
        io.poll();
        bytes += quick.take();
        parse_answers(bytes, whole);
      }
      EXPECT_TRUE(whole && bytes.starts_with("HTTP/1.1 200 ")) << bytes;
      ms.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(ms.begin(), ms.end());
    return ms;
  };
  ask(50, [] {});  // warm
  const auto alone = ask(kAsked, [] {});
  std::vector<Client> slow;
  for (std::size_t i = 0; i < kSlow; ++i) {
    slow.push_back(connect());
    slow.back().send("G");
    if (i % 100 == 0) io.poll();
  }
  std::size_t next = 0;  // one of their bytes before each question: far more a second than they would send
  const auto crowded = ask(kAsked, [&] { slow[next++].send("E"); });
  const auto at = [](const std::vector<double>& ms, double q) {
    return ms[static_cast<std::size_t>(q * static_cast<double>(ms.size() - 1))];
  };
  std::printf(
      "answer to another client, alone: p50 %.3f ms, p99 %.3f ms; beside %zu slow ones: p50 %.3f ms, p99 "
      "%.3f ms\n",
      at(alone, .5), at(alone, .99), kSlow, at(crowded, .5), at(crowded, .99));
  // What is promised is 5 %; a test beside others on a loaded machine can only see multiples.
  EXPECT_LT(at(crowded, .5), 2 * at(alone, .5) + 0.5);
  for (Client& client : slow) client.send("T /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::size_t served = 0;  // and nobody was turned away
  EXPECT_TRUE(until([&] {
    for (Client& client : slow) served += client.take().starts_with("HTTP/1.1 200 ") ? 1 : 0;
    return served == kSlow;
  })) << served;
}

TEST_F(SocketTest, a_thousand_slow_clients_end_with_408) {
  constexpr std::size_t kSlow = 1000;
  if (!allow_open_files(2 * kSlow + 200)) GTEST_SKIP() << "needs " << 2 * kSlow + 200 << " open files";
  settings->config.http.header_timeout = 500ms;
  open();
  std::vector<Client> slow;
  for (std::size_t i = 0; i < kSlow; ++i) {
    slow.push_back(connect());
    slow.back().send("GET");
    if (i % 100 == 0) io.poll();
  }
  std::size_t told = 0;
  EXPECT_TRUE(until([&] {
    for (Client& client : slow) told += client.take().starts_with("HTTP/1.1 408 ") ? 1 : 0;
    return told == kSlow;
  })) << told;
}

TEST_F(SocketTest, drain_finishes_streams_and_then_says_so) {
  open();
  auto& engine = fleet.backend("demo", "cpu");
  engine.script = [](const CompletionRequest&) { return Script{.manual = true}; };
  Client client = connect(), idle = connect();
  client.send(post("/v1/chat/completions", kHelloStream));
  ASSERT_TRUE(until([&] { return engine.live() == 1; }));
  bool drained = false;
  gateway->drain(std::chrono::steady_clock::now() + 10s, [&] { drained = true; });
  io.restart();
  io.run_for(50ms);
  EXPECT_FALSE(drained);
  engine.emit(5);
  EXPECT_TRUE(until([&] { return drained; }));
  bool whole = false;
  const auto got = parse_answers(client.take(), whole);
  EXPECT_TRUE(whole);
  EXPECT_TRUE(got.at(0).body.ends_with("data: [DONE]\n\n"));
}

TEST_F(SocketTest, drain_gives_up_at_its_deadline) {
  open();
  fleet.backend("demo", "cpu").script = [](const CompletionRequest&) { return Script{.manual = true}; };
  Client client = connect();
  client.send(post("/v1/chat/completions", kHelloStream));
  ASSERT_TRUE(until([&] { return gateway->requests_in_flight() == 1; }));
  bool drained = false;
  gateway->drain(std::chrono::steady_clock::now() + 20ms, [&] { drained = true; });
  EXPECT_TRUE(until([&] { return drained; }));
  EXPECT_NE(client.take().find("shutting_down"), std::string::npos);
}

}  // namespace
}  // namespace flyball::testing
