// Requests that go to the processor because the GPU has not loaded their model: the GPU loads it meanwhile.
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/daemon/api/inference.hpp"
#include "tests/daemon/route/slow_processor.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

struct BackgroundLoad : ::testing::Test {
  std::shared_ptr<flyball::settings::Settings> settings = make_settings();
  std::unique_ptr<Rig> rig;

  void start(std::uint64_t free_bytes,
             const std::string& policy = "default: {because: b, use: [vulkan, cpu], pick: meets_slo}\n",
             std::chrono::milliseconds ttft = std::chrono::milliseconds(900)) {
    settings->tree = tree_of(policy);
    settings->apps[0].slo.ttft = ttft;
    settings->apps[0].limits.resident = 1 << 20;
    settings->measured = book_of_a_slow_processor(settings->config.models[0]);
    rig = std::make_unique<Rig>(settings, make_hardware(true));
    rig->fleet.memory_status.pools = {{"memory", 10'000, 0, free_bytes}};
    rig->cpu();  // it has loaded the model
  }
  Answer send(const std::string& request) {
    Wire wire(*rig);
    wire.send(request);
    return wire.answer();
  }
  json receipt_of_a_request() {
    const Answer answer = send(post(kChatPath, kHello));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(send(get("/v1/route/receipts/" + answer.field("x-request-id"))).body);
  }
};

TEST_F(BackgroundLoad, OfAnEngineThatWouldHaveMetTheSlo) {
  start(5'000);
  const json first = receipt_of_a_request();
  EXPECT_EQ(first["target"]["backend"], "cpu") << first["picks"];
  EXPECT_EQ(first.value("background_load", ""), "vulkan: loading in the background, would have met the SLO")
      << first["targets"];
  ASSERT_THAT(rig->fleet.acquired, ::testing::ElementsAre("cpu", "vulkan")) << "the request is sent first";
  EXPECT_EQ(rig->fleet.askers.back(), (fleet::Asker{"alice", false, 1 << 20, true}))
      << "no engine ends for it, and it ends for all";
  const json second = receipt_of_a_request();
  EXPECT_EQ(second["target"]["backend"], "vulkan") << second["picks"];
  EXPECT_FALSE(second.contains("background_load"));
}

// The request waits for the processor until it passes its SLO; by then the GPU has loaded the model.
TEST_F(BackgroundLoad, StaysInTheReceiptOfARequestThatIsDecidedAgain) {
  start(5'000);
  rig->fleet.hold_acquires = true;
  Wire wire(*rig);
  wire.send(post(kChatPath, kHello));
  ASSERT_TRUE(until(wire, [&] { return rig->fleet.held.size() == 2; }));
  ASSERT_THAT(rig->fleet.acquired, ::testing::ElementsAre("cpu", "vulkan"));
  rig->fleet.hold_acquires = false;
  rig->fleet.held.back()(&rig->vulkan());
  ASSERT_TRUE(until(wire, [&] { return !wire.received().empty(); }));
  const json receipt =
      json::parse(send(get("/v1/route/receipts/" + wire.answer().field("x-request-id"))).body);
  ASSERT_TRUE(receipt.contains("redecisions")) << receipt;
  EXPECT_EQ(receipt["target"]["backend"], "vulkan") << receipt["picks"];
  EXPECT_EQ(receipt.value("background_load", ""),
            "vulkan: loading in the background, would have met the SLO");
}

// The GPU computes a long prompt, and its engine counts as not loaded all the same. A request
// whose profile places it behind that prompt would miss the SLO there.
TEST_F(BackgroundLoad, IsFoundByThePredictionsForTheTargetsProfile) {
  for (const bool behind : {false, true}) {
    SCOPED_TRACE(behind);
    start(5'000,
          std::string(
              "profiles:\n  night: {because: b, place: behind}\nrules:\n"
              "  - {id: long, because: b, when: {fact: request.prompt_bytes, gte: 10000}, use: vulkan}\n"
              "default: {because: b, use: ['") +
              (behind ? "vulkan:night" : "vulkan") + "', cpu], pick: meets_slo}\n",
          std::chrono::milliseconds(400));
    rig->vulkan().script = [](const CompletionRequest&) { return Script{.manual = true}; };
    std::string words;
    for (int i = 0; i < 40'000; ++i) words += "word ";
    Wire waits(*rig);
    waits.send(
        post(kChatPath, R"({"model":"demo","messages":[{"role":"user","content":")" + words + R"("}]})"));
    ASSERT_TRUE(until(waits, [&] { return rig->vulkan().started.size() == 1; }));
    rig->fleet.stopped.insert("vulkan");
    const json explained = json::parse(send(post("/v1/route/explain", kHello)).body);
    EXPECT_EQ(explained["target"]["backend"], "cpu") << explained["picks"];
    EXPECT_EQ(explained.contains("background_load"), !behind) << explained["picks"];
  }
}

TEST_F(BackgroundLoad, NeedsMemoryThatIsFree) {
  start(500);  // the model has 1000
  const json receipt = receipt_of_a_request();
  EXPECT_EQ(receipt["target"]["backend"], "cpu");
  EXPECT_FALSE(receipt.contains("background_load"));
  EXPECT_THAT(rig->fleet.acquired, ::testing::ElementsAre("cpu"));
}

TEST_F(BackgroundLoad, IsNotRepeatedSoonAfterItFailed) {
  start(5'000);
  rig->fleet.acquire_errors["vulkan"].push_back(
      {ErrorCode::insufficient_memory, "There is no room.", {}, {}});
  EXPECT_TRUE(receipt_of_a_request().contains("background_load"));
  const json explained = json::parse(send(post("/v1/route/explain", kHello)).body);
  EXPECT_EQ(explained["target"]["backend"], "cpu");
  EXPECT_FALSE(explained.contains("background_load")) << "it rests";
}

TEST_F(BackgroundLoad, IsOnlyToldWhereARequestIsExplained) {
  start(5'000);
  const json explained = json::parse(send(post("/v1/route/explain", kHello)).body);
  EXPECT_EQ(explained.value("background_load", ""),
            "vulkan: would be loaded in the background, would have met the SLO");
  EXPECT_THAT(rig->fleet.acquired, ::testing::IsEmpty());
}

}  // namespace
}  // namespace flyball::testing
