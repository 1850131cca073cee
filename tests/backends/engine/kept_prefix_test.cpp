// Prefixes that an app keeps: computed without an answer, evicted last, replaced and dropped, found on the
// disk again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "backends/engine/prepare.hpp"
#include "backends/engine/shared_beginning.hpp"
#include "tests/backends/engine/fakes.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::test {
namespace {

constexpr const char* kRoleTemplate =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}"
    "[assistant]{% endif %}";

CompletionRequest keep_request(Prompt prompt, std::string name = "rules", std::uint64_t limit = 0) {
  CompletionRequest request;
  request.owner = "app";
  request.prompt = std::move(prompt);
  request.wanted = Wanted::kept_prefix;
  request.kept = std::move(name);
  request.kept_limit = limit;
  request.settings.place = config::QueuePlace::behind;
  return request;
}
CompletionRequest app_asks(std::string prompt, std::string owner = "app") {
  CompletionRequest request = text_request(std::move(prompt), 2);
  request.owner = std::move(owner);
  return request;
}

struct KeptOutcome {
  std::optional<Done> done = {};
  std::optional<Error> error = {};
  std::string text = {};
  ErrorCode code() const { return error ? error->code : ErrorCode::internal; }
};
KeptOutcome kept_outcome(FakeEngine& fake, CompletionRequest request) {
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client);
  if (!ticket) return {.error = ticket.error()};
  EXPECT_TRUE(client->wait_end());
  EXPECT_EQ(client->ends(), 1);
  return {client->done(), client->error(), client->text()};
}

// The states that the engine tells once they are as `wanted`; the latest ones if they never are.
std::vector<KeptPrefixState> kept_states(
    FakeEngine& fake, const std::function<bool(const std::vector<KeptPrefixState>&)>& wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!wanted(fake.backend->kept_prefixes()) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return fake.backend->kept_prefixes();
}

const std::string kKeptRules(40, 'r');  // ten blocks of four
const std::string kOtherRules(40, 'o');

TEST(KeptPrefix, IsComputedWithoutAnAnswerAndServesThoseWhoBeginWithIt) {
  auto fake = make_fake();
  const KeptOutcome kept = kept_outcome(fake, keep_request(TextPrompt{kKeptRules}));
  ASSERT_TRUE(kept.done) << kept.error->message;
  EXPECT_EQ(kept.text, "");
  EXPECT_EQ(kept.done->usage.prompt_tokens, 40U);
  EXPECT_EQ(kept.done->usage.completion_tokens, 0U);
  EXPECT_EQ(kept.done->usage.cached_tokens, 0U);
  const KeptOutcome answer = kept_outcome(fake, app_asks(kKeptRules + "question"));
  EXPECT_EQ(answer.text, expected_text(kKeptRules + "question", 2));
  EXPECT_EQ(answer.done->usage.cached_tokens, 40U);
  EXPECT_EQ(answer.done->kept, "rules");
  EXPECT_EQ(answer.done->kept_tokens, 40U);
  const KeptOutcome stranger = kept_outcome(fake, app_asks(kKeptRules + "question", "another app"));
  EXPECT_EQ(stranger.done->usage.cached_tokens, 0U);
  EXPECT_EQ(stranger.done->kept, "");
  const auto all = kept_states(fake, [](const auto& s) { return s.size() == 1 && s[0].uses == 1; });
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0], (KeptPrefixState{"app", "rules", 40, 40, 0, 40, 1, 40}));
  EXPECT_EQ(kept_outcome(fake, keep_request(TextPrompt{kKeptRules})).done->usage.cached_tokens, 40U)
      << "it is there already";
}

