// KV shared between requests: computed once, seen in the usage, never across owners, and never in the answer:
// cold equals prefix hit, before equals after preemption, bit for bit on the CPU device.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <random>

#include "backends/engine/local_backend.hpp"
#include "backends/model/synthetic.hpp"
#include "tests/engine/fakes.hpp"

namespace flyball::test {
namespace {

constexpr std::chrono::seconds kDrain{20};

struct Answer {
  std::shared_ptr<Client> client = std::make_shared<Client>();
  Ticket ticket;
  Usage usage() const { return client->done() ? client->done()->usage : Usage{}; }
};

Answer ask(Backend& backend, CompletionRequest request, std::string owner = "app") {
  Answer answer;
  request.owner = std::move(owner);
  answer.ticket = backend.start(std::move(request), answer.client).value();
  return answer;
}
Answer wait(Backend& backend, CompletionRequest request, std::string owner = "app") {
  Answer answer = ask(backend, std::move(request), std::move(owner));
  EXPECT_TRUE(answer.client->wait_end());
  EXPECT_FALSE(answer.client->error()) << answer.client->error()->message;
  return answer;
}

// Requests are prepared in order: when this one has been refused, those before it are with the engine.
void wait_prepared(Backend& backend, std::uint32_t context) {
  const auto last = std::make_shared<Client>();
  auto ticket = backend.start(text_request(std::string(8 * context, '.'), 1), last).value();
  ASSERT_TRUE(last->wait_end());
  ASSERT_TRUE(last->error());
}

// ---- over the fake device: blocks of 4 -------------------------------------------------------------------

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

// ---- on the CPU device: blocks of 16 ---------------------------------------------------------------------

class SharingOnCpu : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto spec =
        model::parse_synthetic_shape("dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=512,context=2048")
            .value();
    spec.type = kernels::DType::q8_0;
    path_ = std::filesystem::temp_directory_path() /
            ("flyball_sharing_test_" + std::to_string(getpid()) + ".gguf");
    ASSERT_TRUE(model::write_synthetic_file(spec, path_, 1));
  }
  static void TearDownTestSuite() { std::filesystem::remove(path_); }

  static std::unique_ptr<Backend> make(std::uint32_t sequences, std::uint32_t blocks = 0,
                                       std::uint32_t step_tokens = 64) {
    engine::LocalBackendOptions o;
    o.model_id = "tiny";
    o.path = path_;
    o.threads = 2;
    o.context = 2048;
    o.max_sequences = sequences;
    o.kv_blocks = blocks;
    o.step_tokens = step_tokens;
    auto backend = engine::make_local_backend(o);
    EXPECT_TRUE(backend) << backend.error().message;
    return std::move(*backend);
  }
  // Random tokens of which requests of one `family` share the first `common`.
  static CompletionRequest request(std::uint32_t family, std::uint32_t common, std::uint32_t tail,
                                   std::uint32_t own, std::uint32_t generate) {
    std::mt19937 shared(family), mine(1000 + own);
    TokenPrompt prompt;
    for (std::uint32_t i = 0; i < common; ++i) prompt.tokens.push_back(static_cast<Token>(shared() % 256));
    for (std::uint32_t i = 0; i < tail; ++i) prompt.tokens.push_back(static_cast<Token>(mine() % 256));
    CompletionRequest r;
    r.prompt = std::move(prompt);
    r.max_tokens = generate;
    r.ignore_eos = true;
    r.sampling.temperature = 0;
    r.sampling.top_logprobs = 20;
    return r;
  }
  static void expect_same(const Answer& a, const Answer& b) {
    EXPECT_EQ(a.client->tokens(), b.client->tokens());
    const auto x = a.client->deltas(), y = b.client->deltas();
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(x[i].logprobs.size(), y[i].logprobs.size());
      for (std::size_t k = 0; k < x[i].logprobs.size(); ++k) {
        EXPECT_EQ(x[i].logprobs[k].logprob, y[i].logprobs[k].logprob) << "token " << i;
        EXPECT_EQ(x[i].logprobs[k].top, y[i].logprobs[k].top) << "token " << i;
      }
    }
  }
  static inline std::filesystem::path path_;
};

