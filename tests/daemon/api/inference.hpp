// What tests of inference requests have in common: a rig with two engines, one way to ask, and streams read
// back.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/daemon/api/wire.hpp"

namespace flyball::testing {

inline constexpr std::string_view kChatPath = "/v1/chat/completions";

// The JSON of each "data:" line; the sentinel is checked and left out.
inline std::vector<nlohmann::json> frames(const Answer& answer) {
  std::vector<nlohmann::json> out;
  std::string_view rest = answer.body;
  bool done = false;
  while (!rest.empty()) {
    const auto end = rest.find("\n\n");
    EXPECT_NE(end, std::string_view::npos);
    const auto frame = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    EXPECT_FALSE(done) << "a frame behind [DONE]";
    if (frame == "data: [DONE]")
      done = true;
    else if (frame.starts_with("data: "))
      out.push_back(nlohmann::json::parse(frame.substr(6)));
    else
      EXPECT_TRUE(frame.starts_with(":")) << frame;
  }
  EXPECT_TRUE(done);
  return out;
}

inline std::string text_of(const std::vector<nlohmann::json>& chunks, int index = 0) {
  std::string out;
  for (const nlohmann::json& chunk : chunks)
    for (const nlohmann::json& choice : chunk.at("choices"))
      if (choice["index"] == index && choice["delta"].contains("content"))
        out += choice["delta"]["content"].get<std::string>();
  return out;
}

// Runs the wire until the condition holds, beside threads of the service and timers; false after a minute.
template <class Done>
bool until(Wire& wire, Done done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    wire.run();
  }
  return done();
}

struct InferenceTest : ::testing::Test {
  Rig rig{make_settings(), make_hardware(true)};
  Answer ask(std::string_view body, std::string_view path = kChatPath) {
    Wire wire(rig);
    wire.send(post(path, body));
    return wire.answer();
  }
  void script(FakeBackend& backend, Script s) {
    backend.script = [s](const CompletionRequest&) { return s; };
  }
  // The first attempt dies after `tokens`; later ones run to the end.
  void die_once(FakeBackend& backend, std::uint32_t tokens, ErrorCode code = ErrorCode::worker_died) {
    backend.script = [=, n = 0](const CompletionRequest&) mutable {
      Script s;
      s.tokens = 6;
      if (n++ == 0) {
        s.fail_after = tokens;
        s.error = {code, "It failed.", {}, {}};
      }
      return s;
    };
  }
};

}  // namespace flyball::testing
