// Large bodies, parsed off the loop: nobody waits for another app's, and nothing is lost where a client
// leaves or the daemon drains. The toy API's parser waits until the test lets it go on.
#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/api/native/codec.hpp"
#include "daemon/api/openai/codec.hpp"
#include "tests/daemon/api/inference.hpp"
#include "tests/daemon/api/toy/codec.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;
constexpr std::array<const api::Codec*, 3> kWithToy{&api::native::kCodec, &api::openai::kCodec, &toy::kCodec};

const std::string& large_text() {
  static const std::string text(64 * 1024, 'x');
  return text;
}

struct BodyParsing : ::testing::Test {
  toy::Gate gate;  // every large toy body waits here, on the thread that parses it
  Rig rig{settings(), make_hardware(true), nullptr, kWithToy};

  BodyParsing() {
    rig.waits_for_other_threads = false;
    toy::set_gate(&gate);
  }
  ~BodyParsing() override {
    gate.open();
    run_until([&] { return rig.service.off_loop() == 0; });
    toy::set_gate(nullptr);
  }

  static std::shared_ptr<settings::Settings> settings() {
    auto out = make_settings();
    out->apps[1].models = {"demo", "small"};
    return out;
  }
  static std::string say(std::string_view key, std::string_view mark = "", std::string_view more = "") {
    return post("/toy/say", R"({"say":")" + std::string(mark) + large_text() + R"(","model":"demo"})", "",
                "x-toy-key: " + std::string(key) + "\r\n" + std::string(more));
  }
  static std::string small(std::string_view key) {
    return post("/toy/say", R"({"say":"Hi"})", "", "x-toy-key: " + std::string(key) + "\r\n");
  }
  template <class Condition>
  void run_until(const Condition& condition) {
    EXPECT_TRUE(rig.run_until(condition));
  }
  void finish(Wire& wire) {
    run_until([&] {
      wire.run();
      return !wire.received().empty();
    });
  }
};

TEST_F(BodyParsing, ASmallRequestDoesNotWaitForALargeBody) {
  Wire large(rig), other(rig), same(rig);
  large.send(say("key-alice"));
  gate.await_entered(1);
  other.send(small("key-bobby"));
  EXPECT_EQ(other.answer().status, 200);
  same.send(small("key-alice"));
  EXPECT_EQ(same.answer().status, 200);
  EXPECT_EQ(large.received(), "");
  EXPECT_EQ(rig.service.in_flight(), 1U);
  gate.open();
  finish(large);
  EXPECT_EQ(large.answer().status, 200);
  EXPECT_EQ(rig.service.in_flight(), 0U);
}

// In order of arrival bob's first body would be parsed after alice's third.
TEST_F(BodyParsing, AppsTakeTurns) {
  Wire a1(rig), a2(rig), a3(rig), b1(rig), b2(rig);
  a1.send(say("key-alice", "a1"));
  gate.await_entered(1);
  a2.send(say("key-alice", "a2"));
  a3.send(say("key-alice", "a3"));
  b1.send(say("key-bobby", "b1"));
  b2.send(say("key-bobby", "b2"));
  gate.open();
  for (Wire* wire : {&a1, &a2, &a3, &b1, &b2}) {
    finish(*wire);
    EXPECT_EQ(wire->answer().status, 200);
  }
  EXPECT_EQ(gate.marks(), (std::vector<std::string>{"a1", "a2", "b1", "a3", "b2"}));
}

// Its prompt takes no second turn behind them.
TEST_F(BodyParsing, AnAppsFirstRequestIsAnsweredBeforeItsLaterBodiesAreParsed) {
  Wire first(rig), second(rig), third(rig);
  first.send(say("key-alice", "a1"));
  gate.await_entered(1);
  second.send(say("key-alice", "a2"));
  third.send(say("key-alice", "a3"));
  gate.let_in(2);
  gate.await_entered(3);
  for (Wire* wire : {&first, &second}) {
    finish(*wire);
    EXPECT_EQ(wire->answer().status, 200);
  }
  EXPECT_EQ(third.received(), "");
  EXPECT_EQ(rig.service.off_loop(), 1U) << "the third waits in the parser";
  gate.open();
  finish(third);
  EXPECT_EQ(third.answer().status, 200);
  EXPECT_EQ(gate.marks(), (std::vector<std::string>{"a1", "a2", "a3"}));
}

struct BodyMemory : BodyParsing {
  static constexpr std::size_t kKiB = 1024;
  // Sends bodies of these lengths one after the other; the capacity of each one's memory.
  std::vector<std::size_t> rooms_of(const std::vector<std::size_t>& bodies) {
    constexpr std::string_view kBegin = R"({"say":")", kEnd = R"("})";
    gate.open();
    for (const std::size_t bytes : bodies) {
      const std::string text(bytes - kBegin.size() - kEnd.size(), 'x');
      Wire wire(rig);
      wire.send(
          post("/toy/say", std::string(kBegin).append(text).append(kEnd), "", "x-toy-key: key-alice\r\n"));
      finish(wire);
      EXPECT_EQ(wire.answer().status, 200);
    }
    return gate.rooms();
  }
};

