// The engine over a fake device: what a client sees, in order, whatever happens around it.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/backends/engine/fakes.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::test {
namespace {

using std::chrono::steady_clock;

TEST(Engine, StreamsAndEndsOnce) {
  auto fake = make_fake();
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request("hello", 12), client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->text(), expected_text("hello", 12));
  EXPECT_EQ(client->ends(), 1);
  const Done done = client->done().value();
  EXPECT_EQ(done.reason, FinishReason::length);
  EXPECT_EQ(done.usage.prompt_tokens, 5U);
  EXPECT_EQ(done.usage.completion_tokens, 12U);
  EXPECT_EQ(client->tokens().size(), 12U);
  fake.backend->drain(steady_clock::now() + std::chrono::seconds(5));
  const BackendLoad load = fake.backend->load();
  EXPECT_EQ(load.kv_blocks_used, 0U);
  EXPECT_EQ(load.running + load.waiting, 0U);
  EXPECT_EQ(load.steps, 12U);
  EXPECT_EQ(load.completion_tokens, 12U);
  EXPECT_EQ(load.prompt_tokens, 5U);
}

TEST(Engine, EndOfGenerationStopsAndHasNoText) {
  auto fake = make_fake();
  fake.control->model = script_model(2, byte_tokens("done."));
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request("ab", 50), client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->text(), "done.");
  EXPECT_EQ(client->done()->reason, FinishReason::stop);
  EXPECT_EQ(client->tokens().back(), kEos);
}

TEST(Engine, IgnoreEosGoesOn) {
  auto fake = make_fake();
  fake.control->model = script_model(2, byte_tokens("done."));
  auto request = text_request("ab", 9);
  request.ignore_eos = true;
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->done()->usage.completion_tokens, 9U);
  EXPECT_EQ(client->done()->reason, FinishReason::length);
}

// A long prompt alone gets long steps after a while; a request that arrives in one does not wait for its end.
TEST(Engine, ARequestThatArrivesEndsALongStep) {
  std::vector<engine::StepTrace> steps;  // the engine thread's, until the engine is gone
  auto fake = make_fake(
      {.blocks = 200, .step_tokens = 8, .context = 800, .observer = [&](const engine::StepTrace& step) {
         steps.push_back(step);
       }});
  fake.control->stops = true;
  const std::string long_prompt(700, 'l');
  const auto longest = std::make_shared<Client>(), brief = std::make_shared<Client>();
  auto first = fake.backend->start(text_request(long_prompt, 5), longest).value();
  {
    std::unique_lock lock(fake.control->mutex);
    ASSERT_TRUE(fake.control->changed.wait_for(lock, std::chrono::seconds(20),
                                               [&] { return fake.control->stoppable > 0; }));
  }
  auto second = fake.backend->start(text_request("hello", 3), brief).value();
  ASSERT_TRUE(brief->wait_end());
  EXPECT_EQ(brief->text(), expected_text("hello", 3));
  EXPECT_EQ(longest->ends(), 0);
  {
    const std::lock_guard lock(fake.control->mutex);
    EXPECT_GE(fake.control->stopped, 1U);
    fake.control->stops = false;
  }
  auto third =
      fake.backend->start(text_request("again", 3), std::make_shared<Client>()).value();  // stops one
  ASSERT_TRUE(longest->wait_end());
  EXPECT_EQ(longest->text(), expected_text(long_prompt, 5)) << "what was given up is computed again";

  const std::uint64_t computed = fake.backend->load().steps;
  fake.backend.reset();
  EXPECT_EQ(static_cast<std::uint64_t>(
                std::ranges::count_if(steps, [](const auto& step) { return step.stopped && step.may_stop; })),
            fake.control->stopped);
  EXPECT_GE(std::ranges::count(steps, false, &engine::StepTrace::stopped), computed);
  for (const engine::StepTrace& step : steps) {
    EXPECT_GT(step.work.tokens, 0U);
    EXPECT_GT(step.expected, 0);
    EXPECT_LE(step.begin, step.end);
  }
}

