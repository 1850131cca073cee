// Tokens that a constraint leaves no choice of, over a fake device: appended without a step for each, and
// otherwise as if they were drawn.
#include <gtest/gtest.h>

#include "backends/engine/sequence.hpp"
#include "tests/backends/engine/fakes.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::test {
namespace {

CompletionRequest forced_request(std::string_view choices, std::uint32_t max_tokens = 190) {
  auto request = text_request("ab", max_tokens);
  request.constraint = Constraint{Constraint::Kind::choice, packed(choices), false};
  return request;
}

std::shared_ptr<Client> answer_of(FakeEngine& fake, CompletionRequest request) {
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client).value();
  EXPECT_TRUE(client->wait_end());
  EXPECT_FALSE(client->error());
  return client;
}

// Three places with a choice, and forced text between them.
constexpr std::string_view kThreeChoices =
    R"(["the quick red fox runs","the quick red cat sleeps","the slow red dog runs","the slow old hen eats"])";

TEST(ForcedTokens, NeedNoStepForEach) {
  auto fake = make_fake({.step_tokens = 64, .tells_first = true});
  const auto client = answer_of(fake, forced_request(R"(["a rather long word"])"));
  EXPECT_EQ(client->text(), "a rather long word");
  EXPECT_EQ(client->tokens(), byte_tokens("a rather long word"));
  EXPECT_EQ(client->done()->reason, FinishReason::stop);
  EXPECT_EQ(client->done()->usage.completion_tokens, 18U);
  EXPECT_EQ(fake.backend->load().completion_tokens, 18U);
  EXPECT_EQ(fake.backend->load().steps, 1U) << "nothing is left to compute";
}

TEST(ForcedTokens, AreComputedWithTheNextStep) {
  auto fake = make_fake({.step_tokens = 64, .tells_first = true});
  const auto client = answer_of(fake, forced_request(kThreeChoices));
  EXPECT_LT(fake.backend->load().steps, 10U) << client->text();
  EXPECT_EQ(fake.control->tokens + 1,
            2 + client->tokens().size() - (client->deltas().back().tokens.size() - 1))
      << "each once, but for the last ones: nobody asks what follows them";
}

TEST(ForcedTokens, AreBoundedInAStep) {
  auto fake = make_fake({.step_tokens = 64, .tells_first = true});
  const std::string word(150, 'a');
  const auto client = answer_of(fake, forced_request("[\"" + word + "\"]"));
  EXPECT_EQ(client->text(), word);
  for (const Delta& delta : client->deltas())
    EXPECT_LE(delta.tokens.size(), 1 + engine::Sequence::kMostForced);
  EXPECT_EQ(client->deltas().size(), 5U);
  EXPECT_LT(fake.backend->load().steps, 50U);
}

TEST(ForcedTokens, WaitForRoomInAStep) {
  auto fake = make_fake({.sequences = 2, .step_tokens = 4, .tells_first = true});
  const std::string word(50, 'a');
  const auto request = forced_request("[\"" + word + "b\",\"" + word + "c\"]");
  auto first = std::make_shared<Client>(), second = std::make_shared<Client>();
  auto one = fake.backend->start(request, first).value(), two = fake.backend->start(request, second).value();
  ASSERT_TRUE(first->wait_end() && second->wait_end());
  EXPECT_EQ(first->text().substr(0, 50), word);
  EXPECT_EQ(second->text(), first->text());
  EXPECT_LT(fake.backend->load().steps, 50U) << "fewer than tokens of one answer";
}

TEST(ForcedTokens, ResumeAtEachOfThem) {
  for (const float temperature : {0.0F, 1.5F}) {
    for (const float penalty : {0.0F, 1.5F}) {
      auto fake = make_fake({.step_tokens = 64, .tells_first = true});
      auto request = forced_request("");
      request.constraint->kind = Constraint::Kind::regex;
      request.constraint->source = packed(R"("([xyz]a{40}[b-m]ccccc){3}")");
      request.sampling.temperature = temperature;
      request.sampling.seed = 3;
      request.sampling.presence_penalty = request.sampling.frequency_penalty = penalty;
      const auto whole = answer_of(fake, request);
      const auto tokens = whole->tokens();
      ASSERT_EQ(tokens.size(), 141U);
      ASSERT_LT(fake.backend->load().steps, 100U);
      for (std::size_t n = 0; n <= tokens.size(); ++n) {
        CompletionRequest rest = request;
        rest.resume_tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
        rest.resume_text_bytes = n / 2;
        const auto client = answer_of(fake, std::move(rest));
        ASSERT_EQ(client->text(), whole->text().substr(n / 2)) << n;
        ASSERT_TRUE(std::ranges::equal(client->tokens(), std::span(tokens).subspan(n))) << n;
        ASSERT_EQ(client->done()->usage.completion_tokens, tokens.size());
      }
    }
  }
}

