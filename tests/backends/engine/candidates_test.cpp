// Candidates in place of whole rows: the sampler, the logprobs and the engine say the same of both, and whole
// rows are asked for only where nothing less will do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/decode/logprobs.hpp"
#include "backends/decode/sampler.hpp"
#include "kernels/reference/top_k.hpp"
#include "tests/backends/engine/fakes.hpp"

namespace flyball {
namespace {

using decode::Likely;

// Of a row, as a device hands them over.
struct Cut {
  std::vector<Likely> likeliest;
  decode::Candidates row;

  Cut(const std::vector<float>& logits, std::uint32_t k) {
    const auto n = static_cast<std::uint32_t>(logits.size());
    std::vector<std::uint32_t> ids(std::min(k, n));
    const double sum =
        kernels::reference::top_k(logits.data(), n, static_cast<std::uint32_t>(ids.size()), ids.data());
    for (const std::uint32_t id : ids) likeliest.push_back({static_cast<Token>(id), logits[id]});
    row = {likeliest, static_cast<float>(sum), true};
  }
};

// Half of the rows have many equal values.
std::vector<float> random_logits(std::mt19937& random, std::uint32_t n) {
  std::normal_distribution<float> normal(0.0F, 4.0F);
  const bool rounded = random() % 2 == 0;
  std::vector<float> logits(n);
  std::ranges::generate(logits, [&] { return rounded ? std::round(normal(random)) : normal(random); });
  return logits;
}

// Every setting that candidates can decide, and how many of them decide it.
std::vector<std::pair<SamplingParams, std::uint32_t>> decidable() {
  std::vector<std::pair<SamplingParams, std::uint32_t>> all;
  for (const float temperature : {0.0F, 0.3F, 1.0F, 2.0F})
    for (const std::int32_t top_k : {0, 1, 2, 5, 40, 64})
      for (const float typical_p : {1.0F, 0.6F})
        for (const float top_p : {1.0F, 0.9F, 0.2F})
          for (const float min_p : {0.0F, 0.05F, 0.5F}) {
            if (temperature > 0 && top_k == 0) continue;
            SamplingParams p;
            p.temperature = temperature;
            p.top_k = top_k;
            p.typical_p = typical_p;
            p.top_p = top_p;
            p.min_p = min_p;
            p.seed = all.size();
            all.emplace_back(p, temperature == 0 ? 1U : static_cast<std::uint32_t>(top_k));
          }
  return all;
}

TEST(Candidates, DecideAsTheWholeRowDoes) {
  std::mt19937 random(5);
  decode::SamplerScratch scratch;
  for (const std::uint32_t n : {1U, 2U, 33U, 257U, 3000U})
    for (const auto& [params, needed] : decidable()) {
      decode::Sampler sampler(params, n);
      ASSERT_EQ(sampler.candidates(), needed);
      for (int i = 0; i < 8; ++i) {
        const auto logits = random_logits(random, n);
        const Token expected = sampler.sample(logits, scratch);
        // Exactly as many, and more than it asked for, because logprobs did.
        ASSERT_EQ(sampler.sample(Cut(logits, needed).row, scratch), expected);
        ASSERT_EQ(sampler.sample(Cut(logits, needed + 20).row, scratch), expected)
            << "top_k " << params.top_k << " top_p " << params.top_p << " min_p " << params.min_p
            << " typical_p " << params.typical_p << " temperature " << params.temperature;
        sampler.accept(expected);
      }
    }
}

TEST(Candidates, WhatLooksAtTheWholeRowGetsIt) {
  const auto candidates = [](auto change) {
    SamplingParams p;
    p.temperature = 0;
    change(p);
    decode::Sampler sampler(p, 100);
    const Token prompt[] = {1, 2};
    sampler.accept_prompt(prompt);
    sampler.accept(3);
    return sampler.candidates();
  };
  EXPECT_EQ(candidates([](SamplingParams&) {}), 1U);
  EXPECT_EQ(candidates([](SamplingParams& p) { p.temperature = 1; }), 0U);
  EXPECT_EQ(candidates([](SamplingParams& p) { p.temperature = 1, p.top_p = 0.5F; }), 0U);
  EXPECT_EQ(candidates([](SamplingParams& p) { p.temperature = 1, p.min_p = 0.5F; }), 0U);
  EXPECT_EQ(candidates([](SamplingParams& p) { p.logit_bias = {{7, 1.0F}}; }), 0U);
  EXPECT_EQ(candidates([](SamplingParams& p) { p.logit_bias = {{100, 1.0F}}; }), 1U);  // no token
  EXPECT_EQ(candidates([](SamplingParams& p) { p.repetition_penalty = 1.1F; }), 0U);
  EXPECT_EQ(candidates([](SamplingParams& p) { p.frequency_penalty = 0.1F; }), 0U);
  EXPECT_EQ(candidates([](SamplingParams& p) { p.presence_penalty = -0.1F; }), 0U);
  EXPECT_EQ(candidates([](SamplingParams& p) { p.temperature = 1, p.top_k = 100; }), 100U);
}

TEST(Candidates, HaveTheWholeRowsLogprobs) {
  std::mt19937 random(6);
  for (const std::uint32_t n : {1U, 3U, 20U, 1000U})
    for (const std::uint32_t top : {0U, 1U, 5U, 20U}) {
      const auto logits = random_logits(random, n);
      const Cut cut(logits, 20);
      const auto chosen = cut.likeliest[cut.likeliest.size() / 2].token;
      const auto expected = decode::logprobs(logits, chosen, top),
                 got = decode::logprobs(cut.row, chosen, top);
      EXPECT_NEAR(got.chosen, expected.chosen, 1e-5);
      ASSERT_EQ(got.top.size(), expected.top.size());
      for (std::size_t i = 0; i < got.top.size(); ++i) {
        EXPECT_EQ(got.top[i].token, expected.top[i].token);
        EXPECT_NEAR(got.top[i].value, expected.top[i].value, 1e-5);
      }
    }
}

}  // namespace

namespace test {
namespace {

struct Request {
  std::string what;
  CompletionRequest request;
  bool decidable = false;  // from 64 candidates
};

std::vector<Request> requests() {
  std::vector<Request> all;
  const auto add = [&](std::string what, bool decidable, auto change) {
    auto request = text_request("prompt " + std::to_string(all.size()), 24);
    request.sampling.seed = 17;
    change(request.sampling);
    all.push_back({std::move(what), std::move(request), decidable});
  };
  for (const std::int32_t logprobs : {-1, 0, 3, 20}) {
    const auto with = [&](std::string what, bool decidable, auto change) {
      add(what + ", logprobs " + std::to_string(logprobs), decidable, [&](SamplingParams& p) {
        p.temperature = 1.5F;
        p.top_logprobs = logprobs;
        change(p);
      });
    };
    with("greedy", true, [](auto& p) { p.temperature = 0; });
    with("top_k 1", true, [](auto& p) { p.top_k = 1; });
    with("top_k 5", true, [](auto& p) { p.top_k = 5; });
    with("top_k 64, top_p, min_p", true, [](auto& p) { p.top_k = 64, p.top_p = 0.8F, p.min_p = 0.01F; });
    with("top_k 40, typical_p", true, [](auto& p) { p.top_k = 40, p.typical_p = 0.5F; });
    with("top_k 65", false, [](auto& p) { p.top_k = 65; });
    with("all", false, [](auto&) {});
    with("top_p", false, [](auto& p) { p.top_p = 0.9F; });
    with("bias", false, [](auto& p) { p.top_k = 5, p.logit_bias = {{'q', 9.0F}}; });
    with("repetition", false, [](auto& p) { p.top_k = 5, p.repetition_penalty = 1.3F; });
  }
  return all;
}

void expect_same(const Client& got, const Client& expected) {
  EXPECT_EQ(got.tokens(), expected.tokens());
  EXPECT_EQ(got.text(), expected.text());
  const auto a = got.deltas(), b = expected.deltas();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].logprobs.size(), b[i].logprobs.size());
    for (std::size_t j = 0; j < a[i].logprobs.size(); ++j) {
      const TokenLogprob &x = a[i].logprobs[j], &y = b[i].logprobs[j];
      EXPECT_NEAR(x.logprob, y.logprob, 1e-5);
      ASSERT_EQ(x.top.size(), y.top.size());
      for (std::size_t k = 0; k < x.top.size(); ++k) {
        EXPECT_EQ(x.top[k].first, y.top[k].first);
        EXPECT_NEAR(x.top[k].second, y.top[k].second, 1e-5);
      }
    }
  }
}