TEST(Engine, AClientThatLeavesEndsTheLongStepOfItsPrompt) {
  auto fake = make_fake({.blocks = 200, .step_tokens = 8, .context = 800});
  fake.control->stops = true;
  auto ticket =
      fake.backend->start(text_request(std::string(700, 'l'), 5), std::make_shared<Client>()).value();
  const auto seen = [&](const std::uint64_t& count) {
    std::unique_lock lock(fake.control->mutex);
    return fake.control->changed.wait_for(lock, std::chrono::seconds(20), [&] { return count > 0; });
  };
  ASSERT_TRUE(seen(fake.control->stoppable));
  ticket = {};
  EXPECT_TRUE(seen(fake.control->stopped));
  const auto next = std::make_shared<Client>();
  auto second = fake.backend->start(text_request("hello", 3), next).value();
  ASSERT_TRUE(next->wait_end());
  EXPECT_EQ(next->text(), expected_text("hello", 3));
}

TEST(Engine, ManyRequestsGetWhatEachWouldAlone) {
  // 14 blocks of 4 for sequences of up to 36 tokens: preemption and recompute happen.
  int encoded = 0;  // guarded by `mutex`
  std::mutex mutex;
  std::condition_variable changed;
  auto fake = make_fake({.blocks = 14, .sequences = 4, .step_tokens = 6, .on_encode = [&](std::string_view) {
                           const std::lock_guard lock(mutex);
                           ++encoded;
                           changed.notify_all();
                         }});
  fake.control->allow(1);  // a fast engine would be done with each before the next is prepared
  std::vector<std::shared_ptr<Client>> clients;
  std::vector<Ticket> tickets;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_shared<Client>());
    const std::string prompt(static_cast<std::size_t>(3 + i), static_cast<char>('a' + i));
    tickets.push_back(fake.backend->start(text_request(prompt, 22), clients.back()).value());
  }
  {  // they are prepared one after the other: all but the last are
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return encoded >= 12; }));
  }
  fake.control->allow(UINT64_MAX);
  for (int i = 0; i < 12; ++i) {
    const auto& client = clients[static_cast<std::size_t>(i)];
    ASSERT_TRUE(client->wait_end());
    const std::string prompt(static_cast<std::size_t>(3 + i), static_cast<char>('a' + i));
    EXPECT_EQ(client->text(), expected_text(prompt, 22)) << i;
    EXPECT_EQ(client->ends(), 1);
  }
  EXPECT_GT(fake.control->most_rows, 1U);
}

TEST(Engine, StopStringsAcrossTokens) {
  auto fake = make_fake();
  fake.control->model = script_model(1, byte_tokens("one two STOP three"));
  auto request = text_request("x", 100);
  request.stop = {"STOP", "nowhere"};
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->text(), "one two ");
  EXPECT_EQ(client->done()->reason, FinishReason::stop);
  EXPECT_EQ(client->done()->stop_text, "STOP");
  EXPECT_EQ(client->done()->usage.completion_tokens, 12U);
}

TEST(Engine, NeverEmitsHalfACharacter) {
  auto fake = make_fake();
  auto script = byte_tokens("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82");  // e acute, euro, smile
  script.push_back(kArrow);
  script.push_back(0xE2);  // cut off by the end
  fake.control->model = script_model(1, script);
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request("x", 100), client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->text(), "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82\xE2\x86\x92\xEF\xBF\xBD");
  for (const Delta& d : client->deltas()) {
    if (d.text.empty()) continue;
    EXPECT_NE(static_cast<unsigned char>(d.text[0]) & 0xC0U, 0x80U);
    EXPECT_TRUE(d.text.size() >= 2) << "whole characters only";
  }
}

TEST(Engine, LeavesOutACharacterThatMaxTokensCut) {
  auto fake = make_fake();
  fake.control->model = script_model(1, byte_tokens("ab\xE2\x82\xAC"));
  for (const std::uint32_t n : {3U, 4U, 5U}) {
    auto client = std::make_shared<Client>();
    auto ticket = fake.backend->start(text_request("x", n), client).value();
    ASSERT_TRUE(client->wait_end());
    EXPECT_EQ(client->text(), n == 5 ? "ab\xE2\x82\xAC" : "ab");
    EXPECT_EQ(client->done()->reason, FinishReason::length);
    EXPECT_EQ(client->done()->usage.completion_tokens, n);
  }
}

