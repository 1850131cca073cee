// Prompts with a gap: their tokens in order, their limits, and answers that go on after an engine's death.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/backends/engine/fakes.hpp"

namespace flyball::test {
namespace {

constexpr text::InfillTokens kInfill{kArrow, kSpaced, kEos};

InfillPrompt gap(std::string before, std::string after) {
  return {std::move(before), std::make_shared<const std::string>(std::move(after))};
}
CompletionRequest infill_request(std::string before, std::string after, std::uint32_t max_tokens) {
  CompletionRequest request = text_request("", max_tokens);
  request.prompt = gap(std::move(before), std::move(after));
  return request;
}

std::vector<Token> infill_tokens_of(std::string_view before, std::string_view after, bool adds_bos) {
  std::vector<Token> out;
  if (adds_bos) out.push_back(kBos);
  out.push_back(kInfill.prefix);
  for (const Token token : byte_tokens(before)) out.push_back(token);
  out.push_back(kInfill.suffix);
  for (const Token token : byte_tokens(after)) out.push_back(token);
  out.push_back(kInfill.middle);
  return out;
}

std::shared_ptr<Client> filled(FakeEngine& fake, CompletionRequest request) {
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client);
  EXPECT_TRUE(ticket) << (ticket ? "" : ticket.error().message);
  EXPECT_TRUE(!ticket || client->wait_end());
  return client;
}
// The error that refuses the request, at once or in its preparation.
Error infill_error(FakeEngine& fake, CompletionRequest request) {
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client);
  if (!ticket) return ticket.error();
  EXPECT_TRUE(client->wait_end());
  EXPECT_TRUE(client->error());
  return client->error().value_or(Error{});
}

TEST(Infill, PutsItsTokensAroundTheTexts) {
  for (const bool adds_bos : {false, true})
    for (const auto& [before, after] : {std::pair<std::string, std::string>{"def f(", "):\n"},
                                        {"", "end"},
                                        {"begin", ""},
                                        {"a<bos>b", "<bos><eos>"}}) {
      auto fake = make_fake({.adds_bos = adds_bos, .infill = kInfill});
      std::vector<Token> seen;
      fake.control->model = [&](std::span<const Token> history) {
        seen.assign(history.begin(), history.end());
        return kEos;
      };
      const auto client = filled(fake, infill_request(before, after, 3));
      const auto expected = infill_tokens_of(before, after, adds_bos);
      EXPECT_EQ(seen, expected) << before << '|' << after;
      ASSERT_TRUE(client->done());
      EXPECT_EQ(client->done()->usage.prompt_tokens, expected.size());
      EXPECT_EQ(client->done()->reason, FinishReason::stop);
    }
}

TEST(Infill, IsRefusedWithoutInfillTokensAndNotEchoed) {
  auto plain = make_fake();
  const Error none = infill_error(plain, infill_request("a", "b", 1));
  EXPECT_EQ(none.code, ErrorCode::unsupported_feature);
  EXPECT_EQ(none.param, "suffix");
  auto fake = make_fake({.infill = kInfill});
  auto echoed = infill_request("a", "b", 1);
  echoed.echo = true;
  EXPECT_EQ(infill_error(fake, std::move(echoed)).param, "echo");
}

// Text merges into infill tokens that a file names and does not mark.
TEST(Infill, RefusesTextThatSpellsAnInfillToken) {
  auto fake = make_fake({.infill = text::InfillTokens{'{', '|', '}'}});
  const Error before = infill_error(fake, infill_request("a{", "b", 1));
  EXPECT_EQ(before.code, ErrorCode::invalid_value);
  EXPECT_EQ(before.param, "prompt");
  EXPECT_NE(before.message.find("\"{\""), std::string::npos) << before.message;
  EXPECT_EQ(infill_error(fake, infill_request("a", "b}", 1)).param, "suffix");
}

TEST(Infill, BothTextsAndTheTokensAroundThemCountAgainstTheContext) {
  for (const bool adds_bos : {false, true})
    for (std::size_t before = 0; before <= 30; ++before) {
      const std::size_t room = 30 - (adds_bos ? 5 : 4);  // one is the answer's
      auto fake = make_fake({.context = 30, .adds_bos = adds_bos, .infill = kInfill});
      for (std::size_t after = 0; after <= 30; ++after) {
        auto request = infill_request(std::string(before, 'x'), std::string(after, 'y'), 1);
        if (before + after <= room) {
          EXPECT_TRUE(filled(fake, std::move(request))->done()) << before << '+' << after;
        } else {
          EXPECT_EQ(infill_error(fake, std::move(request)).code, ErrorCode::context_length_exceeded)
              << before << '+' << after;
        }
      }
    }
}

TEST(Infill, GoesOnWhereAnotherEngineHasStopped) {
  constexpr std::uint32_t kTokens = 8;
  auto whole_engine = make_fake({.infill = kInfill});
  const auto whole = filled(whole_engine, infill_request("one", "two", kTokens));
  ASSERT_EQ(whole->tokens().size(), kTokens);
  for (std::uint32_t had = 1; had < kTokens; ++had) {
    auto fake = make_fake({.infill = kInfill});
    auto request = infill_request("one", "two", kTokens);
    const auto tokens = whole->tokens();
    request.resume_tokens.assign(tokens.begin(), tokens.begin() + had);
    request.resume_text_bytes = had;
    EXPECT_EQ(filled(fake, std::move(request))->text(), whole->text().substr(had)) << had;
  }
}

// An editor's next request has the same beginning.
TEST(Infill, TheTextBeforeTheGapIsAPrefixThatIsCached) {
  auto fake = make_fake({.infill = kInfill});
  const std::string before(24, 'p');
  filled(fake, infill_request(before, "first", 1));
  const auto again = filled(fake, infill_request(before + "more", "second", 1));
  ASSERT_TRUE(again->done());
  EXPECT_EQ(again->done()->usage.cached_tokens, 24U) << "whole blocks of the prefix token and the text";
}

}  // namespace
}  // namespace flyball::test