// The second and the third would have 256 KiB of their own.
TEST_F(BodyMemory, ALargeBodyLiesWhereTheOneBeforeItLay) {
  EXPECT_EQ(rooms_of({300 * kKiB, 256 * kKiB, 256 * kKiB}), std::vector<std::size_t>(3, 512 * kKiB));
}

TEST_F(BodyMemory, ABodyHasNoMoreThanTwiceItsOwn) {
  EXPECT_EQ(rooms_of({300 * kKiB, 200 * kKiB, 300 * kKiB, 128 * kKiB - 1}),
            (std::vector<std::size_t>{512 * kKiB, 256 * kKiB, 512 * kKiB, 128 * kKiB - 1}));
}

TEST_F(BodyParsing, TheBodyOfAClientThatLeftIsNotParsed) {
  Wire first(rig), left(rig), last(rig);
  first.send(say("key-alice", "a1"));
  gate.await_entered(1);
  left.send(say("key-alice", "a2"));
  last.send(say("key-alice", "a3"));
  EXPECT_EQ(rig.service.off_loop(), 3U);
  left.hang_up();
  EXPECT_EQ(rig.service.off_loop(), 2U);
  gate.open();
  finish(last);
  EXPECT_EQ(gate.marks(), (std::vector<std::string>{"a1", "a3"}));
}

TEST_F(BodyParsing, AClientThatLeavesWhileItsBodyIsParsedAsksNoEngine) {
  Wire wire(rig);
  wire.send(say("key-alice"));
  gate.await_entered(1);
  wire.hang_up();
  EXPECT_EQ(rig.service.off_loop(), 1U) << "the thread has it still";
  gate.open();
  run_until([&] { return rig.service.off_loop() == 0; });
  wire.run();
  EXPECT_TRUE(rig.cpu().started.empty());
}

TEST_F(BodyParsing, ADrainWaitsForIt) {
  Wire wire(rig);
  wire.send(say("key-alice"));
  gate.await_entered(1);
  rig.service.start_draining();
  EXPECT_EQ(rig.service.in_flight(), 1U);
  EXPECT_TRUE(wire.connection().busy());
  gate.open();
  finish(wire);
  EXPECT_EQ(wire.answer().status, 200);
}

TEST_F(BodyParsing, ADrainThatTakesTooLongAnswersIt) {
  Wire first(rig), waits(rig);
  first.send(say("key-alice", "a1"));
  gate.await_entered(1);
  waits.send(say("key-alice", "a2"));
  rig.service.abort_all({ErrorCode::shutting_down, "The daemon is shutting down.", {}, {}});
  for (Wire* wire : {&first, &waits}) {
    wire->run();
    EXPECT_EQ(wire->answer().status, 503);
    EXPECT_EQ(json::parse(wire->answer().body)["oops"], "shutting_down");
  }
  EXPECT_EQ(rig.service.off_loop(), 1U);
  gate.open();
  run_until([&] { return rig.service.off_loop() == 0; });
  EXPECT_EQ(gate.marks(), (std::vector<std::string>{"a1"}));
  EXPECT_TRUE(rig.cpu().started.empty());
}

TEST_F(BodyParsing, ABodyThatFindsNoMemoryCostsOneRequest) {
  gate.open();
  Wire wire(rig), next(rig);
  wire.send(say("key-alice", "too much"));
  finish(wire);
  EXPECT_EQ(wire.answer().status, 503);
  EXPECT_EQ(json::parse(wire.answer().body)["oops"], "insufficient_memory");
  next.send(say("key-alice"));
  finish(next);
  EXPECT_EQ(next.answer().status, 200);
}

TEST_F(BodyParsing, TheServiceEndsWhileABodyIsParsed) {
  auto other = std::make_unique<Rig>(settings(), make_hardware(true), nullptr, kWithToy);
  other->waits_for_other_threads = false;
  {
    Wire first(*other), waits(*other);
    first.send(say("key-alice", "a1"));
    gate.await_entered(1);
    waits.send(say("key-alice", "a2"));
  }
  std::thread opener([&] { gate.open(); });
  other.reset();
  opener.join();
  EXPECT_EQ(gate.marks(), (std::vector<std::string>{"a1"}));
}

TEST_F(BodyParsing, HeldBytesLastUntilTheBodyIsParsed) {
  auto bounded = settings();
  bounded->apps[0].limits.held_bytes = 100 * 1024;
  rig.service.reload(bounded);
  Wire first(rig), second(rig), other(rig), third(rig);
  first.send(say("key-alice"));
  gate.await_entered(1);
  second.send(say("key-alice"));
  EXPECT_EQ(second.answer().status, 503) << "the toy's status of whatever is not the client's fault";
  EXPECT_EQ(json::parse(second.answer().body)["oops"], "rate_limited");
  EXPECT_NE(second.answer().body.find("of at most 102400 bytes for the app (limits.held_bytes)"),
            std::string::npos)
      << second.answer().body;
  other.send(say("key-bobby"));
  EXPECT_EQ(other.received(), "") << "another app's are its own";
  gate.open();
  finish(first);
  finish(other);
  third.send(say("key-alice"));
  finish(third);
  EXPECT_EQ(third.answer().status, 200);
}

}  // namespace
}  // namespace flyball::testing