TEST(Engine, CancelFreesEverythingWithinAStep) {
  auto fake = make_fake();
  fake.control->allow(3);  // the fourth step is in flight when the client goes
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request("hello", 150), client).value();
  ASSERT_TRUE(client->wait_deltas(3));
  ticket.cancel();
  const std::size_t seen = client->deltas().size();
  fake.control->allow(UINT64_MAX);
  fake.backend->drain(steady_clock::now() + std::chrono::seconds(10));
  EXPECT_EQ(client->deltas().size(), seen) << "pushed after the ticket was gone";
  EXPECT_EQ(client->ends(), 0);
  EXPECT_EQ(fake.backend->load().kv_blocks_used, 0U);
  EXPECT_EQ(fake.backend->load().waiting + fake.backend->load().running, 0U);
  EXPECT_LE(fake.backend->load().steps, 4U);
}

TEST(Engine, AClientMayCancelFromInsideItsOwnPush) {
  auto fake = make_fake();
  auto client = std::make_shared<Client>();
  Ticket ticket;
  std::atomic<bool> started{false};
  client->on_push = [&] {
    while (!started) std::this_thread::yield();
    ticket.cancel();
  };
  ticket = fake.backend->start(text_request("hello", 150), client).value();
  started = true;
  fake.backend->drain(steady_clock::now() + std::chrono::seconds(10));
  EXPECT_EQ(client->deltas().size(), 1U);
  EXPECT_EQ(fake.backend->load().kv_blocks_used, 0U);
}

TEST(Engine, CancelWhileQueued) {
  auto fake = make_fake({.sequences = 1});
  fake.control->allow(0);
  auto first = std::make_shared<Client>();
  auto second = std::make_shared<Client>();
  auto t1 = fake.backend->start(text_request("first", 5), first).value();
  auto t2 = fake.backend->start(text_request("second", 5), second).value();
  t2.cancel();
  fake.control->allow(UINT64_MAX);
  ASSERT_TRUE(first->wait_end());
  EXPECT_EQ(first->text(), expected_text("first", 5));
  fake.backend->drain(steady_clock::now() + std::chrono::seconds(5));
  EXPECT_EQ(second->deltas().size() + static_cast<std::size_t>(second->ends()), 0U);
}

TEST(Engine, APausedClientIsNotServedUntilItResumes) {
  auto fake = make_fake({.blocks = 16, .sequences = 1});
  auto slow = std::make_shared<Client>();
  slow->set_room(4);
  auto ticket = fake.backend->start(text_request("slow", 20), slow).value();
  ASSERT_TRUE(slow->wait_deltas(4));
  // Another one gets the only slot meanwhile: the paused one's KV is given up.
  auto other = std::make_shared<Client>();
  auto t2 = fake.backend->start(text_request("other", 20), other).value();
  ASSERT_TRUE(other->wait_end());
  EXPECT_EQ(slow->deltas().size(), 4U);
  EXPECT_EQ(slow->ends(), 0);
  slow->set_room(SIZE_MAX);
  ticket.resume();
  ticket.resume();
  ASSERT_TRUE(slow->wait_end());
  EXPECT_EQ(slow->text(), expected_text("slow", 20));
}

