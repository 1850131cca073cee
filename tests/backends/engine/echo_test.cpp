// Answers that echo their prompts: text and log probabilities come once, in order, however the prompt is cut,
// preempted or resumed, and are those of the model given the tokens before.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "backends/decode/logprobs.hpp"
#include "tests/backends/engine/fakes.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::test {
namespace {

std::vector<Token> random_prompt(std::uint32_t n, std::uint32_t seed) {
  std::vector<Token> tokens;
  for (std::uint32_t i = 0; i < n; ++i) {
    seed = seed * 1664525U + 1013904223U;
    tokens.push_back(static_cast<Token>('a' + (seed >> 16) % 26));
  }
  return tokens;
}

CompletionRequest echo_request(std::vector<Token> prompt, std::uint32_t max_tokens,
                               std::int32_t top_logprobs) {
  auto request = text_request("", max_tokens);
  request.prompt = TokenPrompt{std::move(prompt)};
  request.echo = true;
  request.sampling.top_logprobs = top_logprobs;
  return request;
}

struct Echoed {
  std::string text, answer;
  std::vector<TokenLogprob> logprobs;  // of the prompt
  std::vector<Token> tokens;           // of the answer
  std::uint32_t n = 0, largest = 0;    // prompt tokens, and most in one delta
};

// Checks the order of the deltas, too.
Echoed read_echo(const Client& client) {
  Echoed out;
  for (const Delta& delta : client.deltas()) {
    if (delta.echoed == 0) {
      out.answer += delta.text;
      out.tokens.insert(out.tokens.end(), delta.tokens.begin(), delta.tokens.end());
      continue;
    }
    EXPECT_TRUE(out.tokens.empty()) << "the prompt comes first";
    EXPECT_TRUE(delta.tokens.empty());
    out.text += delta.text;
    out.n += delta.echoed;
    out.largest = std::max(out.largest, delta.echoed);
    out.logprobs.insert(out.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
  }
  return out;
}

Echoed echo(FakeEngine& fake, CompletionRequest request) {
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client).value();
  EXPECT_TRUE(client->wait_end());
  EXPECT_EQ(client->ends(), 1);
  EXPECT_TRUE(client->done()) << (client->error() ? client->error()->message : "");
  return read_echo(*client);
}

// Each token's log probability by the model, computed without an engine.
void expect_scores(const std::vector<TokenLogprob>& got, std::span<const Token> prompt,
                   std::uint32_t first = 0, std::uint32_t n_top = 2) {
  ASSERT_EQ(got.size(), prompt.size() - first);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t at = first + i;
    EXPECT_EQ(got[i].token, prompt[at]);
    EXPECT_EQ(got[i].bytes, std::string(1, static_cast<char>(prompt[at])));
    EXPECT_EQ(got[i].known, at > 0);
    if (at == 0) {
      EXPECT_TRUE(got[i].top.empty());
      continue;
    }
    const auto want = decode::logprobs(fake_row(hash_model, prompt.first(at)), prompt[at], n_top);
    EXPECT_EQ(got[i].logprob, want.chosen) << "token " << at;
    ASSERT_EQ(got[i].top.size(), n_top);
    for (std::size_t k = 0; k < n_top; ++k) EXPECT_EQ(got[i].top[k].second, want.top[k].value);
  }
}

TEST(Echo, ScoresThePromptAsTheModelDoesHoweverItIsCut) {
  for (const std::uint32_t sequences : {1U, 2U, 4U, 9U})
    for (const std::uint32_t step_tokens : {1U, 3U, 16U, 64U})
      for (const std::uint32_t length : {1U, 2U, 3U, 8U, 9U, 31U, 70U}) {
        SCOPED_TRACE(std::to_string(sequences) + " sequences, steps of " + std::to_string(step_tokens) +
                     ", prompt of " + std::to_string(length));
        auto fake = make_fake({.sequences = sequences, .step_tokens = step_tokens});
        const auto prompt = random_prompt(length, length);
        const Echoed got = echo(fake, echo_request(prompt, 3, 2));
        EXPECT_EQ(got.n, length);
        EXPECT_LE(got.largest, sequences + 1) << "a row for each sequence, and the first token has none";
        EXPECT_EQ(got.text, std::string(prompt.begin(), prompt.end()));
        EXPECT_EQ(got.answer, expected_text(got.text, 3));
        expect_scores(got.logprobs, prompt);
      }
}

