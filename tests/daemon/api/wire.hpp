// A client in memory: its bytes go through the real Connection, Service and Dispatcher to fake engines, and
// every byte that comes back is kept. The connection's clock stands still unless the test moves it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "daemon/api/service.hpp"
#include "daemon/api/table/codecs.hpp"
#include "daemon/http/connection.hpp"
#include "tests/daemon/api/fakes.hpp"

namespace flyball::testing {

struct Answer {
  int status = 0;
  std::string head, body;                          // body without its chunk framing
  std::string field(std::string_view name) const;  // "" if absent
};
// The answers in a byte stream, 100 Continue left out. `whole`: no bytes were left over and none was missing.
std::vector<Answer> parse_answers(std::string_view bytes, bool& whole);

// The gateway's inside, without sockets.
struct Rig {
  explicit Rig(std::shared_ptr<settings::Settings> with = make_settings(),
               policy::Facts hardware = make_hardware(), store::Writer* store = nullptr,
               api::Codecs codecs = api::all_codecs(),
               api::ConstraintVerdicts::Compile compile = &api::ConstraintVerdicts::compile,
               fleet::MemoryStatus memory = {});
  FakeBackend& cpu(const std::string& model = "demo") { return fleet.backend(model, "cpu"); }
  FakeBackend& vulkan(const std::string& model = "demo") { return fleet.backend(model, "vulkan"); }
  // Runs the loop beside the service's threads until the condition holds; false after 30 s.
  template <class Condition>
  bool run_until(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      io.restart();
      io.run_one_for(std::chrono::milliseconds(10));
    }
    return condition();
  }

  boost::asio::io_context io;
  std::shared_ptr<settings::Settings> settings;
  FakeFleet fleet;
  api::Service service;
  bool waits_for_other_threads = true;  // Wire::run() until large bodies are parsed, and constraints compiled
};

class Wire {
 public:
  explicit Wire(Rig& rig, http::Peer peer = {});

  void send(std::string_view bytes);  // and everything that follows from it
  void run();                         // whatever is ready
  void advance(std::chrono::milliseconds by);
  void hang_up();  // the client closes
  void stop_reading() { reading_ = false; }
  void start_reading();

  const std::string& received() const noexcept { return received_; }
  std::vector<Answer> answers() const;  // fails the test where the bytes are no whole answers
  Answer answer() const;                // the only one
  bool closed() const noexcept { return connection_.closed() || connection_.wants_shutdown(); }
  http::Connection& connection() noexcept { return connection_; }

 private:
  Rig& rig_;
  http::TimePoint now_;
  bool reading_ = true;
  std::string received_;
  http::Connection connection_;
};

// The time that every answer tells (Date).
inline constexpr std::string_view kDate = "Sun, 06 Nov 1994 08:49:37 GMT";

// A complete request with key, host and length.
std::string post(std::string_view path, std::string_view body, std::string_view key = "key-alice",
                 std::string_view more = {});
std::string get(std::string_view path, std::string_view key = "key-alice");
inline constexpr std::string_view kHello = R"({"model":"demo","messages":[{"role":"user","content":"Hi"}]})";
inline constexpr std::string_view kHelloStream =
    R"({"model":"demo","messages":[{"role":"user","content":"Hi"}],"stream":true})";

}  // namespace flyball::testing