TEST(Engine, AResumeThatComesBeforeTheRequestIsPreparedIsNotTheLast) {
  auto fake = make_fake({.chat_template = R"(
    {%- for i in range(30000) %}{% endfor %}{{ messages[0].content }})"});
  auto slow = std::make_shared<Client>();
  slow->set_room(4);
  auto request = text_request("", 20);
  request.prompt = ChatPrompt{test::packed(R"([{"role":"user","content":"slow"}])"), {}, {}, true};
  auto ticket = fake.backend->start(std::move(request), slow).value();
  ticket.resume();  // the gateway resumes all choices of a request when its client has caught up
  ASSERT_TRUE(slow->wait_deltas(4));
  slow->set_room(SIZE_MAX);
  ticket.resume();
  ASSERT_TRUE(slow->wait_end(std::chrono::seconds(5)));
  EXPECT_EQ(slow->text(), expected_text("slow", 20));
}

TEST(Engine, ResumedStreamsGoOnByteForByte) {
  for (const float temperature : {0.0F, 1.5F}) {
    const auto make = [&] {
      auto request = text_request("story", 40);
      request.sampling.temperature = temperature;
      request.sampling.seed = 77;
      request.sampling.frequency_penalty = 0.4F;
      return request;
    };
    auto fake = make_fake();
    auto whole = std::make_shared<Client>();
    auto t1 = fake.backend->start(make(), whole).value();
    ASSERT_TRUE(whole->wait_end());
    const auto all = whole->tokens();
    for (const std::size_t cut :
         {std::size_t{0}, std::size_t{1}, all.size() / 2, all.size() - 1, all.size()}) {
      std::string delivered;
      for (std::size_t i = 0; i < cut; ++i) delivered += whole->deltas()[i].text;
      auto request = make();
      request.resume_tokens.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(cut));
      request.resume_text_bytes = delivered.size();
      auto rest = std::make_shared<Client>();
      auto t2 = fake.backend->start(std::move(request), rest).value();
      ASSERT_TRUE(rest->wait_end());
      EXPECT_EQ(delivered + rest->text(), whole->text()) << "cut at " << cut;
      EXPECT_EQ(rest->done()->usage.completion_tokens, whole->done()->usage.completion_tokens);
      EXPECT_EQ(rest->done()->reason, whole->done()->reason);
    }
  }
}

TEST(Engine, AResumedStreamReleasesWhatWasHeldBack) {
  // The dead engine had sent 3 bytes of text for 5 tokens: "E" and "N" of a possible stop string were held
  // back.
  auto fake = make_fake();
  fake.control->model = script_model(1, byte_tokens("abcENtry"));
  auto request = text_request("x", 50);
  request.stop = {"END"};
  request.resume_tokens = byte_tokens("abcEN");
  request.resume_text_bytes = 3;
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->text(), "ENtry");
}

// The spellings of the control tokens in a client's deltas.
std::vector<std::string> marked_texts(const Client& client) {
  std::vector<std::string> out;
  for (const Delta& delta : client.deltas())
    for (const ControlSpan& span : delta.control)
      out.push_back(delta.text.substr(span.begin, span.end - span.begin));
  return out;
}

std::vector<Token> with_control_token(std::string_view before, std::string_view behind) {
  std::vector<Token> tokens = byte_tokens(before);
  tokens.push_back(kBos);
  for (const Token token : byte_tokens(behind)) tokens.push_back(token);
  return tokens;
}

TEST(Engine, ControlTokensAreMarkedForThoseWhoAskForThem) {
  for (const bool marks : {true, false}) {
    auto fake = make_fake();
    fake.control->model = script_model(1, with_control_token("say EN", "D now"));
    auto request = text_request("x", 50);
    request.marks_control = marks;
    request.stop = {"END"};
    auto client = std::make_shared<Client>();
    auto ticket = fake.backend->start(std::move(request), client).value();
    ASSERT_TRUE(client->wait_end());
    EXPECT_EQ(client->text(), marks ? "say EN<bos>D now" : "say ") << "a stop string ends before a mark";
    EXPECT_EQ(marked_texts(*client), marks ? std::vector<std::string>{"<bos>"} : std::vector<std::string>{});
  }
}

TEST(Engine, AControlTokenEndsACharacterThatIsCut) {
  auto fake = make_fake();
  fake.control->model = script_model(1, with_control_token("a\xC3", "b"));
  auto request = text_request("x", 50);
  request.marks_control = true;
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->text(), "a\xEF\xBF\xBD<bos>b");
  EXPECT_EQ(marked_texts(*client), std::vector<std::string>{"<bos>"});
}

TEST(Engine, AResumedStreamMarksTheRest) {
  const std::vector<Token> said = with_control_token("ab", "cd");
  const std::string text = "ab<bos>cd";
  for (std::uint64_t delivered = 0; delivered <= text.size(); ++delivered) {
    auto fake = make_fake();
    fake.control->model = script_model(1, said);
    auto request = text_request("x", 50);
    request.marks_control = true;
    request.resume_tokens = said;
    request.resume_text_bytes = delivered;
    auto client = std::make_shared<Client>();
    auto ticket = fake.backend->start(std::move(request), client).value();
    ASSERT_TRUE(client->wait_end());
    EXPECT_EQ(client->text(), text.substr(delivered));
    const std::string rest = delivered <= 2  ? "<bos>"
                             : delivered < 7 ? text.substr(delivered, 7 - delivered)
                                             : "";
    EXPECT_EQ(marked_texts(*client),
              rest.empty() ? std::vector<std::string>{} : std::vector<std::string>{rest});
  }
}

