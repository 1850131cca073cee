// What requests need and use, by their prompts and answers.
#include "daemon/route/meter.hpp"

#include <gtest/gtest.h>

namespace flyball::route {
namespace {

std::vector<Prompt> texts(std::initializer_list<const char*> all) {
  std::vector<Prompt> out;
  for (const char* text : all) out.emplace_back(TextPrompt{text});
  return out;
}

TEST(Demand, OfTextIsBetweenAGuessAndATokenAByte) {
  const auto demand = demand_of(texts({"twenty bytes of text"}), 1, 50, 4096);
  EXPECT_EQ(demand.answers, 1U);
  EXPECT_EQ(demand.least_tokens, 6U + 50);
  EXPECT_EQ(demand.most_tokens, 28U + 50);
}

TEST(Demand, OfTokensIsKnown) {
  const std::vector<Prompt> prompt{TokenPrompt{{1, 2, 3}}};
  const auto demand = demand_of(prompt, 1, 5, 4096);
  EXPECT_EQ(demand.least_tokens, 8U);
  EXPECT_EQ(demand.most_tokens, 8U);
}

TEST(Demand, OfAGapHasBothItsTexts) {
  const std::vector<Prompt> prompt{
      InfillPrompt{"twelve bytes", std::make_shared<const std::string>("and eight")}};
  const auto demand = demand_of(prompt, 1, 5, 4096);
  EXPECT_EQ(demand.least_tokens, 21U / 4 + 4 + 5);
  EXPECT_EQ(demand.most_tokens, 21U + 8 + 5);
}

TEST(Demand, WithoutMaxTokensIsTheContext) {
  const auto demand = demand_of(texts({"x"}), 1, 0, 512);
  EXPECT_EQ(demand.least_tokens, 2U);
  EXPECT_EQ(demand.most_tokens, 512U);
  EXPECT_EQ(demand_of(texts({"x"}), 1, 10'000, 512).least_tokens, 512U) << "a sequence holds no more";
}

TEST(Demand, EveryAnswerGetsTheSame) {
  const auto demand = demand_of(texts({"x", "twenty bytes of text"}), 3, 10, 4096);
  EXPECT_EQ(demand.answers, 6U);
  EXPECT_EQ(demand.least_tokens, 6U * 16);
  EXPECT_EQ(demand.most_tokens, 6U * 38);
}

TEST(Meter, CountsAPromptOnceForItsAnswers) {
  const auto prompts = texts({"a", "b"});
  Meter meter(prompts, 2, 4096);
  const auto say = [&](std::size_t i, std::uint32_t prompt, std::uint32_t cached, std::vector<Token> tokens) {
    Delta delta;
    delta.prompt_tokens = prompt;
    delta.cached_tokens = cached;
    delta.tokens = std::move(tokens);
    meter.received(i, delta);
  };
  say(1, 10, 9, {1});
  EXPECT_EQ(meter.usage().cached_tokens, 9U) << "as long as nothing is known of the first";
  say(0, 10, 0, {1});
  say(0, 0, 0, {2, 3});
  say(2, 20, 4, {1});
  EXPECT_EQ(meter.usage().prompt_tokens, 30U);
  EXPECT_EQ(meter.usage().cached_tokens, 4U);
  EXPECT_EQ(meter.usage().completion_tokens, 5U);
  meter.done(0, {10, 4, 0});
  EXPECT_EQ(meter.usage().completion_tokens, 6U) << "a token that came with the end";
  meter.done(3, {20, 0, 20});
  EXPECT_EQ(meter.charge(), 36U);
}

// Who leaves before the first token has had something computed; whom an engine refused has not.
TEST(Meter, ChargesForWhatAnEngineIsAt) {
  const auto prompts = texts({"twenty bytes of text"});
  Meter meter(prompts, 2, 4096);
  EXPECT_EQ(meter.charge(), 0U);
  meter.began(0);
  meter.began(1);
  EXPECT_EQ(meter.charge(), 6U);
  EXPECT_EQ(meter.usage().prompt_tokens, 0U);
  meter.failed(0);
  meter.failed(1);
  EXPECT_EQ(meter.charge(), 0U);
}

// No engine computes more of a prompt than a sequence holds, and no more was reserved.
TEST(Meter, ChargesForNoMoreThanTheContext) {
  const std::vector<Prompt> prompts{TextPrompt{std::string(4'000'000, 'x')}};
  Meter meter(prompts, 1, 512);
  meter.began(0);
  EXPECT_EQ(meter.charge(), 512U);
  EXPECT_LE(meter.charge(), demand_of(prompts, 1, 10, 512).most_tokens);
}

}  // namespace
}  // namespace flyball::route
