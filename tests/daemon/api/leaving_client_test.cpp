// Clients that leave or fall behind: what the engine is told.
#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

struct LeavingClient : InferenceTest {};

TEST_F(LeavingClient, a_disconnect_cancels_while_loading_in_prefill_and_in_decode) {
  for (const auto body : {kHello, kHelloStream}) {
    rig.fleet.hold_acquires = true;  // loading
    Wire loading(rig);
    loading.send(post(kChatPath, body));
    EXPECT_EQ(rig.service.in_flight(), 1U);
    loading.hang_up();
    EXPECT_EQ(rig.service.in_flight(), 0U);
    rig.fleet.hold_acquires = false;

    script(rig.cpu(), Script{.manual = true});
    for (const std::uint32_t tokens : {0U, 2U}) {  // prefill, decode
      const auto before = rig.cpu().cancelled;
      Wire wire(rig);
      wire.send(post(kChatPath, body));
      rig.cpu().emit(tokens);
      wire.run();
      ASSERT_EQ(rig.cpu().live(), 1U);
      wire.hang_up();
      EXPECT_EQ(rig.cpu().live(), 0U);
      EXPECT_EQ(rig.cpu().cancelled, before + 1);
      EXPECT_EQ(rig.service.in_flight(), 0U);
    }
  }
  Wire metrics(rig, {.loopback = true, .unix_uid = {}, .address = {}});
  metrics.send(get("/metrics", ""));
  EXPECT_NE(metrics.answer().body.find("status=\"499\""), std::string::npos);
}

TEST_F(LeavingClient, a_reader_that_stops_pauses_the_engine_and_reading_on_resumes_it) {
  script(rig.cpu(), Script{.tokens = 200, .token_bytes = 1000});
  Wire wire(rig);
  wire.stop_reading();
  wire.send(post(kChatPath, kHelloStream));
  EXPECT_EQ(rig.cpu().paused, 1U);
  EXPECT_LT(wire.connection().output().size(), rig.settings->config.http.stream_buffer_bytes + 4096);
  const auto emitted = rig.cpu().emitted;
  wire.run();
  EXPECT_EQ(rig.cpu().emitted, emitted);
  wire.start_reading();
  EXPECT_EQ(rig.cpu().emitted, 200U);
  EXPECT_EQ(frames(wire.answer()).size(), 202U);  // the role, 200 tokens, the reason
}

TEST_F(LeavingClient, a_reader_that_never_reads_on_is_cancelled) {
  script(rig.cpu(), Script{.tokens = 200, .token_bytes = 1000});
  Wire wire(rig);
  wire.stop_reading();
  wire.send(post(kChatPath, kHelloStream));
  wire.advance(rig.settings->config.http.stalled_reader_timeout);
  EXPECT_TRUE(wire.connection().closed());
  EXPECT_EQ(rig.cpu().cancelled, 1U);
}

TEST_F(LeavingClient, a_stream_that_waits_has_a_heartbeat) {
  script(rig.cpu(), Script{.manual = true});
  Wire wire(rig);
  wire.send(post(kChatPath, kHelloStream));
  EXPECT_EQ(wire.received(), "");
  wire.advance(rig.settings->config.http.heartbeat);
  EXPECT_NE(wire.received().find(": keep-alive\n\n"), std::string::npos);
  rig.cpu().emit(5);
  wire.run();
  EXPECT_EQ(text_of(frames(wire.answer())), "t0 t1 t2 t3 ");
}

}  // namespace
}  // namespace flyball::testing