TEST_F(SharingOnCpu, ColdEqualsPrefixHit) {
  auto backend = make(4);
  for (const std::uint32_t common : {17U, 100U, 512U}) {
    const Answer cold = wait(*backend, request(common, common, 20, 1, 24));
    const Answer again = wait(*backend, request(common, common, 20, 1, 24));
    EXPECT_EQ(cold.usage().cached_tokens, 0U);
    EXPECT_EQ(again.usage().cached_tokens, (common + 19) / 16 * 16);
    expect_same(cold, again);
    const Answer sibling = wait(*backend, request(common, common, 20, 2, 24));
    EXPECT_EQ(sibling.usage().cached_tokens, common / 16 * 16);
    expect_same(sibling, wait(*backend, request(common, common, 20, 2, 24), "somebody else"));
  }
}

TEST_F(SharingOnCpu, ACopiedBlockEqualsAComputedOne) {
  auto alone = make(1);
  auto together = make(6);
  std::vector<Answer> choices;
  for (int i = 0; i < 6; ++i) choices.push_back(ask(*together, request(9, 200, 5, 1, 30)));
  const Answer reference = wait(*alone, request(9, 200, 5, 1, 30));
  for (Answer& choice : choices) {
    ASSERT_TRUE(choice.client->wait_end());
    expect_same(reference, choice);
  }
  EXPECT_EQ(choices[5].usage().cached_tokens, 204U);
}

TEST_F(SharingOnCpu, BeforeEqualsAfterPreemption) {
  auto roomy = make(1);
  auto tight = make(4, 14, 7);  // 14 blocks of 16 for four of up to 90 tokens
  std::vector<Answer> answers;
  for (std::uint32_t i = 0; i < 6; ++i) answers.push_back(ask(*tight, request(i % 2, 20, 5 + 3 * i, i, 50)));
  for (std::uint32_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(answers[i].client->wait_end());
    expect_same(wait(*roomy, request(i % 2, 20, 5 + 3 * i, i, 50), std::to_string(i)), answers[i]);
  }
  tight->drain(std::chrono::steady_clock::now() + kDrain);
  EXPECT_EQ(tight->load().kv_blocks_used, 0U);
}

TEST_F(SharingOnCpu, SixtyFourStreamsHoldOneCopyOfTheirPrefix) {
  constexpr std::uint32_t kStreams = 64, kPrefix = 1024, kTail = 8, kAnswer = 24;
  std::atomic<std::uint32_t> most = 0, most_running = 0;
  std::atomic<bool> all_there{false};
  auto backend = make(kStreams, kStreams * 70, 256);
  std::vector<Answer> answers;
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    Answer answer;
    answer.client->on_push = [&] {  // on the engine's thread, one at a time
      all_there.wait(false);
      most = std::max(most.load(), backend->load().kv_blocks_used);
      most_running = std::max(most_running.load(), backend->load().running);
    };
    auto r = request(5, kPrefix, kTail, i, kAnswer);
    r.sampling.top_logprobs = -1;
    r.owner = "app";
    answer.ticket = backend->start(std::move(r), answer.client).value();
    answers.push_back(std::move(answer));
  }
  wait_prepared(*backend, 2048);
  all_there = true;
  all_there.notify_all();
  for (Answer& answer : answers) ASSERT_TRUE(answer.client->wait_end());
  const std::uint32_t copy = kPrefix / 16, tails = kStreams * ((kTail + kAnswer + 15) / 16);
  std::cout << "at most " << most << " blocks for " << most_running
            << " streams at once; one copy of the prefix: " << copy << ", private tails: " << tails
            << ", unshared: " << kStreams * copy + tails << "\n";
  EXPECT_EQ(most_running, kStreams);
  EXPECT_GE(most, copy + kStreams);
  EXPECT_LE(most, copy * 13 / 10 + tails);
  EXPECT_GE(backend->load().cached_tokens, std::uint64_t{kStreams - 1} * kPrefix);
}

TEST_F(SharingOnCpu, CancellationFreesWhatIsNotShared) {
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

}  // namespace
}  // namespace flyball::test