TEST(Engine, TheFirstDeltaOfAChatHasItsForm) {
  const std::string chat_template =
      "{{ messages[0].content }}{% if think %}<think>{% else %}<think></think>{% endif %} {# [TOOL_CALLS] #}";
  for (const bool think : {true, false}) {
    auto fake = make_fake({.chat_template = chat_template});
    CompletionRequest request;
    request.prompt = ChatPrompt{test::packed(R"([{"role": "user", "content": "hi"}])"),
                                {},
                                test::packed(think ? R"({"think": true})" : R"({"think": false})")};
    request.max_tokens = 3;
    request.marks_control = true;
    auto client = std::make_shared<Client>();
    auto ticket = fake.backend->start(std::move(request), client).value();
    ASSERT_TRUE(client->wait_end());
    const auto deltas = client->deltas();
    ASSERT_GE(deltas.size(), 2U);
    EXPECT_EQ(deltas[0].form, (AnswerForm{CallFormat::mistral, ReasoningFormat::think, think}));
    EXPECT_EQ(deltas[1].form, std::nullopt);
  }
}

TEST(Engine, AConstraintEndsReasoningThatItHasNoPlaceFor) {
  const auto rendered = [](std::optional<Constraint> constraint) {
    std::string prompt;
    auto fake = make_fake(
        {.chat_template = "{{ messages[0].content }}<think>\n", .on_encode = [&](std::string_view text) {
           if (text.contains("hi")) prompt = text;
         }});
    CompletionRequest request;
    request.prompt = ChatPrompt{test::packed(R"([{"role": "user", "content": "hi"}])"), {}, {}};
    request.max_tokens = 3;
    request.constraint = std::move(constraint);
    auto client = std::make_shared<Client>();
    auto ticket = fake.backend->start(std::move(request), client).value();
    EXPECT_TRUE(client->wait_end());
    return prompt;
  };
  const auto tag = [](const std::string& format) {
    return Constraint{Constraint::Kind::structural_tag, test::packed(R"({"format": )" + format + "}")};
  };
  EXPECT_EQ(rendered(std::nullopt), "hi<think>");
  EXPECT_EQ(rendered(Constraint{Constraint::Kind::json_object, {}}), "hi<think></think>\n\n");
  EXPECT_EQ(rendered(tag(R"({"type": "const_string", "value": "a"})")), "hi<think></think>\n\n");
  EXPECT_EQ(rendered(tag(R"({"type": "any_text"})")), "hi<think>");
}

TEST(Engine, SeedsAreReproducibleAndDiffer) {
  auto fake = make_fake();
  const auto text = [&](std::uint64_t seed) {
    auto request = text_request("dice", 30);
    request.sampling.temperature = 2.0F;
    request.sampling.seed = seed;
    auto client = std::make_shared<Client>();
    auto ticket = fake.backend->start(std::move(request), client).value();
    EXPECT_TRUE(client->wait_end());
    return client->tokens();
  };
  EXPECT_EQ(text(5), text(5));
  EXPECT_NE(text(5), text(6));
}

TEST(Engine, LogprobsOfTheChosenAndTheLikeliest) {
  auto fake = make_fake();
  fake.control->model = script_model(2, byte_tokens("ok"));
  auto request = text_request("ab", 10);
  request.sampling.top_logprobs = 3;
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client).value();
  ASSERT_TRUE(client->wait_end());
  const auto deltas = client->deltas();
  ASSERT_EQ(deltas.size(), 3U);
  ASSERT_EQ(deltas[0].logprobs.size(), 1U);
  EXPECT_EQ(deltas[0].logprobs[0].bytes, "o");
  EXPECT_EQ(deltas[0].logprobs[0].top.size(), 3U);
  EXPECT_EQ(deltas[0].logprobs[0].top[0].first, "o");
  EXPECT_EQ(deltas[0].logprobs[0].top[0].second, deltas[0].logprobs[0].logprob);
  EXPECT_LT(deltas[0].logprobs[0].logprob, 0.0F);
  ASSERT_EQ(deltas[2].logprobs.size(), 1U) << "usage counts the end token, so logprobs list it";
  EXPECT_EQ(deltas[2].text, "");
  EXPECT_FALSE(deltas[2].logprobs[0].bytes.empty()) << "its spelling in the vocabulary";
}