TEST(ForcedTokens, EndWhereMaxTokensAndStopStringsDo) {
  auto fake = make_fake({.step_tokens = 64, .tells_first = true});
  auto client = answer_of(fake, forced_request(R"(["a rather long word"])", 7));
  EXPECT_EQ(client->text(), "a rathe");
  EXPECT_EQ(client->tokens().size(), 7U);
  EXPECT_EQ(client->done()->reason, FinishReason::length);
  EXPECT_EQ(fake.backend->load().steps, 1U);
  auto request = forced_request(R"(["a rather long word"])");
  request.stop = {"r l"};
  client = answer_of(fake, std::move(request));
  EXPECT_EQ(client->text(), "a rathe");
  EXPECT_EQ(client->tokens(), byte_tokens("a rather l"));
  EXPECT_EQ(client->done()->stop_text, "r l");
  EXPECT_EQ(fake.backend->load().steps, 2U);
}

TEST(ForcedTokens, AreDrawnWhereLogprobsOrABiasAreAskedFor) {
  auto fake = make_fake({.step_tokens = 64, .tells_first = true});
  auto request = forced_request(R"(["no way"])");
  request.sampling.top_logprobs = 0;
  auto client = answer_of(fake, request);
  ASSERT_EQ(client->deltas().size(), 6U);
  for (const Delta& delta : client->deltas()) EXPECT_EQ(delta.logprobs.size(), 1U);
  request.sampling.top_logprobs = -1;
  request.constraint->source = packed(R"(["no no"])");
  request.sampling.logit_bias = {{kSpaced, 100.0F}};
  EXPECT_EQ(answer_of(fake, request)->tokens(), (std::vector<Token>{'n', 'o', kSpaced}));
}

TEST(ForcedTokens, ManyAtOnceGetWhatEachWouldAlone) {
  const auto make = [](std::size_t i) {
    auto request = forced_request(kThreeChoices, 40);
    request.prompt = TextPrompt{"prompt " + std::to_string(i)};
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 2.0F;
    request.sampling.seed = i;
    return request;
  };
  std::vector<std::string> alone;
  for (std::size_t i = 0; i < 12; ++i) {
    auto fake = make_fake({.tells_first = true});
    alone.push_back(answer_of(fake, make(i))->text());
    EXPECT_LT(fake.backend->load().steps, 15U) << alone.back();
  }
  // 14 blocks of 4 for sequences of up to 33 tokens: some are preempted and computed again.
  auto fake = make_fake({.blocks = 14, .sequences = 4, .step_tokens = 6, .tells_first = true});
  fake.control->allow(1);
  std::vector<std::shared_ptr<Client>> clients;
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < 12; ++i) {
    clients.push_back(std::make_shared<Client>());
    tickets.push_back(fake.backend->start(make(i), clients.back()).value());
  }
  const auto free = std::make_shared<Client>();
  tickets.push_back(fake.backend->start(text_request("hello", 12), free).value());
  // Requests are prepared in order: once this one has been refused, the engine has the others.
  auto too_long = make(0);
  too_long.prompt = TokenPrompt{std::vector<Token>(200, 0)};
  const auto last = std::make_shared<Client>();
  tickets.push_back(fake.backend->start(std::move(too_long), last).value());
  ASSERT_TRUE(last->wait_end());
  fake.control->allow(UINT64_MAX);
  for (std::size_t i = 0; i < 12; ++i) {
    ASSERT_TRUE(clients[i]->wait_end());
    EXPECT_EQ(clients[i]->text(), alone[i]) << i;
  }
  ASSERT_TRUE(free->wait_end());
  EXPECT_EQ(free->text(), expected_text("hello", 12));
  EXPECT_GT(fake.backend->load().preemptions, 0U);
}

}  // namespace
}  // namespace flyball::test