TEST(Echo, IsWhatItWouldBeAloneBesideOthersThatArePreemptedForRoom) {
  for (const bool spare : {false, true}) {
    // Twelve prompts of 24 tokens at four slots; without spare blocks they push each other out.
    auto fake = make_fake({.blocks = spare ? 64U : 14U, .sequences = 4, .step_tokens = 8});
    std::vector<std::shared_ptr<Client>> clients;
    std::vector<Ticket> tickets;
    std::vector<std::vector<Token>> prompts;
    for (std::uint32_t i = 0; i < 12; ++i) {
      prompts.push_back(random_prompt(24, i % 5));  // some are equal
      auto request = echo_request(prompts.back(), 16, i % 3 == 0 ? -1 : 2);
      request.owner = "app";
      request.echo = i % 4 != 3;
      clients.push_back(std::make_shared<Client>());
      tickets.push_back(fake.backend->start(std::move(request), clients.back()).value());
    }
    for (std::uint32_t i = 0; i < 12; ++i) {
      SCOPED_TRACE(i);
      ASSERT_TRUE(clients[i]->wait_end());
      ASSERT_TRUE(clients[i]->done());
      const Echoed got = read_echo(*clients[i]);
      const std::string text(prompts[i].begin(), prompts[i].end());
      EXPECT_EQ(got.text, i % 4 != 3 ? text : "");
      EXPECT_EQ(got.answer, expected_text(text, 16));
      if (i % 4 != 3 && i % 3 != 0)
        expect_scores(got.logprobs, prompts[i]);
      else
        EXPECT_TRUE(got.logprobs.empty());
    }
    if (!spare) {
      EXPECT_GT(fake.backend->load().preemptions, 0U);
    }
  }
}

TEST(Echo, GoesOnBehindWhatWasDelivered) {
  auto fake = make_fake({.sequences = 3});
  const auto prompt = random_prompt(20, 7);
  const std::string text(prompt.begin(), prompt.end());
  for (const std::int32_t top_logprobs : {-1, 2})
    for (std::uint32_t sent = 0; sent <= prompt.size(); ++sent) {
      SCOPED_TRACE(sent);
      auto request = echo_request(prompt, 4, top_logprobs);
      request.resume_echo = sent;
      const Echoed got = echo(fake, std::move(request));
      EXPECT_EQ(got.text, text.substr(sent));
      EXPECT_EQ(got.answer, expected_text(text, 4));
      if (top_logprobs >= 0) expect_scores(got.logprobs, prompt, sent);
    }
  // Behind tokens of the answer nothing of the prompt is left.
  auto request = echo_request(prompt, 4, 2);
  request.resume_echo = static_cast<std::uint32_t>(prompt.size());
  const std::string whole = expected_text(text, 4);
  request.resume_tokens = {static_cast<unsigned char>(whole[0])};
  request.resume_text_bytes = 1;
  const Echoed got = echo(fake, std::move(request));
  EXPECT_EQ(got.n, 0U);
  EXPECT_EQ(got.answer, whole.substr(1));
}

TEST(Echo, HalfACharacterWaitsForItsRestAcrossDeltas) {
  const std::string text = "a\xE2\x82\xAC\xE2\x82\xAC";
  const std::vector<Token> prompt{'a', 0xE2, 0x82, 0xAC, 0xE2, 0x82, 0xAC, 0xE2};
  for (std::uint32_t sent = 0; sent <= 8; ++sent) {
    auto fake = make_fake({.sequences = 1});
    auto request = echo_request(prompt, 1, 0);
    request.resume_echo = sent;
    const std::string all = text + "\xEF\xBF\xBD";
    const std::size_t released = sent == 8 ? all.size() : sent == 0 ? 0 : 1 + (sent - 1) / 3 * 3;
    EXPECT_EQ(echo(fake, std::move(request)).text, all.substr(released)) << sent;
  }
}