std::shared_ptr<Client> answer(Backend& backend, const CompletionRequest& request) {
  auto client = std::make_shared<Client>();
  auto ticket = backend.start(request, client).value();
  EXPECT_TRUE(client->wait_end());
  return client;
}

TEST(EngineCandidates, EachSettingAloneGivesTheSameAnswer) {
  for (const std::uint32_t vocab : {kVocab, 2U, 30U}) {  // fewer tokens than candidates, than a row
    FakeShape shape;
    shape.vocab = vocab;
    for (const Request& r : requests()) {
      auto request = r.request;
      request.prompt = TokenPrompt{{0, 1, 1}};
      if (vocab < kVocab) request.sampling.logit_bias.clear();
      shape.max_candidates = 0;
      auto whole = make_fake(shape);
      shape.max_candidates = 64;
      auto cut = make_fake(shape);
      const auto expected = answer(*whole.backend, request), got = answer(*cut.backend, request);
      SCOPED_TRACE(r.what + " of " + std::to_string(vocab));
      ASSERT_EQ(expected->ends(), 1);
      EXPECT_FALSE(expected->error());
      expect_same(*got, *expected);
      if (vocab < kVocab) continue;
      const auto steps = expected->tokens().size();
      const std::lock_guard lock(cut.control->mutex);
      EXPECT_EQ(cut.control->whole_rows, r.decidable ? 0 : steps);
      EXPECT_EQ(cut.control->candidates > 0, r.decidable);
    }
  }
}

