// The router's own cost: the real Gateway over an engine that answers at once, under an open-loop load from
// another process. From inside: request readable to first byte written, engine time subtracted (the
// histograms that /metrics exports). From outside: the moment a request was due to the first byte of its
// answer, loopback included. And the processor time and page faults of the gateway's I/O thread for each
// request, which a large body takes from every other client. The frame to a worker is made and dropped.
#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <nlohmann/json.hpp>

#include "backends/worker/codec.hpp"
#include "config/config.hpp"
#include "daemon/api/service.hpp"
#include "daemon/api/table/codecs.hpp"
#include "daemon/http/server.hpp"
#include "tests/daemon/api/fakes.hpp"

namespace {

using namespace flyball;
using Clock = std::chrono::steady_clock;

struct Options {
  double rate = 1000, seconds = 10, warm_up = 2;
  int connections = 32;
  bool json = false, stream = true;
  std::size_t tools_bytes = 0;    // of JSON; 0: no tools
  std::size_t prompt_tokens = 0;  // of a further message, some 4 bytes each
};

// Formats each line as the daemon's own sink does, and drops it.
class DiscardSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    line_.clear();
    formatter_->format(message, line_);
  }
  void flush_() override {}
  spdlog::memory_buf_t line_;
};

// ---- the load: one process, one thread, non-blocking sockets ----------------------------------------------

struct Channel {
  int fd = -1;
  bool busy = false, first = false;
  Clock::time_point due;
  std::string tail;  // the last bytes of the answer: enough to see its end
};

bool answer_ends(Channel& channel, std::string_view bytes) {
  channel.tail.append(bytes);
  const auto head_end = channel.tail.find("\r\n\r\n");
  if (head_end == std::string::npos) return false;
  if (channel.tail.find("Transfer-Encoding: chunked") < head_end)
    return channel.tail.ends_with("\r\n0\r\n\r\n");
  const auto at = channel.tail.find("Content-Length: ");
  const auto length = std::strtoul(channel.tail.c_str() + at + 16, nullptr, 10);
  return at < head_end && channel.tail.size() >= head_end + 4 + length;
}

std::string request_body(const Options& options) {
  std::string out =
      std::string(
          R"({"model":"demo","messages":[{"role":"system","content":"You are a helpful assistant."},)") +
      R"({"role":"user","content":"Which engine should serve a chat window on a laptop with unified memory?)";
  for (std::size_t i = 0; i < options.prompt_tokens; ++i) out += " one";
  out +=
      R"("}],"temperature":0.7,"max_tokens":64,"stream":)" + std::string(options.stream ? "true" : "false");
  if (options.tools_bytes > 0) {
    out += R"(,"tools":[)";
    const std::size_t begin = out.size();
    for (std::size_t i = 0; out.size() - begin < options.tools_bytes; ++i)
      out +=
          (i == 0 ? R"({"type":"function","function":{"name":"tool_)"
                  : R"(,{"type":"function","function":{"name":"tool_)") +
          std::to_string(i) +
          R"(","description":"Reads a file of the project and answers with its lines.","parameters":{"type":"object",)"
          R"("properties":{"path":{"type":"string","maxLength":65536},"line":{"type":"integer","minimum":1}},)"
          R"("required":["path"]}}})";
    out += "]";
  }
  return out + "}";
}

// Waits where the socket's buffer is full: the gateway reads a large request in turns.
bool send_whole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return false;
    pollfd writable{fd, POLLOUT, 0};
    ::poll(&writable, 1, 1000);
  }
  return true;
}