// Whatever ends an answer: its end token, a stop string, its length, or the engine that took it over.
TEST(Engine, LogprobsListEveryTokenThatUsageCounts) {
  const auto listed = [](const Client& client) {
    std::size_t n = 0;
    for (const Delta& delta : client.deltas()) {
      EXPECT_EQ(delta.logprobs.size(), delta.tokens.size());
      n += delta.logprobs.size();
    }
    return n;
  };
  for (const std::uint32_t resumed : {0U, 1U}) {
    for (const char* stop : {"", "ne."}) {
      for (const std::uint32_t max_tokens : {2U, 5U, 6U, 50U}) {
        auto fake = make_fake();
        fake.control->model = script_model(2, byte_tokens("done."));
        auto request = text_request("ab", max_tokens);
        request.sampling.top_logprobs = 0;
        if (*stop != '\0') request.stop = {stop};
        if (resumed > 0) {
          request.resume_tokens = byte_tokens("d");
          request.resume_text_bytes = 1;
        }
        auto client = std::make_shared<Client>();
        auto ticket = fake.backend->start(std::move(request), client).value();
        ASSERT_TRUE(client->wait_end());
        EXPECT_EQ(client->done().value().usage.completion_tokens, listed(*client) + resumed)
            << "stop \"" << stop << "\", at most " << max_tokens << ", resumed at " << resumed;
      }
    }
  }
}

Error error_of(FakeEngine& fake, CompletionRequest request) {
  auto client = std::make_shared<Client>();
  auto started = fake.backend->start(std::move(request), client);
  if (!started) return started.error();
  EXPECT_TRUE(client->wait_end());
  EXPECT_EQ(client->ends(), 1);
  return client->error().value_or(Error{ErrorCode::internal, "it was served", {}, {}});
}

TEST(Engine, RefusesPromptsOverTheContextWithBothCounts) {
  auto fake = make_fake({.context = 20});
  const Error error = error_of(fake, text_request(std::string(20, 'x'), 1));
  EXPECT_EQ(error.code, ErrorCode::context_length_exceeded);
  EXPECT_NE(error.message.find("prompt has 20 bytes, which are at least 20 tokens"), std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find("maximum context length is 20"), std::string::npos);
  EXPECT_EQ(error.param, "prompt");
  // One less fits, and the answer ends where the context does.
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request(std::string(17, 'x'), 100), client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->done()->usage.completion_tokens, 3U);
  EXPECT_EQ(client->done()->reason, FinishReason::length);
}