TEST(KeptPrefix, HoldsTheTokensThatEveryChatSharesThatBeginsWithIt) {
  auto fake = make_fake({.chat_template = kRoleTemplate});
  const auto chat = [](const std::string& messages) {
    return ChatPrompt{test::packed(messages), {}, {}, true};
  };
  for (const std::string role : {"system", "user"}) {
    SCOPED_TRACE(role);
    const std::string name = role + " text";
    const std::string text(30, role[0]);
    const KeptOutcome kept = kept_outcome(
        fake, keep_request(chat(R"([{"role":")" + role + R"(","content":")" + text + R"("}])"), name));
    ASSERT_TRUE(kept.done) << kept.error->message;
    const std::size_t shared = role == "system"
                                   ? ("[system]" + text + "[user]").size()  // a user message follows
                                   : ("[user]" + text).size();
    EXPECT_EQ(kept.done->usage.prompt_tokens, shared / 4 * 4);
    CompletionRequest question = app_asks("");
    question.prompt =
        role == "system"
            ? chat(R"([{"role":"system","content":")" + text + R"("},{"role":"user","content":"hi"}])")
            : chat(R"([{"role":"user","content":")" + text + R"( hi"}])");
    const KeptOutcome answer = kept_outcome(fake, question);
    ASSERT_TRUE(answer.done) << answer.error->message;
    EXPECT_EQ(answer.done->kept, name);
    EXPECT_EQ(answer.done->kept_tokens, shared / 4 * 4);
  }
}

TEST(KeptPrefix, StaysWhileOthersFillTheKv) {
  auto fake = make_fake({.blocks = 32});
  ASSERT_TRUE(kept_outcome(fake, keep_request(TextPrompt{kKeptRules})).done);
  for (int i = 0; i < 20; ++i)
    kept_outcome(fake, app_asks(std::string(60, static_cast<char>('A' + i)), "others"));
  const KeptOutcome answer = kept_outcome(fake, app_asks(kKeptRules + "question"));
  EXPECT_EQ(answer.done->usage.cached_tokens, 40U);
  EXPECT_EQ(answer.text, expected_text(kKeptRules + "question", 2));
}

TEST(KeptPrefix, GivesWayToARequestThatNeedsTheRoomAndIsKeptAgain) {
  auto fake = make_fake({.blocks = 32});
  ASSERT_TRUE(kept_outcome(fake, keep_request(TextPrompt{kKeptRules})).done);
  ASSERT_TRUE(kept_outcome(fake, app_asks(std::string(120, 'x'), "others")).done);  // 31 of 32 blocks
  const auto gone =
      kept_states(fake, [](const auto& s) { return s.size() == 1 && s[0].tokens_in_memory < 40; });
  EXPECT_EQ(gone.at(0).tokens, 40U);
  EXPECT_LT(gone.at(0).tokens_in_memory, 40U);
  EXPECT_EQ(kept_outcome(fake, app_asks(kKeptRules + "question")).text,
            expected_text(kKeptRules + "question", 2));
  EXPECT_EQ(
      kept_states(fake, [](const auto& s) { return s[0].tokens_in_memory == 40; }).at(0).tokens_in_memory,
      40U)
      << "the request has computed it again";
  for (int i = 0; i < 20; ++i)
    kept_outcome(fake, app_asks(std::string(60, static_cast<char>('A' + i)), "others"));
  EXPECT_EQ(kept_outcome(fake, app_asks(kKeptRules + "again")).done->kept_tokens, 40U);
}

TEST(KeptPrefix, IsReplacedByAnotherTextOfItsName) {
  auto fake = make_fake();
  ASSERT_TRUE(kept_outcome(fake, keep_request(TextPrompt{kKeptRules})).done);
  const std::string changed = kKeptRules.substr(0, 20) + kOtherRules.substr(0, 20);
  const KeptOutcome replaced = kept_outcome(fake, keep_request(TextPrompt{changed}));
  ASSERT_TRUE(replaced.done);
  EXPECT_EQ(replaced.done->usage.cached_tokens, 20U) << "what both begin with";
  EXPECT_EQ(
      kept_states(fake, [](const auto& s) { return s.size() == 1 && s[0].tokens_in_memory == 40; }).size(),
      1U);
  EXPECT_EQ(kept_outcome(fake, app_asks(changed + "?")).done->kept_tokens, 40U);
  EXPECT_EQ(kept_outcome(fake, app_asks(kKeptRules + "?")).done->usage.cached_tokens, 20U)
      << "the old text's rest is freed";
}

TEST(KeptPrefix, IsFreedWhenItIsDropped) {
  auto fake = make_fake();
  ASSERT_TRUE(kept_outcome(fake, keep_request(TextPrompt{kKeptRules})).done);
  fake.backend->drop_kept_prefix("app", "no such name");
  fake.backend->drop_kept_prefix("app", "rules");
  EXPECT_TRUE(kept_states(fake, [](const auto& s) { return s.empty(); }).empty());
  const KeptOutcome answer = kept_outcome(fake, app_asks(kKeptRules + "question"));
  EXPECT_EQ(answer.done->usage.cached_tokens, 0U);
  EXPECT_EQ(answer.done->kept, "");
}