std::vector<double> run_load(std::uint16_t port, const Options& options) {
  std::vector<Channel> channels(static_cast<std::size_t>(options.connections));
  for (Channel& c : channels) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    c.fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(c.fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::exit(2);
    ::fcntl(c.fd, F_SETFL, O_NONBLOCK);
  }
  const std::string body = request_body(options);
  const std::string request =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer key-alice\r\n"
      "User-Agent: router-bench\r\nAccept: application/json\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;

  std::vector<double> latencies;
  std::deque<Clock::time_point> backlog;  // due, no free connection yet: their wait counts
  const auto begin = Clock::now();
  const auto measured_from =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.warm_up));
  const auto total = static_cast<std::uint64_t>(options.rate * (options.seconds + options.warm_up));
  const auto due_at = [&](std::uint64_t i) {
    return begin + std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(static_cast<double>(i) / options.rate));
  };
  std::uint64_t issued = 0, finished = 0;
  std::vector<pollfd> polls(channels.size());
  char buffer[65536];
  while (finished < total) {
    auto now = Clock::now();
    while (issued < total && due_at(issued) <= now) backlog.push_back(due_at(issued++));
    for (Channel& c : channels) {
      if (backlog.empty()) break;
      if (c.busy) continue;
      c.busy = true;
      c.first = true;
      c.due = backlog.front();
      c.tail.clear();
      backlog.pop_front();
      if (!send_whole(c.fd, request)) std::exit(3);
    }
    for (std::size_t i = 0; i < channels.size(); ++i) polls[i] = {channels[i].fd, POLLIN, 0};
    timespec wait{0, 50'000'000};
    if (issued < total) {
      const auto until = std::max<std::int64_t>(
          0, std::chrono::duration_cast<std::chrono::nanoseconds>(due_at(issued) - Clock::now()).count());
      wait = {until / 1'000'000'000, until % 1'000'000'000};
    }
    if (::ppoll(polls.data(), polls.size(), &wait, nullptr) <= 0) continue;
    for (std::size_t i = 0; i < channels.size(); ++i) {
      Channel& c = channels[i];
      if ((polls[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      const auto n = ::recv(c.fd, buffer, sizeof buffer, 0);
      if (n <= 0 || !c.busy) std::exit(4);
      if (std::exchange(c.first, false)) {
        if (std::string_view(buffer, static_cast<std::size_t>(n)).substr(0, 12) != "HTTP/1.1 200")
          std::exit(5);
        if (c.due >= measured_from)
          latencies.push_back(std::chrono::duration<double>(Clock::now() - c.due).count());
      }
      if (answer_ends(c, {buffer, static_cast<std::size_t>(n)})) {
        c.busy = false;
        ++finished;
      }
    }
  }
  return latencies;
}

double percentile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const auto k = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(k), values.end());
  return values[k];
}

std::shared_ptr<settings::Settings> bench_settings(const Options& options) {
  auto settings = testing::make_settings();
  settings->config.http.connections = 4096;
  // The load opens all its connections before it needs them; some wait long for their first request.
  settings->config.http.header_timeout = std::chrono::hours(1);
  settings->apps[0].limits.in_flight = 100'000;
  settings->config.max_queue = 100'000;
  if (options.prompt_tokens > 0) settings->config.models[0].context = 262'144;
  // The shipped tree, not the one-rule tree of the tests: its evaluation is part of the cost.
  auto tree = policy::parse_policy(config::default_policy_yaml(), "policy.yaml");
  if (!tree) {
    std::fprintf(stderr, "%s (%s)\n", tree.error().message.c_str(), tree.error().where.c_str());
    std::exit(1);
  }
  settings->tree = std::make_shared<const policy::Tree>(std::move(*tree));
  return settings;
}

double thread_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

long thread_page_faults() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_minflt;
}

// daemon/serve sets the same threshold: each larger block is of fresh pages.
constexpr int kReturnedAt = 128 * 1024;