// Steps in which some rows are whole and some are cut.
TEST(EngineCandidates, TogetherTheyGetWhatEachGetsAlone) {
  const auto all = requests();
  FakeShape shape;
  shape.blocks = 1000;
  shape.sequences = 16;
  shape.step_tokens = 64;
  shape.queue = 64;
  auto alone = make_fake(shape);
  shape.max_candidates = 64;
  auto together = make_fake(shape);
  std::vector<std::shared_ptr<Client>> clients;
  std::vector<Ticket> tickets;
  for (const Request& r : all) {
    clients.push_back(std::make_shared<Client>());
    tickets.push_back(together.backend->start(r.request, clients.back()).value());
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].what);
    ASSERT_TRUE(clients[i]->wait_end());
    expect_same(*clients[i], *answer(*alone.backend, all[i].request));
  }
  const std::lock_guard lock(together.control->mutex);
  EXPECT_GT(together.control->whole_rows, 0U);
  EXPECT_GT(together.control->candidates, 0U);
}

TEST(EngineCandidates, ARowThatIsNoNumberEndsItsRequestAlone) {
  FakeShape shape;
  shape.max_candidates = 64;
  auto fake = make_fake(shape);
  fake.control->poisoned = 'x';
  const auto bad = answer(*fake.backend, text_request("xyz", 8));
  EXPECT_EQ(bad->error().value().code, ErrorCode::numeric_error);
  EXPECT_TRUE(bad->tokens().empty());
  EXPECT_EQ(answer(*fake.backend, text_request("abc", 8))->text(), expected_text("abc", 8));
}

TEST(EngineCandidates, CrossByTheNumberThatIsNeeded) {
  FakeShape shape;
  shape.max_candidates = 64;
  const auto given = [&](auto change) {
    auto fake = make_fake(shape);
    auto request = text_request("abc", 5);
    change(request.sampling);
    const auto client = answer(*fake.backend, request);
    EXPECT_EQ(client->tokens().size(), 5U);
    const std::lock_guard lock(fake.control->mutex);
    return fake.control->candidates;
  };
  EXPECT_EQ(given([](SamplingParams&) {}), 5U);
  EXPECT_EQ(given([](SamplingParams& p) { p.top_logprobs = 0; }), 5U);
  EXPECT_EQ(given([](SamplingParams& p) { p.top_logprobs = 20; }), 100U);
  EXPECT_EQ(given([](SamplingParams& p) { p.temperature = 1, p.top_k = 40, p.top_logprobs = 3; }), 200U);
  shape.max_candidates = 10;  // a device of narrower means
  EXPECT_EQ(given([](SamplingParams& p) { p.top_logprobs = 20; }), 0U);
}

}  // namespace
}  // namespace test
}  // namespace flyball
