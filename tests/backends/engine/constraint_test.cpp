// Answers under a constraint, over a fake device: words of it whatever the model says, and typed ends.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "backends/engine/automaton_cache.hpp"
#include "backends/engine/constraint_cache.hpp"
#include "tests/backends/engine/fakes.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::test {
namespace {

using Kind = Constraint::Kind;
using std::chrono::steady_clock;

CompletionRequest constrained(Kind kind, std::string_view source, std::uint32_t max_tokens = 60,
                              std::string prompt = "ab") {
  auto request = text_request(std::move(prompt), max_tokens);
  request.constraint = Constraint{kind, packed(source), false};
  return request;
}

std::shared_ptr<Client> answer(FakeEngine& fake, CompletionRequest request) {
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client).value();
  EXPECT_TRUE(client->wait_end());
  EXPECT_EQ(client->ends(), 1);
  return client;
}

constexpr const char* kRecord = R"({"type":"object","properties":{"name":{"type":"string","maxLength":3},)"
                                R"("age":{"type":"integer","minimum":0,"maximum":99}},)"
                                R"("required":["name","age"],"additionalProperties":false})";

TEST(EngineConstraint, AnswersAreWordsWhateverTheModelSays) {
  auto fake = make_fake();
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    auto request = constrained(Kind::json_schema, kRecord, 190);
    request.sampling.temperature = 2;
    request.sampling.seed = seed;
    const auto client = answer(fake, std::move(request));
    ASSERT_TRUE(client->done()) << client->error()->message;
    ASSERT_EQ(client->done()->reason, FinishReason::stop) << client->text();
    const auto parsed = nlohmann::json::parse(client->text(), nullptr, false);
    ASSERT_TRUE(parsed.is_object()) << client->text();
    EXPECT_EQ(parsed.size(), 2U);
    EXPECT_TRUE(parsed.at("name").is_string());
    EXPECT_LE(parsed.at("age").get<int>(), 99);
    EXPECT_EQ(client->text().find_first_of('\r'), std::string::npos);
    texts.insert(client->text());
  }
  EXPECT_GT(texts.size(), 25U) << "the model still chooses";
}

// A model whose chat template writes calls as Mistral's do, and that has the marker as a control token.
FakeEngine mistral(bool tells_first, std::vector<Token> says) {
  auto fake = make_fake({.tells_first = tells_first,
                         .chat_template = "{{ messages[0].content }}{# [TOOL_CALLS] #}",
                         .bos = "[TOOL_CALLS]"});
  fake.control->model = script_model(2, std::move(says));
  return fake;
}
CompletionRequest calls_under(const char* format, bool marks) {
  CompletionRequest request = constrained(Kind::structural_tag, std::string(R"({"format":)") + format + "}");
  request.prompt = ChatPrompt{packed(R"([{"role":"user","content":"hi"}])"), {}, {}};
  request.marks_control = marks;
  return request;
}
constexpr const char* kOneCall =
    R"({"type":"tag","begin":"[TOOL_CALLS]","content":{"type":"json_schema","json_schema":{"type":"boolean"}},)"
    R"("end":""})";

TEST(EngineConstraint, AMarkerOfCallsIsAControlTokenWhereTheAnswerMarksThem) {
  std::vector<Token> says = byte_tokens("So ");
  says.push_back(kBos);
  for (const Token token : byte_tokens("true")) says.push_back(token);
  const std::string free = std::string(R"({"type":"triggered_tags","triggers":["[TOOL_CALLS]"],"tags":[)") +
                           kOneCall + R"(],"stop_after_first":true})";
  auto fake = mistral(false, says);
  const auto client = answer(fake, calls_under(free.c_str(), true));
  ASSERT_TRUE(client->done()) << client->error()->message;
  EXPECT_EQ(client->text(), "So [TOOL_CALLS]true");
  EXPECT_EQ(client->tokens()[3], kBos);
  auto plain = mistral(false, says);
  const auto unmarked = answer(plain, calls_under(free.c_str(), false));
  EXPECT_EQ(std::ranges::count(unmarked->tokens(), kBos), 0) << "its text would not show in the answer";
}