TEST(Echo, OfALongTextComesInPiecesAndWithoutLogitsOfThePrompt) {
  auto fake = make_fake({.blocks = 1000, .step_tokens = 512, .context = 4000});
  const auto prompt = random_prompt(3000, 3);
  const Echoed got = echo(fake, echo_request(prompt, 2, -1));
  EXPECT_EQ(got.n, 3000U);
  EXPECT_LE(got.largest, engine::Echo::kMostTokens);
  EXPECT_EQ(got.text, std::string(prompt.begin(), prompt.end()));
  EXPECT_TRUE(got.logprobs.empty());
  EXPECT_EQ(fake.control->whole_rows, 2U) << "one for each token of the answer";
}

TEST(Echo, LeavesOutWhatTheTokenizerAddsToAText) {
  for (const std::int32_t top_logprobs : {-1, 0}) {
    auto fake = make_fake({.adds_bos = true});
    auto request = text_request("hi <bos>", 1);
    request.echo = true;
    request.sampling.top_logprobs = top_logprobs;
    const Echoed text = echo(fake, std::move(request));
    EXPECT_EQ(text.text, "hi <bos>") << "as the client wrote it";
    EXPECT_EQ(text.n, 5U);
    const Echoed tokens = echo(fake, echo_request({kBos, 'h', 'i'}, 1, top_logprobs));
    EXPECT_EQ(tokens.text, "<bos>hi");
    if (top_logprobs < 0) continue;
    ASSERT_EQ(text.logprobs.size(), 5U);
    EXPECT_FALSE(text.logprobs[0].in_text || text.logprobs[0].known);
    EXPECT_TRUE(text.logprobs[1].known) << "the model has seen a token before it";
    EXPECT_TRUE(text.logprobs[4].in_text);
    EXPECT_EQ(text.logprobs[4].bytes, "<bos>");
    EXPECT_TRUE(tokens.logprobs.at(0).in_text);
  }
}

TEST(Echo, StopStringsAreOfTheAnswerAlone) {
  auto fake = make_fake();
  fake.control->model = script_model(4, byte_tokens("xxstop"));
  auto request = text_request("stop", 9);
  request.echo = true;
  request.stop = {"stop"};
  const Echoed got = echo(fake, std::move(request));
  EXPECT_EQ(got.text, "stop");
  EXPECT_EQ(got.answer, "xx");
}

TEST(Echo, AConstraintIsOfTheAnswerAlone) {
  auto fake = make_fake();
  const std::string prompt = "is it so?";
  for (const std::int32_t top_logprobs : {-1, 2}) {
    auto request = echo_request(byte_tokens(prompt), 9, top_logprobs);
    request.constraint = Constraint{Constraint::Kind::choice, packed(R"(["yes"])"), false};
    const Echoed got = echo(fake, std::move(request));
    EXPECT_EQ(got.text, prompt);
    EXPECT_EQ(got.answer, "yes");
    if (top_logprobs >= 0) expect_scores(got.logprobs, byte_tokens(prompt));
  }
}

