// KV shared between requests: computed once, seen in the usage, never across owners, and never in the answer:
// cold equals prefix hit, before equals after preemption, bit for bit on the CPU device.
#include <gtest/gtest.h>

#include <random>

#include "tests/backends/local/sharing_cases.hpp"

namespace flyball::test {
namespace {

// ---- over the fake device: blocks of 4 --------------------------------------------------------------------

TEST(Sharing, ThePromptOfNChoicesIsComputedOnce) {
  auto fake = make_fake({.blocks = 64, .sequences = 4, .step_tokens = 64});
  const std::string prompt = "twenty-two characters.";
  ASSERT_EQ(prompt.size(), 22U);
  fake.control->allow(0);
  std::vector<Answer> choices;
  for (int i = 0; i < 4; ++i) choices.push_back(ask(*fake.backend, text_request(prompt, 10)));
  wait_prepared(*fake.backend, 200);
  fake.control->allow(UINT64_MAX);
  std::uint32_t cached = 0;
  for (Answer& choice : choices) {
    ASSERT_TRUE(choice.client->wait_end());
    EXPECT_EQ(choice.client->text(), expected_text(prompt, 10));
    cached += choice.usage().cached_tokens;
  }
  EXPECT_EQ(cached, 3U * 21);
  EXPECT_EQ(choices[0].usage().cached_tokens, 0U) << "the first one pays";
  EXPECT_EQ(fake.control->tokens, 22U + 3 + 4 * 9) << "the prompt, its last token again, the answers";
  EXPECT_EQ(fake.backend->load().prompt_tokens, 4U * 22);
  EXPECT_EQ(fake.backend->load().cached_tokens, 3U * 21);
}

TEST(Sharing, AnotherAppsPrefixIsNotSeen) {
  auto fake = make_fake();
  const std::string prompt = "a secret of some length";
  EXPECT_EQ(wait(*fake.backend, text_request(prompt, 2), "mine").usage().cached_tokens, 0U);
  EXPECT_EQ(wait(*fake.backend, text_request(prompt, 2), "theirs").usage().cached_tokens, 0U);
  EXPECT_EQ(wait(*fake.backend, text_request(prompt, 2), "").usage().cached_tokens, 0U);
  EXPECT_EQ(wait(*fake.backend, text_request(prompt, 2), "mine").usage().cached_tokens, 20U);
}

TEST(Sharing, TheNextTurnFindsTheLastOnesAnswer) {
  auto fake = make_fake();
  const Answer first = wait(*fake.backend, text_request("question", 13));
  const std::string second = "question" + first.client->text() + "and more";
  const Answer next = wait(*fake.backend, text_request(second, 5));
  EXPECT_EQ(next.client->text(), expected_text(second, 5));
  EXPECT_EQ(next.usage().cached_tokens, 20U) << "all but the last token of 21 is in the cache";
}

TEST(Sharing, WhatIsKeptGivesWayToWhatRuns) {
  auto fake = make_fake({.blocks = 12});
  for (int i = 0; i < 30; ++i) {
    const std::string prompt(30, static_cast<char>('a' + i % 26));
    EXPECT_EQ(wait(*fake.backend, text_request(prompt, 10)).client->text(), expected_text(prompt, 10));
  }
  fake.backend->drain(std::chrono::steady_clock::now() + kDrain);
  EXPECT_EQ(fake.backend->load().kv_blocks_used, 0U);
}

TEST(Sharing, AFailedStepLeavesNothingBehind) {
  for (std::uint64_t n = 1; n <= 6; ++n) {
    auto fake = make_fake({.blocks = 20, .step_tokens = 8});
    fake.control->fail_submit_at = n;
    const std::string prompt = "a prompt of more than one step";
    std::vector<Answer> choices;
    for (int i = 0; i < 3; ++i) choices.push_back(ask(*fake.backend, text_request(prompt, 5)));
    for (Answer& choice : choices) ASSERT_TRUE(choice.client->wait_end());
    EXPECT_EQ(wait(*fake.backend, text_request(prompt, 5)).client->text(), expected_text(prompt, 5));
  }
}

// ---- on the CPU device: blocks of 16 ----------------------------------------------------------------------

// On the CPU device, with a cache of each type.
class SharingOnCpu : public SharingModel, public testing::WithParamInterface<const char*> {
 protected:
  static std::unique_ptr<Backend> make(std::uint32_t sequences, std::uint32_t blocks = 0,
                                       std::uint32_t step_tokens = 64) {
    return make_backend(options(GetParam(), sequences, blocks, step_tokens));
  }
};

TEST_P(SharingOnCpu, ColdEqualsPrefixHit) {
  expect_cold_equals_prefix_hit(*make(4));
}

TEST_P(SharingOnCpu, ForcedTokensEqualComputedOnes) {
  expect_forced_equals_computed(*make(4));
}

TEST_P(SharingOnCpu, ACopiedBlockEqualsAComputedOne) {
  expect_copied_equals_computed(*make(1), *make(6));
}

TEST_P(SharingOnCpu, BeforeEqualsAfterPreemption) {
  expect_before_equals_after_preemption(*make(1), *make(4, kTightBlocks, 7));
}

TEST_P(SharingOnCpu, SixtyFourStreamsHoldOneCopyOfTheirPrefix) {
  expect_one_copy_of_a_prefix(*make(kStreams, kStreams * 70, 256));
}

TEST_P(SharingOnCpu, CancellationFreesWhatIsNotShared) {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    auto backend = make(4, 40, 16);
    std::vector<Answer> answers;
    for (std::uint32_t i = 0; i < 12; ++i) {
      Answer answer = ask(*backend, request(i % 3, 64, 7, i % 5, 20));
      if (random() % 2 == 0) {
        if (random() % 2 == 0) answer.client->wait_deltas(1 + random() % 10);
        answer.ticket.cancel();
      } else {
        answers.push_back(std::move(answer));
      }
    }
    for (Answer& answer : answers) {
      ASSERT_TRUE(answer.client->wait_end());
      EXPECT_EQ(answer.client->tokens().size(), 20U);
    }
    backend->drain(std::chrono::steady_clock::now() + kDrain);
    EXPECT_EQ(backend->load().kv_blocks_used, 0U);
    EXPECT_EQ(backend->load().running + backend->load().waiting, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(KvTypes, SharingOnCpu, testing::Values("f16", "q8_0"),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace flyball::test