TEST(EngineConstraint, AForcedMarkerIsItsControlToken) {
  for (const bool marks : {true, false}) {
    auto fake = mistral(true, byte_tokens("xxxxxxxxxxxxtrue"));
    const auto client = answer(fake, calls_under(kOneCall, marks));
    ASSERT_TRUE(client->done()) << client->error()->message;
    EXPECT_TRUE(client->text().starts_with("[TOOL_CALLS]")) << client->text();
    EXPECT_EQ(client->tokens().front(), marks ? kBos : Token{'['});
  }
}

TEST(EngineConstraint, TheWholeWordEndsTheAnswerWithoutAnEndToken) {
  auto fake = make_fake();
  fake.control->model = script_model(2, byte_tokens("maybe not"));
  const auto client = answer(fake, constrained(Kind::choice, R"(["may I","no","yes"])"));
  EXPECT_EQ(client->text(), "may I");
  EXPECT_EQ(client->done()->reason, FinishReason::stop);
  EXPECT_EQ(client->tokens(), byte_tokens("may I"));
  EXPECT_EQ(client->done()->usage.completion_tokens, 5U);
}

TEST(EngineConstraint, AWordThatMayGoOnEndsWhereTheModelEndsIt) {
  auto fake = make_fake();
  fake.control->model = script_model(2, byte_tokens("12345"));
  const auto client = answer(fake, constrained(Kind::regex, R"("[0-9]+")"));
  EXPECT_EQ(client->text(), "12345");
  EXPECT_EQ(client->done()->reason, FinishReason::stop);
  EXPECT_EQ(client->tokens().back(), kEos);
}

TEST(EngineConstraint, IgnoreEosDoesNotLeadBeyondTheWord) {
  auto fake = make_fake();
  fake.control->model = script_model(2, byte_tokens("12345"));
  auto request = constrained(Kind::regex, R"("[0-9]+")");
  request.ignore_eos = true;
  EXPECT_EQ(answer(fake, std::move(request))->done()->reason, FinishReason::stop);
}

TEST(EngineConstraint, AGrammarIsReadAsLlamaCppReadsIt) {
  auto fake = make_fake();
  fake.control->model = script_model(2, byte_tokens("7 * (2"));
  const auto client = answer(fake, constrained(Kind::gbnf, R"("root ::= [0-9] \" + \" [0-9]")"));
  EXPECT_TRUE(std::regex_match(client->text(), std::regex("7 \\+ [0-9]"))) << client->text();
}

TEST(EngineConstraint, AnObjectHasOnlyTheWhitespaceThatIsAllowed) {
  auto fake = make_fake();
  fake.control->model = script_model(2, byte_tokens("{ \"a\": 1}"));
  auto request = constrained(Kind::json_object, "");
  EXPECT_EQ(answer(fake, request)->text(), "{ \"a\": 1}");
  request = constrained(Kind::json_schema, R"({"const":{"a":1}})");
  EXPECT_EQ(answer(fake, request)->text(), "{ \"a\": 1}");
  request.constraint->compact = true;
  EXPECT_EQ(answer(fake, request)->text(), "{\"a\":1}");
}

TEST(EngineConstraint, MaxTokensEndAWordThatIsNotWhole) {
  auto fake = make_fake();
  const auto client = answer(fake, constrained(Kind::regex, R"("a{50}")", 7));
  EXPECT_EQ(client->text(), "aaaaaaa");
  EXPECT_EQ(client->done()->reason, FinishReason::length);
}

TEST(EngineConstraint, AWholeWordOfMaxTokensIsNotCutShort) {
  auto fake = make_fake();
  EXPECT_EQ(answer(fake, constrained(Kind::regex, R"("a{7}")", 7))->done()->reason, FinishReason::stop);
}

TEST(EngineConstraint, TheEmptyWordNeedsNoStep) {
  auto fake = make_fake();
  const auto client = answer(fake, constrained(Kind::choice, R"([""])"));
  EXPECT_EQ(client->text(), "");
  ASSERT_TRUE(client->done());
  EXPECT_EQ(client->done()->reason, FinishReason::stop);
  EXPECT_EQ(client->done()->usage.completion_tokens, 0U);
  EXPECT_EQ(fake.backend->load().steps, 0U);
}

TEST(EngineConstraint, CharactersOfSeveralTokensAreWhole) {
  auto fake = make_fake();
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto request = constrained(Kind::regex, R"("[→é]{3}")");
    request.sampling.temperature = 2;
    request.sampling.seed = seed;
    const auto client = answer(fake, std::move(request));
    EXPECT_TRUE(std::regex_match(client->text(), std::regex("(→|é){3}"))) << client->text();
    texts.insert(client->text());
  }
  EXPECT_GT(texts.size(), 4U);
}

