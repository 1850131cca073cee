// A whole connection: any bytes, cut anywhere, through the real connection, router and dispatcher to fake
// engines, in memory. First byte of the input: how the rest is cut, when the client hangs up and whether
// large bodies are parsed before it does. Whatever comes, the daemon keeps no request, bounds its buffers,
// and answers in HTTP.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <spdlog/spdlog.h>
#include <boost/asio/io_context.hpp>

#include "daemon/api/service.hpp"
#include "daemon/api/table/codecs.hpp"
#include "daemon/http/connection.hpp"
#include "tests/daemon/api/fakes.hpp"

namespace {

using flyball::http::TimePoint;

void require(bool condition) {
  if (!condition) std::abort();
}

struct World {
  World() { spdlog::set_level(spdlog::level::off); }
  boost::asio::io_context io;
  std::shared_ptr<flyball::settings::Settings> settings = [] {
    auto s = flyball::testing::make_settings();
    s->config.loopback_without_key = true;  // so that inputs get past the key
    s->config.default_app = "alice";
    s->config.http.body_bytes = 64 * 1024;
    return s;
  }();
  flyball::testing::FakeFleet fleet{io};
  flyball::api::Service service{io, settings, flyball::testing::make_hardware(), fleet, nullptr,
                                {}, nullptr,  flyball::api::all_codecs()};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  if (size == 0) return 0;
  const std::size_t piece = std::size_t{1} << (data[0] & 15U);
  const bool half_close = (data[0] & 16U) != 0;
  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);

  TimePoint now{std::chrono::hours(1)};
  std::string received;
  {
    flyball::http::Connection connection(
        world.settings->config.http, world.service, {.loopback = true, .unix_uid = {}, .address = {}},
        [&] { return now; }, [] { return std::string_view("Sun, 06 Nov 1994 08:49:37 GMT"); }, [] {});
    const auto run = [&] {
      for (;;) {
        world.io.restart();
        const auto handlers = world.io.poll();
        const std::string_view out = connection.output();
        const std::size_t n = out.size();
        if (received.size() < 16) received += out.substr(0, 16);
        connection.sent(n);
        if (handlers == 0 && n == 0) return;
      }
    };
    const auto parse = [&] {  // waits until the other threads have no work
      while (world.service.off_loop() > 0) {
        world.io.restart();
        world.io.run_one_for(std::chrono::milliseconds(100));
      }
    };
    while (!input.empty() && !connection.closed() && connection.wants_input()) {
      const auto part = input.substr(0, piece);
      input.remove_prefix(part.size());
      connection.receive(part);
      require(connection.output().size() < 4U << 20);
      run();
      if ((data[0] & 32U) == 0) parse();
      run();
    }
    if (half_close) connection.receive_eof();
    run();
    for (int i = 0; i < 4 && !connection.closed(); ++i) {  // time alone ends it
      now = connection.deadline() == TimePoint::max() ? now : connection.deadline();
      connection.tick();
      run();
    }
    parse();
    run();
  }
  world.io.restart();
  world.io.poll();
  require(world.service.in_flight() == 0);
  require(world.fleet.backend("demo", "cpu").live() == 0 && world.fleet.backend("small", "cpu").live() == 0);
  require(received.empty() || received.starts_with("HTTP/1.1 "));
  world.fleet.backend("demo", "cpu").started.clear();
  world.fleet.backend("small", "cpu").started.clear();
  world.fleet.acquired.clear();
  return 0;
}
