// Requests for a prompt alone: its tokens or its text, without a step, however busy the engine is.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/engine/prepare.hpp"
#include "tests/backends/engine/fakes.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::test {
namespace {

CompletionRequest prompt_alone(Prompt prompt, Wanted wanted = Wanted::prompt_tokens) {
  CompletionRequest request;
  request.prompt = std::move(prompt);
  request.wanted = wanted;
  return request;
}

struct Told {
  std::vector<Token> tokens = {};
  std::string text = {};
  std::optional<Done> done = {};
  std::optional<Error> error = {};
};

Told told(FakeEngine& fake, CompletionRequest request) {
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client);
  if (!ticket) return {.error = ticket.error()};
  EXPECT_TRUE(client->wait_end());
  EXPECT_EQ(client->ends(), 1);
  Told out{.text = client->text(), .done = client->done(), .error = client->error()};
  for (const Delta& delta : client->deltas()) {
    EXPECT_TRUE(delta.tokens.empty()) << "nothing is generated";
    out.tokens.insert(out.tokens.end(), delta.prompt.begin(), delta.prompt.end());
  }
  return out;
}

TEST(PromptAlone, TellsTheTokensThatAnAnswerWouldBeginWith) {
  for (const bool adds_bos : {false, true}) {
    auto fake = make_fake({.adds_bos = adds_bos});
    std::vector<Token> seen;
    fake.control->model = [&](std::span<const Token> history) {
      seen.assign(history.begin(), history.end());
      return kEos;
    };
    const std::vector<Prompt> prompts{
        TextPrompt{"hello <bos>"}, TokenPrompt{{'x', kEos}},
        ChatPrompt{test::packed(R"([{"role":"user","content":"hi <bos>"}])"), {}, {}, true}};
    for (const Prompt& prompt : prompts) {
      CompletionRequest answered = text_request("", 3);
      answered.prompt = prompt;
      auto client = std::make_shared<Client>();
      auto ticket = fake.backend->start(std::move(answered), client).value();
      ASSERT_TRUE(client->wait_end());
      const Told prompt_told = told(fake, prompt_alone(prompt));
      ASSERT_TRUE(prompt_told.done);
      EXPECT_EQ(prompt_told.tokens, seen);
      EXPECT_EQ(prompt_told.done->usage.prompt_tokens, client->done()->usage.prompt_tokens);
      EXPECT_EQ(prompt_told.done->usage.completion_tokens, 0U);
    }
  }
}

TEST(PromptAlone, TakesNoStepAndWaitsForNoAnswer) {
  auto fake = make_fake({.sequences = 1});
  fake.control->allow(0);  // the one slot is taken for good
  auto answered = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request("busy", 5), answered).value();
  EXPECT_EQ(told(fake, prompt_alone(TextPrompt{"ab"})).tokens, (std::vector<Token>{'a', 'b'}));
  EXPECT_EQ(answered->ends(), 0);
  fake.control->allow(UINT64_MAX);
  ASSERT_TRUE(answered->wait_end());
  const BackendLoad load = fake.backend->load();
  EXPECT_EQ(load.prompt_tokens, 4U) << "those of the answer alone";
  EXPECT_EQ(load.steps, 5U);
}

TEST(PromptAlone, AddsSpecialTokensUnlessTheTextIsToHaveNone) {
  auto fake = make_fake({.adds_bos = true});
  EXPECT_EQ(told(fake, prompt_alone(TextPrompt{"a"})).tokens, (std::vector<Token>{kBos, 'a'}));
  EXPECT_EQ(told(fake, prompt_alone(TextPrompt{"a", false})).tokens, (std::vector<Token>{'a'}));
  const Told none = told(fake, prompt_alone(TextPrompt{"", false}));
  ASSERT_TRUE(none.done) << "an empty text has no tokens, and that is no error";
  EXPECT_EQ(none.done->usage.prompt_tokens, 0U);
}

class SpelledPrompt : public testing::TestWithParam<const char*> {};

TEST_P(SpelledPrompt, IsTheTextThatItsTokensCameFrom) {
  auto fake = make_fake({.adds_bos = true});
  const std::string text = GetParam();
  const Told tokens = told(fake, prompt_alone(TextPrompt{text, false}));
  const Told spelled = told(fake, prompt_alone(TokenPrompt{tokens.tokens}, Wanted::prompt_text));
  EXPECT_EQ(spelled.text, text);
  ASSERT_TRUE(spelled.done);
  EXPECT_EQ(spelled.done->usage.prompt_tokens, tokens.tokens.size());
}

INSTANTIATE_TEST_SUITE_P(Texts, SpelledPrompt,
                         testing::Values("", "x", " two  blanks ", "line\nline\r\n", "naïve 中文 🙂",
                                         "<bos>a control token<bos>", R"({"json": "\u0000"})"),
                         [](const auto& row) { return "text" + std::to_string(row.index); });

TEST(PromptAlone, IsRefusedWhereNoAnswerCouldFollow) {
  auto fake = make_fake({.context = 10});
  const Told bytes = told(fake, prompt_alone(TextPrompt{std::string(200, 'x')}));
  ASSERT_TRUE(bytes.error);
  EXPECT_EQ(bytes.error->code, ErrorCode::context_length_exceeded);
  EXPECT_NE(bytes.error->message.find("at least 40 tokens"), std::string::npos) << bytes.error->message;
  const Told tokens = told(fake, prompt_alone(TokenPrompt{std::vector<Token>(11, 'x')}, Wanted::prompt_text));
  ASSERT_TRUE(tokens.error);
  EXPECT_EQ(tokens.error->code, ErrorCode::context_length_exceeded);
  EXPECT_EQ(tokens.error->param, "tokens");
  const Told unknown = told(fake, prompt_alone(TokenPrompt{{1, kVocab}}, Wanted::prompt_text));
  ASSERT_TRUE(unknown.error);
  EXPECT_EQ(unknown.error->code, ErrorCode::invalid_value);
  EXPECT_EQ(unknown.error->param, "tokens");
}

// The engine lets go of each: drain returns, and the queue is as long as before.
TEST(PromptAlone, LeavesNothingBehindWhenItsClientLeaves) {
  auto fake = make_fake({.queue = 2});
  for (int i = 0; i < 50; ++i) {
    auto ticket = fake.backend->start(prompt_alone(TextPrompt{"abc"}), std::make_shared<Client>());
    while (!ticket) {  // the queue is full until those that are cancelled have gone
      ASSERT_EQ(ticket.error().code, ErrorCode::overloaded);
      ticket = fake.backend->start(prompt_alone(TextPrompt{"abc"}), std::make_shared<Client>());
    }
  }
  fake.backend->drain(std::chrono::steady_clock::now() + std::chrono::seconds(20));
  EXPECT_EQ(fake.backend->load().waiting, 0U);
}

}  // namespace
}  // namespace flyball::test