TEST(EngineConstraint, StopStringsEndAnAnswerEarlier) {
  auto fake = make_fake();
  fake.control->model = script_model(2, byte_tokens("123456789"));
  auto request = constrained(Kind::regex, R"("[0-9]+")");
  request.stop = {"45"};
  const auto client = answer(fake, std::move(request));
  EXPECT_EQ(client->text(), "123");
  EXPECT_EQ(client->done()->stop_text, "45");
}

TEST(EngineConstraint, LogprobsAreThoseOfTheModel) {
  auto fake = make_fake();
  fake.control->model = script_model(2, byte_tokens("xyz"));
  auto request = constrained(Kind::choice, R"(["no"])");
  request.sampling.top_logprobs = 1;
  const auto client = answer(fake, std::move(request));
  ASSERT_EQ(client->text(), "no");
  const auto deltas = client->deltas();
  ASSERT_EQ(deltas.at(0).logprobs.size(), 1U);
  EXPECT_EQ(deltas[0].logprobs[0].bytes, "n");
  EXPECT_EQ(deltas[0].logprobs[0].top.at(0).first, "x") << "the mask does not change them";
  EXPECT_LT(deltas[0].logprobs[0].logprob, deltas[0].logprobs[0].top[0].second);
}

TEST(EngineConstraint, PenaltiesAndBiasChooseAmongAllowedTokens) {
  auto fake = make_fake();
  auto request = constrained(Kind::regex, R"("[xy]{6}")");
  request.sampling.logit_bias = {{'x', 50.0F}, {'q', 100.0F}};
  EXPECT_EQ(answer(fake, request)->text(), "xxxxxx");
  request.sampling.logit_bias = {{'x', 5.0F}};
  request.sampling.presence_penalty = 2;
  request.sampling.frequency_penalty = 2;
  EXPECT_NE(answer(fake, request)->text().find('y'), std::string::npos);
}

TEST(EngineConstraint, AResumedAnswerGoesOnWithTheSameWord) {
  auto fake = make_fake();
  auto request = constrained(Kind::json_schema, kRecord, 190);
  request.sampling.temperature = 1.5F;
  request.sampling.seed = 11;
  const auto whole = answer(fake, request);
  ASSERT_EQ(whole->done()->reason, FinishReason::stop);
  const auto tokens = whole->tokens();
  for (std::size_t n = 0; n <= tokens.size(); ++n) {
    CompletionRequest rest = request;
    rest.resume_tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
    rest.resume_text_bytes = whole->text().size() / 2;  // the client has read as much at some time
    const auto client = answer(fake, std::move(rest));
    EXPECT_EQ(client->text(), whole->text().substr(whole->text().size() / 2)) << n;
    EXPECT_EQ(client->done()->reason, FinishReason::stop);
    EXPECT_EQ(client->done()->usage.completion_tokens, tokens.size());
  }
}

TEST(EngineConstraint, AResumedAnswerThatIsNoWordIsRefused) {
  auto fake = make_fake();
  auto request = constrained(Kind::choice, R"(["yes","no"])");
  request.resume_tokens = byte_tokens("yo");
  const auto client = answer(fake, request);
  ASSERT_TRUE(client->error());
  EXPECT_EQ(client->error()->code, ErrorCode::invalid_value);
  request.resume_tokens = {'y', kEos};
  EXPECT_EQ(answer(fake, request)->error().value().code, ErrorCode::invalid_value);
}

