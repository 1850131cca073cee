// Prints of prompts: another thread takes those of a large request. They are those that the loop takes, and
// the job uses them.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/api/off_loop.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/predict/prefix_blocks.hpp"
#include "daemon/predict/prompt_tokens.hpp"
#include "daemon/route/dispatcher.hpp"
#include "daemon/usage/journal.hpp"
#include "tests/backends/worker/loop.hpp"
#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

constexpr int kTeaching = 5;  // requests; the predictor knows an engine after them

struct PromptPrints : InferenceTest {
  static constexpr std::size_t kTokens = 1024, kFurther = 4000;
  static constexpr std::size_t kBytesPerToken = predict::PromptTokens::kBytesPerToken;
  static_assert(kTokens * kBytesPerToken <= api::kParsedOnLoop, "the loop takes the print of one");
  static_assert((kTokens + kFurther) * kBytesPerToken > api::kParsedOnLoop, "another thread takes both");

  // A prompt of one token many times, as JSON.
  static std::string prompt_of(int token, std::size_t tokens) {
    std::string out = "[" + std::to_string(token);
    for (std::size_t i = 1; i < tokens; ++i) out += "," + std::to_string(token);
    return out + "]";
  }
  // Tokens of the request's first prompt that the processor was expected to hold; -1: nothing was expected.
  std::int64_t cached_of(const std::string& prompts) {
    const Answer answer = ask(R"({"model":"demo","prompt":[)" + prompts + "]}", "/v1/completions");
    EXPECT_EQ(answer.status, 200) << answer.body;
    Wire wire(rig);
    wire.send(get("/v1/route/receipts/" + answer.field("x-request-id")));
    const json receipt = json::parse(wire.answer().body);
    for (const json& target : receipt.at("targets"))
      for (const json& fact : target.value("known", json::array()))
        if (target["backend"] == "cpu" && fact["name"] == "cached_tokens")
          return fact.at("value").get<std::int64_t>();
    return -1;
  }
};

TEST_F(PromptPrints, AreTheSameOnBothThreads) {
  rig.cpu();
  for (int token = 1; token <= kTeaching; ++token) cached_of(prompt_of(token, kTokens));
  EXPECT_EQ(cached_of(prompt_of(7, kTokens) + "," + prompt_of(8, kFurther)), 0) << "it comes first";
  EXPECT_EQ(cached_of(prompt_of(7, kTokens)), std::int64_t{kTokens} - 1);
  EXPECT_EQ(cached_of(prompt_of(9, kTokens)), 0) << "another one";
}

struct LastWord final : route::JobObserver {
  bool on_delta(std::size_t, const Delta&) override { return true; }
  void on_done(std::size_t, const Done&) override { over = true; }
  void on_error(const Error& error) override {
    ADD_FAILURE() << error.message;
    over = true;
  }
  bool over = false;
};

TEST(PromptPrint, OfARequestIsUsedByItsJob) {
  boost::asio::io_context io;
  const auto settings = make_settings();
  FakeFleet fleet(io);
  fleet.backend("demo", "cpu");
  metrics::Metrics metrics;
  usage::Journal journal(io, nullptr, {});
  route::Dispatcher dispatcher(io, fleet, make_hardware(), metrics, journal);
  // The words about the first token's time, which tell how many tokens the prompt is taken for.
  const auto expected = [&](std::vector<std::shared_ptr<const predict::PromptPrint>> prints) {
    const auto observer = std::make_shared<LastWord>();
    std::vector<Prompt> prompts{TokenPrompt{{11, 12, 13}}};
    auto admission = dispatcher.admit({settings->apps[0], settings->config.models[0], prompts});
    EXPECT_TRUE(admission);
    if (!admission) return std::string();
    const auto job = dispatcher.submit({.id = "job",
                                        .keep = settings,
                                        .tree = *settings->tree,
                                        .app = settings->apps[0],
                                        .model = settings->config.models[0],
                                        .traits = {},
                                        .base = {},
                                        .prompts = std::move(prompts),
                                        .prints = std::move(prints)},
                                       std::move(*admission), observer);
    const policy::Fact* const fact = job->receipt().facts.get("backend.cpu.expected_ttft");
    const std::string source = fact == nullptr ? "" : fact->source;
    EXPECT_TRUE(test::run_until(io, [&] { return observer->over; }));
    return source;
  };
  for (int i = 0; i < kTeaching; ++i) expected({});
  EXPECT_NE(expected({}).find("(3 tokens, "), std::string::npos);
  const auto print =
      std::make_shared<const predict::PromptPrint>(predict::PromptPrint{.app = 1, .bytes = 40, .tokens = 10});
  EXPECT_NE(expected({print}).find("(10 tokens, "), std::string::npos);
}

}  // namespace
}  // namespace flyball::testing