int serve(const Options& options, int results_fd, int port_fd, pid_t load) {
  mallopt(M_MMAP_THRESHOLD, kReturnedAt);
  boost::asio::io_context io(1);
  testing::FakeFleet fleet(io);
  auto settings = bench_settings(options);
  api::Service service(io, settings, testing::make_hardware(), fleet, nullptr, {}, nullptr,
                       api::all_codecs());
  http::Server server(io, settings->config.http, service);
  if (auto ok = server.listen(settings->config.listeners); !ok) {
    std::fprintf(stderr, "%s\n", ok.error().message.c_str());
    return 1;
  }
  const std::string url = server.urls().at(0);
  const auto port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  if (::write(port_fd, &port, sizeof port) != sizeof port) return 1;
  testing::FakeBackend& engine = fleet.backend("demo", "cpu");
  engine.keeps_started = false;
  engine.script = [&](const CompletionRequest& request) {
    fleet.acquired.clear();
    fleet.askers.clear();
    const auto frame = worker::encode_in_pieces(worker::Start{1, request});
    return frame ? testing::Script{.tokens = 8} : testing::Script{.refuse = frame.error()};
  };

  std::vector<double> outside;
  std::string bytes;
  boost::asio::posix::stream_descriptor results(io, results_fd);
  std::function<void()> read = [&] {
    auto chunk = std::make_shared<std::vector<char>>(65536);
    results.async_read_some(boost::asio::buffer(*chunk),
                            [&, chunk](const boost::system::error_code& ec, std::size_t n) {
                              bytes.append(chunk->data(), n);
                              if (ec)
                                io.stop();
                              else
                                read();
                            });
  };
  read();
  const double before = thread_seconds();
  const long faults_before = thread_page_faults();
  io.run();
  const double io_thread = thread_seconds() - before;
  const auto faults = static_cast<double>(thread_page_faults() - faults_before);
  int status = 0;
  ::waitpid(load, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "the load generator failed (%d)\n", status);
    return 1;
  }
  outside.resize(bytes.size() / sizeof(double));
  std::memcpy(outside.data(), bytes.data(), outside.size() * sizeof(double));

  auto& metrics = service.metrics();
  const nlohmann::json out{
      {"rate_per_s", options.rate},
      {"requests", outside.size()},
      {"stream", options.stream},
      {"connections", options.connections},
      {"router_overhead_p50_us", metrics.router_overhead_quantile(0.5) * 1e6},
      {"router_overhead_p99_us", metrics.router_overhead_quantile(0.99) * 1e6},
      {"io_thread_per_request_us", io_thread / static_cast<double>(service.finished()) * 1e6},
      {"io_thread_page_faults_per_request", faults / static_cast<double>(service.finished())},
      {"policy_eval_p50_us", metrics.policy_eval_quantile(0.5) * 1e6},
      {"policy_eval_p99_us", metrics.policy_eval_quantile(0.99) * 1e6},
      {"first_byte_outside_p50_us", percentile(outside, 0.5) * 1e6},
      {"first_byte_outside_p99_us", percentile(outside, 0.99) * 1e6}};
  if (options.json) {
    std::printf("%s\n", out.dump().c_str());
  } else {
    std::printf("%.0f requests/s, %zu measured, %s\n", options.rate, outside.size(),
                options.stream ? "streamed" : "whole");
    for (const auto& [key, value] : out.items())
      if (key.ends_with("_us") || key.ends_with("_per_request"))
        std::printf("  %-34s %8.1f\n", key.c_str(), value.get<double>());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::atof(argv[++i]) : 0; };
    if (arg == "--rate")
      options.rate = number();
    else if (arg == "--seconds")
      options.seconds = number();
    else if (arg == "--connections")
      options.connections = static_cast<int>(number());
    else if (arg == "--tools-bytes")
      options.tools_bytes = static_cast<std::size_t>(number());
    else if (arg == "--prompt-tokens")
      options.prompt_tokens = static_cast<std::size_t>(number());
    else if (arg == "--json")
      options.json = true;
    else if (arg == "--whole")
      options.stream = false;
    else {
      std::fprintf(stderr,
                   "usage: router_bench [--rate N] [--seconds N] [--connections N] [--tools-bytes N] "
                   "[--prompt-tokens N] "
                   "[--whole] [--json]\n");
      return 64;
    }
  }
  // The log goes where systemd sends it; its formatting is in the daemon, so it is measured too, into
  // nothing.
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("bench", std::make_shared<DiscardSink>()));
  int results[2], ports[2];
  if (::pipe(results) != 0 || ::pipe(ports) != 0) return 1;
  const pid_t load = ::fork();
  if (load < 0) return 1;
  if (load == 0) {
    ::close(results[0]);
    ::close(ports[1]);
    std::uint16_t port = 0;
    if (::read(ports[0], &port, sizeof port) != sizeof port) return 1;
    const auto latencies = run_load(port, options);
    const auto* bytes = reinterpret_cast<const char*>(latencies.data());
    for (std::size_t at = 0, size = latencies.size() * sizeof(double); at < size;) {
      const auto n = ::write(results[1], bytes + at, size - at);
      if (n <= 0) return 1;
      at += static_cast<std::size_t>(n);
    }
    return 0;
  }
  ::close(results[1]);
  ::close(ports[0]);
  return serve(options, results[0], ports[1], load);
}