TEST(EngineConstraint, ManyAtOnceGetWhatEachWouldAlone) {
  const std::vector<std::pair<Kind, std::string>> sources = {
      {Kind::choice, R"(["alpha","beta"])"},
      {Kind::regex, R"("[a-m]{9}")"},
      {Kind::json_schema, R"({"type":"array","items":{"enum":["x","y"]},"minItems":3,"maxItems":3})"},
      {Kind::regex, R"("[a-m]{9}")"},
  };
  const auto make = [&](std::size_t i) {
    const auto& [kind, source] = sources[i % sources.size()];
    return constrained(kind, source, 40, "prompt " + std::to_string(i));
  };
  std::vector<std::string> alone;
  for (std::size_t i = 0; i < 12; ++i) {
    auto fake = make_fake();
    alone.push_back(answer(fake, make(i))->text());
  }
  // 14 blocks of 4 for sequences of up to 49 tokens: some are preempted and computed again.
  auto fake = make_fake({.blocks = 14, .sequences = 4, .step_tokens = 6});
  fake.control->allow(1);  // a fast engine would be done with each before the next comes
  std::vector<std::shared_ptr<Client>> clients;
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < 12; ++i) {
    clients.push_back(std::make_shared<Client>());
    tickets.push_back(fake.backend->start(make(i), clients.back()).value());
  }
  const auto free = std::make_shared<Client>();
  tickets.push_back(fake.backend->start(text_request("hello", 12), free).value());
  fake.control->allow(UINT64_MAX);
  for (std::size_t i = 0; i < 12; ++i) {
    ASSERT_TRUE(clients[i]->wait_end());
    EXPECT_EQ(clients[i]->text(), alone[i]) << i;
  }
  ASSERT_TRUE(free->wait_end());
  EXPECT_EQ(free->text(), expected_text("hello", 12)) << "an answer without a constraint is as before";
}