TEST(Echo, ComesWholeWhereTheConstraintEndsTheAnswerAtOnce) {
  auto fake = make_fake({.sequences = 2});
  const auto prompt = random_prompt(12, 3);
  for (const bool empty_answer : {false, true})
    for (const std::int32_t top_logprobs : {-1, 2}) {
      auto request = echo_request(prompt, 5, top_logprobs);
      request.empty_answer = empty_answer;
      request.constraint = Constraint{Constraint::Kind::gbnf, packed(R"("root ::= \"\"")"), false};
      auto client = std::make_shared<Client>();
      auto ticket = fake.backend->start(std::move(request), client).value();
      ASSERT_TRUE(client->wait_end());
      ASSERT_TRUE(client->done()) << client->error()->message;
      EXPECT_EQ(client->done()->reason, empty_answer ? FinishReason::length : FinishReason::stop);
      EXPECT_EQ(client->done()->usage.completion_tokens, 0U);
      const Echoed got = read_echo(*client);
      EXPECT_EQ(got.text, std::string(prompt.begin(), prompt.end()));
      EXPECT_EQ(got.answer, "");
      if (top_logprobs >= 0) expect_scores(got.logprobs, prompt);
    }
}

TEST(Echo, OfATextIsWhatTheClientWroteInWholeCharacters) {
  const ByteTokenizer tokenizer;
  const std::string text = " a\xE2\x82\xAC  \xC3\xA9\xF0\x9F\x98\x80.";
  for (std::uint32_t n = 1; n <= 20; ++n) {
    const auto prompt = random_prompt(n, n);  // spells something else
    std::string longer = text;
    for (std::uint32_t sent = 0; sent < n; ++sent) {
      engine::EchoRequest request;
      request.text = text;
      request.sent = sent;
      engine::Echo part(tokenizer, request, prompt);
      const std::string rest = part.next(prompt).text;
      EXPECT_TRUE(part.over());
      EXPECT_TRUE(sent > 0 || rest == text);
      EXPECT_TRUE(longer.ends_with(rest)) << sent << " of " << n << " tokens sent";
      EXPECT_TRUE(rest.empty() || (static_cast<unsigned char>(rest[0]) & 0xC0U) != 0x80U);
      longer = rest;
    }
  }
}

TEST(Echo, APieceEndsBehindSomeBytesToo) {
  const ByteTokenizer tokenizer;
  engine::EchoRequest request;
  request.text = std::string(10 * engine::Echo::kMostBytes, 'x');
  const auto prompt = random_prompt(30, 1);
  engine::Echo echo(tokenizer, request, prompt);
  std::string text;
  while (!echo.over()) {
    const Delta delta = echo.next(prompt);
    EXPECT_LT(delta.text.size(), engine::Echo::kMostBytes + request.text.size() / prompt.size() + 1);
    text += delta.text;
  }
  EXPECT_EQ(text, request.text);
}

// Rows of logits are cut where the spellings of likely tokens are long, too.
TEST(Echo, AScoredPieceEndsBehindSomeBytesToo) {
  const ByteTokenizer tokenizer(false, {}, false, std::string(40 * 1024, 'b'));
  const std::vector<Token> prompt(6, kBos);
  std::vector<float> rows(5 * kVocab, 0.0F);
  for (std::size_t i = 0; i < 5; ++i) rows[i * kVocab + kBos] = 9;
  engine::EchoRequest request;
  request.top_logprobs = 1;
  engine::Echo echo(tokenizer, request, prompt);
  EXPECT_TRUE(echo.needs_no_row());
  EXPECT_EQ(echo.next(prompt).echoed, 1U);
  EXPECT_FALSE(echo.needs_no_row());
  const engine::LogitRows all{rows, kVocab, kVocab};
  for (std::uint32_t n = 0; n < 5; ++n) EXPECT_EQ(echo.next(prompt, all.from(n)).echoed, 1U);
  EXPECT_TRUE(echo.over());
}

TEST(EmptyAnswer, EndsByLengthWithTheWholePromptCounted) {
  const auto prompt = random_prompt(11, 5);
  const std::string text(prompt.begin(), prompt.end());
  for (const bool echoes : {false, true})
    for (const std::int32_t top_logprobs : {-1, 2}) {
      auto fake = make_fake({.sequences = 2});
      auto request = echo_request(prompt, 1, top_logprobs);
      request.echo = echoes;
      request.empty_answer = true;
      auto client = std::make_shared<Client>();
      auto ticket = fake.backend->start(std::move(request), client).value();
      ASSERT_TRUE(client->wait_end());
      const Done done = client->done().value();
      EXPECT_EQ(done.reason, FinishReason::length);
      EXPECT_EQ(done.usage.prompt_tokens, 11U);
      EXPECT_EQ(done.usage.completion_tokens, 0U);
      EXPECT_TRUE(client->tokens().empty());
      EXPECT_EQ(client->text(), echoes ? text : "");
      const bool scores = echoes && top_logprobs >= 0;
      if (scores) expect_scores(read_echo(*client).logprobs, prompt);
      EXPECT_EQ(fake.control->submits > 0, scores) << "nothing else is computed";
    }
}

TEST(EmptyAnswer, OfAPromptOfOneTokenHasNoScore) {
  auto fake = make_fake();
  auto request = echo_request({'q'}, 1, 1);
  request.empty_answer = true;
  const Echoed got = echo(fake, std::move(request));
  EXPECT_EQ(got.text, "q");
  expect_scores(got.logprobs, std::vector<Token>{'q'});
}

TEST(Echo, IsLeftByItsClientInTheMiddle) {
  auto fake = make_fake({.sequences = 1});
  fake.control->allow(3);
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(echo_request(random_prompt(40, 1), 4, 1), client).value();
  ASSERT_TRUE(client->wait_deltas(2));
  ticket.cancel();
  const std::size_t seen = client->deltas().size();
  fake.control->allow(UINT64_MAX);
  const auto other = random_prompt(9, 2);
  expect_scores(echo(fake, echo_request(other, 1, 2)).logprobs, other);
  EXPECT_EQ(client->deltas().size(), seen);
  EXPECT_EQ(client->ends(), 0);
  fake.backend->drain(std::chrono::steady_clock::now() + std::chrono::seconds(20));
  EXPECT_EQ(fake.backend->load().running, 0U);
  EXPECT_EQ(fake.backend->load().kv_blocks_used, 0U);
}

TEST(Echo, APausedClientGetsTheRestWhenItResumes) {
  for (const std::int32_t top_logprobs : {-1, 2}) {
    auto fake = make_fake({.blocks = 1000, .sequences = 2, .context = 4000});
    auto client = std::make_shared<Client>();
    client->set_room(1);
    const auto prompt = random_prompt(top_logprobs < 0 ? 3000 : 30, 4);
    auto ticket = fake.backend->start(echo_request(prompt, 2, top_logprobs), client).value();
    for (std::size_t n = 1; client->ends() == 0; ++n) {
      ASSERT_TRUE(client->wait_deltas(n));
      client->set_room(n + 1);
      ticket.resume();
    }
    const Echoed got = read_echo(*client);
    EXPECT_EQ(got.text, std::string(prompt.begin(), prompt.end()));
    EXPECT_EQ(got.tokens.size(), 2U);
    if (top_logprobs >= 0) expect_scores(got.logprobs, prompt);
  }
}

// Nothing of the answer is computed for a client that has not read its prompt.
TEST(Echo, OfAClientThatIsBehindWaitsBeforeTheAnswer) {
  auto fake = make_fake();
  auto client = std::make_shared<Client>();
  client->set_room(1);
  auto ticket = fake.backend->start(echo_request(random_prompt(9, 4), 2, -1), client).value();
  ASSERT_TRUE(client->wait_deltas(1));
  const auto other = random_prompt(5, 2);
  EXPECT_EQ(echo(fake, echo_request(other, 1, -1)).n, 5U);
  EXPECT_TRUE(read_echo(*client).tokens.empty());
  client->set_room(9);
  ticket.resume();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(read_echo(*client).tokens.size(), 2U);
}

TEST(Echo, EndsWhereALogitIsNoNumber) {
  auto fake = make_fake({.sequences = 2});
  fake.control->poisoned = 'P';
  auto prompt = random_prompt(12, 9);
  prompt[0] = 'P';
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(echo_request(prompt, 2, 2), client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->error().value().code, ErrorCode::numeric_error);
  EXPECT_EQ(read_echo(*client).n, 1U) << "the first token has no row";
  const auto other = random_prompt(9, 2);
  expect_scores(echo(fake, echo_request(other, 1, 2)).logprobs, other);
}

TEST(Echo, RefusesAChatAndAnImpossibleResumption) {
  auto fake = make_fake();
  auto chat = text_request("", 1);
  chat.prompt = ChatPrompt{};
  chat.echo = true;
  const auto refused = fake.backend->start(std::move(chat), std::make_shared<Client>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "echo");
  for (const bool has_token : {false, true}) {
    auto request = echo_request({'a', 'b'}, 2, 0);
    request.resume_echo = has_token ? 1 : 3;
    if (has_token) request.resume_tokens = {'c'};
    auto client = std::make_shared<Client>();
    auto ticket = fake.backend->start(std::move(request), client).value();
    ASSERT_TRUE(client->wait_end());
    EXPECT_EQ(client->error().value().param, "resume_echo");
  }
}

}  // namespace
}  // namespace flyball::test