// What an app's limits leave is a bound on prompt and answer together, which only the engine can count.
TEST(Engine, KeepsToTheTokensThatAreLeft) {
  auto fake = make_fake();
  CompletionRequest request = text_request(std::string(20, 'x'), 100);
  request.total_tokens = 20;
  const Error error = error_of(fake, request);
  EXPECT_EQ(error.code, ErrorCode::token_limit_exceeded);
  EXPECT_NE(error.message.find("prompt has 20 tokens"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("limits is 20"), std::string::npos) << error.message;
  EXPECT_EQ(fake.backend->load().steps, 0U) << "nothing of it was computed";
  request.total_tokens = 23;
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(request, client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->done()->usage.completion_tokens, 3U);
  EXPECT_EQ(client->done()->reason, FinishReason::length);
  const auto deltas = client->deltas();
  EXPECT_EQ(deltas.at(0).prompt_tokens, 20U) << "told with the first token";
  EXPECT_EQ(deltas.at(1).prompt_tokens, 0U);
}

TEST(Engine, AppliesTheSettingsOfARequest) {
  std::atomic<bool> all_prepared = false;
  auto fake = make_fake({.sequences = 1, .on_encode = [&](std::string_view text) {
                           // Prompts are prepared in order: those before this one are in the engine's inbox.
                           if (text == "last") all_prepared = true;
                         }});
  fake.control->allow(0);
  const auto ask = [&](const char* prompt, const std::shared_ptr<Client>& client, config::QueuePlace place) {
    auto request = text_request(prompt, 2);
    request.settings.place = place;
    return fake.backend->start(request, client).value();
  };
  auto first = std::make_shared<Client>(), behind = std::make_shared<Client>(),
       ahead = std::make_shared<Client>(), last = std::make_shared<Client>();
  std::atomic<bool> overtook = true;
  ahead->on_push = [&] { overtook = overtook && behind->deltas().empty(); };
  const Ticket tickets[] = {
      ask("first", first, config::QueuePlace::usual), ask("behind", behind, config::QueuePlace::behind),
      ask("ahead", ahead, config::QueuePlace::ahead), ask("last", last, config::QueuePlace::behind)};
  while (!all_prepared) std::this_thread::yield();
  fake.control->allow(UINT64_MAX);
  for (const auto& client : {first, behind, ahead, last}) ASSERT_TRUE(client->wait_end());
  EXPECT_TRUE(overtook);
}

TEST(Engine, ChecksEveryRequest) {
  auto fake = make_fake();
  const auto refused = [&](auto change, const char* param) {
    auto request = text_request("x", 1);
    change(request);
    const Error error = error_of(fake, std::move(request));
    EXPECT_EQ(error.code, ErrorCode::invalid_value) << param << ": " << error.message;
    EXPECT_EQ(error.param, param);
  };
  refused([](auto& r) { r.prompt = TextPrompt{""}; }, "prompt");
  refused([](auto& r) { r.prompt = TokenPrompt{{1, static_cast<Token>(kVocab)}}; }, "prompt");
  refused([](auto& r) { r.prompt = TokenPrompt{{-1}}; }, "prompt");
  refused([](auto& r) { r.prompt = TokenPrompt{}; }, "prompt");
  refused([](auto& r) { r.settings.step_budget = std::chrono::milliseconds(0); }, "step_budget");
  refused([](auto& r) { r.settings.step_budget = std::chrono::milliseconds(10'001); }, "step_budget");
  refused([](auto& r) { r.stop.assign(17, "x"); }, "stop");
  refused([](auto& r) { r.stop = {""}; }, "stop");
  refused([](auto& r) { r.stop = {std::string(257, 'x')}; }, "stop");
  refused([](auto& r) { r.stop = {"\x82"}; }, "stop");
  refused([](auto& r) { r.sampling.top_p = 0; }, "top_p");
  refused([](auto& r) { r.sampling.logit_bias[static_cast<Token>(kVocab)] = 1; }, "logit_bias");
  refused([](auto& r) { r.resume_tokens = {100'000}; }, "resume_tokens");
  fake.backend->drain(steady_clock::now() + std::chrono::seconds(5));
  EXPECT_EQ(fake.backend->load().waiting, 0U);
}

TEST(Engine, RendersTheTemplateAndDoesNotDoubleBos) {
  for (const bool adds_bos : {false, true}) {
    auto fake = make_fake({.adds_bos = adds_bos});
    std::vector<Token> seen;
    fake.control->model = [&](std::span<const Token> history) {
      seen.assign(history.begin(), history.end());
      return kEos;
    };
    CompletionRequest request = text_request("", 5);
    request.prompt = ChatPrompt{test::packed(R"([{"role":"user","content":"hi"}])"), {}, {}, true};
    auto client = std::make_shared<Client>();
    auto ticket = fake.backend->start(std::move(request), client).value();
    ASSERT_TRUE(client->wait_end());
    EXPECT_EQ(seen, (std::vector<Token>{kBos, 'h', 'i'})) << "adds_bos " << adds_bos;
  }
}

TEST(Engine, TemplateErrorsReachTheClient) {
  auto fake = make_fake({.chat_template = "{{ raise_exception('roles must alternate') }}"});
  CompletionRequest request = text_request("", 5);
  request.prompt = ChatPrompt{test::packed(R"([{"role":"user","content":"hi"}])"), {}, {}, true};
  const Error error = error_of(fake, std::move(request));
  EXPECT_EQ(error.code, ErrorCode::template_error);
  EXPECT_NE(error.message.find("roles must alternate"), std::string::npos);
  // A template that does not parse is told to those who chat; plain prompts are served.
  auto broken = make_fake({.chat_template = "{% if %}"});
  request = text_request("", 5);
  request.prompt = ChatPrompt{test::packed(R"([{"role":"user","content":"hi"}])"), {}, {}, true};
  EXPECT_EQ(error_of(broken, std::move(request)).code, ErrorCode::template_error);
  EXPECT_EQ(error_of(broken, text_request("x", 2)).message, "it was served");
}

TEST(Engine, AFullQueueRefuses) {
  auto fake = make_fake({.sequences = 2, .queue = 3});
  fake.control->allow(0);
  std::vector<std::shared_ptr<Client>> clients;
  std::vector<Ticket> tickets;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_shared<Client>());
    tickets.push_back(fake.backend->start(text_request("x", 3), clients.back()).value());
  }
  const auto refused = fake.backend->start(text_request("x", 3), std::make_shared<Client>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::overloaded);
  fake.control->allow(UINT64_MAX);
  for (const auto& client : clients) {
    ASSERT_TRUE(client->wait_end());
    EXPECT_EQ(client->text(), expected_text("x", 3));
  }
}

TEST(Engine, DrainFinishesWhatRunsAndRefusesWhatIsNew) {
  auto fake = make_fake();
  fake.control->allow(2);
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request("work", 30), client).value();
  ASSERT_TRUE(client->wait_deltas(2));
  std::thread drain([&] { fake.backend->drain(steady_clock::now() + std::chrono::seconds(20)); });
  // Refused once drain has begun. Until then these are taken and cancelled, or find the queue full of such.
  Error refused;
  while (refused.code != ErrorCode::shutting_down) {
    const auto late = fake.backend->start(text_request("late", 1), std::make_shared<Client>());
    if (!late) refused = late.error();
  }
  fake.control->allow(UINT64_MAX);
  drain.join();
  EXPECT_EQ(client->text(), expected_text("work", 30));
  EXPECT_EQ(client->ends(), 1);
}

TEST(Engine, DrainEndsWhatIsLeftAtItsDeadline) {
  auto fake = make_fake();
  auto client = std::make_shared<Client>();
  client->set_room(2);  // paused for ever
  auto ticket = fake.backend->start(text_request("stuck", 30), client).value();
  ASSERT_TRUE(client->wait_deltas(2));
  fake.backend->drain(steady_clock::now() + std::chrono::milliseconds(50));
  EXPECT_EQ(client->ends(), 1);
  EXPECT_EQ(client->error()->code, ErrorCode::shutting_down);
  EXPECT_EQ(fake.backend->load().kv_blocks_used, 0U);
}

TEST(Engine, DestructionEndsEverything) {
  auto client = std::make_shared<Client>();
  Ticket ticket;
  {
    auto fake = make_fake();
    client->set_room(2);
    ticket = fake.backend->start(text_request("stuck", 30), client).value();
    ASSERT_TRUE(client->wait_deltas(2));
  }
  EXPECT_EQ(client->ends(), 1);
  EXPECT_EQ(client->error()->code, ErrorCode::shutting_down);
  ticket.resume();  // outlives the backend, harmlessly
  ticket.cancel();
}

// A request whose start() was under way when drain() began was taken after drain() had found nothing to wait
// for.
TEST(Engine, DrainWaitsForARequestThatIsJustBeingStarted) {
  for (int round = 0; round < 20; ++round) {
    auto fake = make_fake({.context = 3'000'000});
    auto client = std::make_shared<Client>();
    CompletionRequest request = text_request("", 1);
    request.prompt =
        TokenPrompt{std::vector<Token>(2'000'000, 'a')};  // looking at them takes start() a while
    std::atomic<bool> begun = false;
    std::optional<Result<Ticket>> started;
    std::thread starter([&] {
      begun = true;
      started = fake.backend->start(std::move(request), client);
    });
    while (!begun) std::this_thread::yield();
    fake.backend->drain(steady_clock::now() + std::chrono::seconds(20));
    const int ends = client->ends();
    starter.join();
    if (*started) {
      EXPECT_EQ(ends, 1) << "drain() returned before it had ended";
    } else {
      EXPECT_EQ(started->error().code, ErrorCode::shutting_down);
    }
  }
}

}  // namespace
}  // namespace flyball::test