TEST(EngineConstraint, WhatCannotBeReadIsRefusedWithThePlace) {
  auto fake = make_fake();
  const auto refusal = [&](Kind kind, std::string_view source) {
    const auto client = answer(fake, constrained(kind, source));
    EXPECT_TRUE(client->error()) << source;
    return client->error().value_or(Error{});
  };
  Error error = refusal(Kind::json_schema, R"({"properties":{"a":{"type":"strin"}}})");
  EXPECT_EQ(error.code, ErrorCode::invalid_value);
  EXPECT_EQ(error.where, "/properties/a/type");
  error = refusal(Kind::regex, "\"(a(?=b))\"");
  EXPECT_EQ(error.code, ErrorCode::unsupported_feature);
  EXPECT_EQ(error.where.substr(0, 5), "byte ");
  EXPECT_EQ(refusal(Kind::gbnf, R"("root ::= nothing")").code, ErrorCode::invalid_value);
  EXPECT_EQ(refusal(Kind::gbnf, R"("root ::= root \"a\"")").code, ErrorCode::invalid_value);
  EXPECT_EQ(refusal(Kind::choice, "[]").code, ErrorCode::invalid_value);
  EXPECT_EQ(refusal(Kind::choice, R"(["a",1])").where, "/1");
  for (const Kind kind : {Kind::json_schema, Kind::regex, Kind::gbnf, Kind::choice}) {
    EXPECT_EQ(refusal(kind, "").code, ErrorCode::invalid_value);
    EXPECT_EQ(refusal(kind, "7").code, ErrorCode::invalid_value);
  }
  EXPECT_EQ(answer(fake, text_request("hello", 5))->text(), expected_text("hello", 5));
}

TEST(EngineConstraint, ASourceThatIsTooLongIsRefusedBeforeItWaits) {
  auto fake = make_fake();
  const std::string source = '"' + std::string((1 << 20) + 1, 'a') + '"';
  const auto refused = fake.backend->start(constrained(Kind::regex, source), std::make_shared<Client>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported_value);
}

TEST(EngineConstraint, AWordThatNoTokenSpellsEndsWithAnError) {
  auto fake = make_fake({.vocab = 'm'});
  const auto client = answer(fake, constrained(Kind::choice, R"(["abz"])", 20, "#"));
  EXPECT_EQ(client->text(), "ab");
  ASSERT_TRUE(client->error());
  EXPECT_EQ(client->error()->code, ErrorCode::unsupported_feature);
  EXPECT_NE(client->error()->message.find("no token of the model"), std::string::npos);
}

TEST(EngineConstraint, ATokenOfSeveralBytesIsAllowedWhereAllOfThemAre) {
  auto fake = make_fake();
  fake.control->model = script_model(2, {'n', 'o', kSpaced});
  auto client = answer(fake, constrained(Kind::choice, R"(["no no"])"));
  EXPECT_EQ(client->tokens(), (std::vector<Token>{'n', 'o', kSpaced}));
  fake.control->model = script_model(2, {kSpaced});
  client = answer(fake, constrained(Kind::choice, R"(["no no"])"));
  EXPECT_EQ(client->tokens().front(), 'n') << "no space begins the word";
}

TEST(EngineConstraint, WhoLeavesOrDrainsWhileItIsCompiledLeavesNothing) {
  auto fake = make_fake();
  for (int i = 0; i < 20; ++i) {
    auto client = std::make_shared<Client>();
    auto ticket = fake.backend->start(constrained(Kind::regex, R"("(a|b){1,300}c")"), client).value();
  }
  fake.backend->drain(steady_clock::now() + std::chrono::seconds(20));
  EXPECT_EQ(fake.backend->load().running + fake.backend->load().waiting, 0U);
  auto other = make_fake();
  auto client = std::make_shared<Client>();
  auto ticket = other.backend->start(constrained(Kind::regex, R"("(a|b){1,300}c")"), client).value();
  other.backend.reset();
  EXPECT_EQ(client->ends(), 1);
}

// ---- what is kept -----------------------------------------------------------------------------------------

TEST(ConstraintCache, CompilesOnceAndForgetsTheOneUsedLongestAgo) {
  const ByteTokenizer tokenizer;
  engine::ConstraintCache cache(tokenizer, kVocab);
  const auto of = [&](int i, const char* owner = "app") {
    return cache.compiled(owner, {Kind::regex, packed("\"a{" + std::to_string(i) + "}\""), false}).value();
  };
  const auto first = of(1), second = of(2);
  EXPECT_EQ(of(1).program, first.program);
  EXPECT_NE(second.program, first.program);
  EXPECT_NE(of(1, "other").program, first.program) << "its time would tell the app about another one";
  EXPECT_EQ(second.vocabulary, first.vocabulary);
  for (int i = 3; i < 1 + static_cast<int>(engine::ConstraintCache::kPrograms); ++i) of(i);
  EXPECT_EQ(cache.size(), engine::ConstraintCache::kPrograms);
  EXPECT_EQ(of(1).program, first.program);
  EXPECT_NE(of(2).program, second.program);
  EXPECT_NE(cache.compiled("app", {Kind::json_object, {}, false}).value().program,
            cache.compiled("app", {Kind::json_object, {}, true}).value().program);
}

TEST(AutomatonCache, SharesAndForgetsIdleOnesAndNeverUsesBrokenOnes) {
  const ByteTokenizer tokenizer;
  engine::ConstraintCache programs(tokenizer, kVocab);
  engine::AutomatonCache cache;
  const auto of = [&](std::size_t n) {
    const std::string source = "[\"a" + std::to_string(n) + "\"]";
    return cache.play(programs.compiled("app", {Kind::choice, packed(source), false}).value());
  };
  const auto played = of(0);
  EXPECT_EQ(of(0), played);
  for (std::size_t i = 1; i < engine::AutomatonCache::kIdle + 20; ++i) of(i);
  cache.trim();
  EXPECT_EQ(cache.size(), engine::AutomatonCache::kIdle + 1) << "idle ones, and the one that is played";
  EXPECT_EQ(of(0), played);
  for (std::size_t i = 0; i < 500; ++i) of(i);
  EXPECT_LE(cache.size(), engine::AutomatonCache::kIdle + 2) << "requests that end at once leave no more";
  played->broken = true;
  EXPECT_NE(of(0), played);
  cache.trim();
  EXPECT_EQ(cache.size(), engine::AutomatonCache::kIdle);
}

}  // namespace
}  // namespace flyball::test