TEST(KeptPrefix, IsRefusedBeyondItsLimits) {
  auto fake = make_fake({.blocks = 32});
  const KeptOutcome over = kept_outcome(fake, keep_request(TextPrompt{kKeptRules}, "rules", 39));
  ASSERT_TRUE(over.error);
  EXPECT_EQ(over.code(), ErrorCode::token_limit_exceeded);
  EXPECT_EQ(over.error->message, "The prefix rules has 40 tokens; limits.kv_tokens is 39.");
  ASSERT_TRUE(kept_outcome(fake, keep_request(TextPrompt{kKeptRules}, "rules", 40)).done);
  ASSERT_TRUE(kept_outcome(fake, keep_request(TextPrompt{kOtherRules}, "rules", 40)).done)
      << "it takes the place of the other";
  const KeptOutcome both = kept_outcome(fake, keep_request(TextPrompt{"another"}, "second", 40));
  EXPECT_EQ(both.code(), ErrorCode::token_limit_exceeded);
  EXPECT_NE(both.error->message.find("4 tokens, beside 40 of other kept prefixes"), std::string::npos)
      << both.error->message;
  const KeptOutcome large = kept_outcome(fake, keep_request(TextPrompt{std::string(68, 'l')}, "large"));
  EXPECT_EQ(large.code(), ErrorCode::insufficient_memory) << "more than half of 128 tokens, alone";
  const KeptOutcome beside = kept_outcome(fake, keep_request(TextPrompt{std::string(28, 'l')}, "large"));
  EXPECT_EQ(beside.code(), ErrorCode::insufficient_memory);
  EXPECT_EQ(
      beside.error->message,
      "The prefix large has 28 tokens, beside 40 of other kept prefixes; kept prefixes may take half of the "
      "engine's KV, 64 tokens.");
  const KeptOutcome small = kept_outcome(fake, keep_request(TextPrompt{"abc"}, "small"));
  EXPECT_EQ(small.code(), ErrorCode::invalid_value) << "less than a block";
  const KeptOutcome context = kept_outcome(fake, keep_request(TextPrompt{std::string(300, 'c')}, "long"));
  EXPECT_EQ(context.code(), ErrorCode::context_length_exceeded);
  EXPECT_EQ(kept_outcome(fake, keep_request(TokenPrompt{{1, 2, 3, 4, 5}}, "tokens")).code(),
            ErrorCode::invalid_value);
  EXPECT_EQ(kept_outcome(fake, keep_request(TextPrompt{kKeptRules}, "")).code(), ErrorCode::invalid_value);
  EXPECT_EQ(kept_states(fake, [](const auto& s) { return s.size() == 1; }).size(), 1U)
      << "none of these is kept";
}

TEST(KeptPrefix, OfOneAppAreSixteenAtMost) {
  auto fake = make_fake({.blocks = 200, .queue = 64});
  for (std::size_t i = 0; i < config::kMaxKeptPrefixes; ++i)
    ASSERT_TRUE(kept_outcome(fake, keep_request(TextPrompt{std::string(4, static_cast<char>('a' + i))},
                                                std::to_string(i)))
                    .done);
  EXPECT_EQ(kept_outcome(fake, keep_request(TextPrompt{"zzzz"}, "one more")).code(), ErrorCode::overloaded);
  EXPECT_TRUE(kept_outcome(fake, keep_request(TextPrompt{"zzzz"}, "3")).done)
      << "a known name takes another text";
  CompletionRequest other = keep_request(TextPrompt{"zzzz"}, "one more");
  other.owner = "another app";
  EXPECT_TRUE(kept_outcome(fake, other).done);
}

