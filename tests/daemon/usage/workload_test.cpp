// Observed beside declared: what counts as drift, and that the corrected manifest loads and says what was
// observed.
#include "daemon/usage/workload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flyball::usage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kManifest = R"(schema: flyball.app/v1
# Reads documents.
app: indexer
workload:
  class: rag          # a comment that goes
  prompt_tokens: 6000
  output_tokens: 150
  objective: throughput
  modalities: [text, image]
slo: {ttft: 20s}
limits: {in_flight: 4}
)";

DayUsage requests(int n, std::uint64_t prompt, std::uint64_t answer, std::uint64_t cached,
                  std::uint64_t open) {
  DayUsage u;
  for (int i = 0; i < n; ++i) {
    ++u.requests;
    u.prompt_lengths.add(prompt);
    u.answer_lengths.add(answer);
    u.cached_lengths.add(cached);
    u.open_at_arrival.add(open);
  }
  return u;
}

config::AppManifest parse(const std::string& yaml) {
  auto app = config::parse_app(yaml, "indexer.yaml");
  EXPECT_TRUE(app) << app.error().message << "\n" << yaml;
  return app.value_or(config::AppManifest{});
}

TEST(Workload, TooFewRequestsSayNothing) {
  EXPECT_TRUE(compare({}, requests(19, 1, 1, 1, 1)).empty());
  EXPECT_FALSE(compare({}, requests(20, 1, 1, 1, 1)).empty());
}

TEST(Workload, WhatIsOffByHalfDrifts) {
  const auto app = parse(kManifest);
  const auto compared = compare(app.workload, requests(50, 900, 150, 500, 3));
  ASSERT_EQ(compared.size(), 4U);
  EXPECT_EQ(compared[0].key, "prompt_tokens");
  EXPECT_TRUE(compared[0].drifts);
  EXPECT_NEAR(compared[0].factor(), 6.3, 0.5);
  EXPECT_FALSE(compared[1].drifts) << "within a fifth";
  EXPECT_EQ(compared[2].declared, -1);
  EXPECT_FALSE(compared[2].drifts) << "nothing was declared";
  EXPECT_EQ(compared[3].observed, 3);
}

TEST(Workload, TheCorrectedManifestSaysWhatWasObserved) {
  const auto app = parse(kManifest);
  const auto compared = compare(app.workload, requests(50, 900, 150, 0, 3));
  const std::string corrected = corrected_manifest(kManifest, app, compared);
  const auto back = parse(corrected);
  EXPECT_EQ(*back.workload.prompt_tokens, compared[0].observed);
  EXPECT_EQ(*back.workload.output_tokens, 150U) << "it holds, so it stays";
  EXPECT_EQ(*back.workload.shared_prefix_tokens, 0U);
  EXPECT_EQ(*back.workload.concurrency, 3U);
  EXPECT_EQ(back.workload.kind, config::WorkloadClass::rag);
  EXPECT_EQ(back.workload.objective, "throughput");
  EXPECT_EQ(back.workload.modalities.size(), 2U);
  EXPECT_THAT(corrected, HasSubstr("# Reads documents.\n"));
  EXPECT_THAT(corrected, HasSubstr("\nslo: {ttft: 20s}\nlimits: {in_flight: 4}\n"));
  EXPECT_THAT(compare(back.workload, requests(50, 900, 150, 0, 3)),
              ::testing::Each(::testing::Field(&Compared::drifts, false)));
}

TEST(Workload, AnyWayOfWritingItIsReplaced) {
  for (const std::string yaml : {
           "schema: flyball.app/v1\napp: a",
           "schema: flyball.app/v1\napp: a\nworkload: {class: chat,\n  prompt_tokens: 9\n}\nprivacy: any\n",
           "schema: flyball.app/v1\napp: a\nworkload:\n  prompt_tokens: 9\n\n# about speed\nslo: {ttft: 1s}",
           "schema: flyball.app/v1\r\napp: a\r\nworkload: {prompt_tokens: 9}\r\n",
       }) {
    SCOPED_TRACE(yaml);
    const auto app = parse(yaml);
    const std::string corrected =
        corrected_manifest(yaml, app, compare(app.workload, requests(20, 1, 2, 0, 3)));
    const auto back = parse(corrected);
    EXPECT_EQ(back.workload.prompt_tokens, 1U) << corrected;
    EXPECT_EQ(back.workload.concurrency, 3U);
    EXPECT_EQ(back.privacy, app.privacy);
    EXPECT_EQ(back.slo.ttft, app.slo.ttft);
    EXPECT_THAT(corrected, Not(HasSubstr("9")));
    EXPECT_EQ(corrected.find("# about") != std::string::npos, yaml.find("# about") != std::string::npos);
  }
}

}  // namespace
}  // namespace flyball::usage