// One of two slots is at the prefix, and the chats take both.
TEST(KeptPrefix, TakesNobodysSlot) {
  auto fake = make_fake({.blocks = 128, .sequences = 2, .step_tokens = 8});
  fake.control->allow(1);
  auto kept = std::make_shared<Client>();
  auto ticket = fake.backend->start(keep_request(TextPrompt{std::string(160, 'r')}), kept).value();
  {
    std::unique_lock lock(fake.control->mutex);
    ASSERT_TRUE(fake.control->changed.wait_for(lock, std::chrono::seconds(20),
                                               [&] { return fake.control->submits > 1; }));
  }
  std::vector<std::shared_ptr<Client>> chats;
  std::vector<Ticket> tickets;
  for (int i = 0; i < 2; ++i) {
    chats.push_back(std::make_shared<Client>());
    CompletionRequest request = text_request("chat", 60);
    request.owner = "chat " + std::to_string(i);
    tickets.push_back(fake.backend->start(request, chats.back()).value());
  }
  const auto most_running = [&] {
    const std::lock_guard lock(fake.control->mutex);
    return fake.control->most_rows;
  };
  fake.control->allow(UINT64_MAX);
  for (const auto& chat : chats) ASSERT_TRUE(chat->wait_end());
  EXPECT_EQ(most_running(), 2U) << "both chats in one step";
  ASSERT_TRUE(kept->wait_end());
  EXPECT_TRUE(kept->done());
}

// The only slot is at the prefix, a token a step; the chat does not wait for its rest.
TEST(KeptPrefix, DelaysNobodyWhileItIsComputed) {
  auto fake = make_fake({.blocks = 128, .step_tokens = 4});
  fake.control->allow(3);
  auto kept = std::make_shared<Client>();
  auto ticket = fake.backend->start(keep_request(TextPrompt{std::string(160, 'r')}), kept).value();
  auto chat = std::make_shared<Client>();
  auto second = fake.backend->start(app_asks(std::string(160, 'r') + "question"), chat).value();
  fake.control->allow(UINT64_MAX);
  ASSERT_TRUE(chat->wait_end());
  EXPECT_EQ(chat->text(), expected_text(std::string(160, 'r') + "question", 2));
  ASSERT_TRUE(kept->wait_end());
  EXPECT_TRUE(kept->done());
}

TEST(KeptPrefix, ComesBackFromTheDiskAndSaysWhereItLies) {
  const auto directory =
      std::filesystem::temp_directory_path() / ("flyball_kept_prefix_" + std::to_string(getpid()));
  std::filesystem::remove_all(directory);
  {
    auto fake = make_fake({.spill = directory, .spill_after = std::chrono::milliseconds(1)});
    ASSERT_TRUE(kept_outcome(fake, keep_request(TextPrompt{kKeptRules})).done);
    const auto saved =
        kept_states(fake, [](const auto& s) { return s.size() == 1 && s[0].tokens_on_disk == 40; });
    EXPECT_EQ(saved.at(0), (KeptPrefixState{"app", "rules", 40, 40, 40, 40, 0, 0}));
    fake.backend->drain(std::chrono::steady_clock::now() + std::chrono::seconds(20));
  }
  auto fake = make_fake({.spill = directory});
  const KeptOutcome again = kept_outcome(fake, keep_request(TextPrompt{kKeptRules}));
  ASSERT_TRUE(again.done);
  EXPECT_EQ(again.done->usage.cached_tokens, 40U);
  EXPECT_EQ(fake.backend->load().restored_tokens, 40U);
  std::filesystem::remove_all(directory);
}

TEST(SharedBeginning, GoesOnInTwoWays) {
  const auto two = engine::continued_in_two_ways(TextPrompt{"abc"}).value();
  const auto& one = std::get<TextPrompt>(two[0]).text;
  const auto& other = std::get<TextPrompt>(two[1]).text;
  EXPECT_TRUE(one.starts_with("abc") && other.starts_with("abc"));
  EXPECT_NE(one[3], other[3]);
  for (const char* messages : {R"([])", R"("text")", R"([{"role":"assistant","content":"a"}])",
                               R"([{"role":"user","content":[{"type":"text","text":"a"}]}])",
                               R"([{"role":"user"}])", R"(["system"])"})
    EXPECT_FALSE(engine::continued_in_two_ways(ChatPrompt{test::packed(messages), {}, {}, true})) << messages;
  const auto chat = engine::continued_in_two_ways(ChatPrompt{
      test::packed(R"([{"role":"user","content":"a"},{"role":"developer","content":"b"}])"), {}, {}, true});
  ASSERT_TRUE(chat);
  EXPECT_EQ(to_nlohmann(std::get<ChatPrompt>((*chat)[0]).messages.view()).size(), 3U);
}

}  // namespace
}  // namespace flyball::test
