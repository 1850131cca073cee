// Prompts on their way to the scheduler: by turns of their apps, small ones beside large ones, and what
// clients wrote as text.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "backends/engine/preparation.hpp"
#include "tests/backends/engine/fakes.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::test {
namespace {

using std::chrono::steady_clock;

CompletionRequest of_app(const std::string& app, std::string prompt) {
  CompletionRequest request = text_request(std::move(prompt), 1);
  request.owner = app;
  return request;
}
std::string large(char letter) {
  return std::string(engine::kSmallPromptBytes + 1, letter);
}

// Holds each text of this letter in the tokenizer, until it is let go.
class Gate {
 public:
  explicit Gate(char letter) : letter_(letter) {}
  void pass(std::string_view text) {
    if (text.empty()) return;  // as the engine is made
    std::unique_lock lock(mutex_);
    passed_ += text.front();
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || text.front() != letter_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool wait_for(const std::string& passed) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return passed_ == passed; });
  }
  std::string passed() {
    const std::lock_guard lock(mutex_);
    return passed_;
  }

 private:
  const char letter_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string passed_;  // first letters
  bool open_ = false;
};

FakeEngine gated(Gate& gate) {
  return make_fake({.blocks = 40'000,
                    .step_tokens = 4096,
                    .context = 100'000,
                    .on_encode = [&gate](std::string_view text) { gate.pass(text); }});
}

TEST(Preparation, SmallPromptWaitsForNoLargeOne) {
  Gate gate('a');
  auto fake = gated(gate);
  const auto slow = std::make_shared<Client>(), quick = std::make_shared<Client>();
  auto first = fake.backend->start(of_app("flood", large('a')), slow).value();
  ASSERT_TRUE(gate.wait_for("a"));
  auto second = fake.backend->start(of_app("light", "hello"), quick).value();
  ASSERT_TRUE(quick->wait_end());
  EXPECT_TRUE(quick->done());
  EXPECT_EQ(slow->ends(), 0);
  gate.open();
  ASSERT_TRUE(slow->wait_end());
  EXPECT_TRUE(slow->done());
}

TEST(Preparation, AppsTakeTurnsAndEachOnesPromptsKeepTheirOrder) {
  Gate gate('a');
  auto fake = gated(gate);
  std::vector<Ticket> tickets;
  std::vector<std::shared_ptr<Client>> clients;
  const auto start = [&](const char* app, char letter) {
    clients.push_back(std::make_shared<Client>());
    tickets.push_back(fake.backend->start(of_app(app, large(letter)), clients.back()).value());
  };
  start("flood", 'a');
  ASSERT_TRUE(gate.wait_for("a"));
  for (const char letter : {'b', 'c', 'd'}) start("flood", letter);
  start("light", 'x');
  start("light", 'y');
  gate.open();
  for (const auto& client : clients) ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(gate.passed(), "abxcyd");
}

// Its place is free and its memory is back at once, whatever is being prepared.
TEST(Preparation, CancelledRequestIsDroppedUnread) {
  Gate gate('a');
  auto fake = gated(gate);
  const auto slow = std::make_shared<Client>(), gone = std::make_shared<Client>();
  auto first = fake.backend->start(of_app("flood", large('a')), slow).value();
  ASSERT_TRUE(gate.wait_for("a"));
  auto second = fake.backend->start(of_app("flood", large('b')), gone).value();
  EXPECT_EQ(fake.backend->load().waiting, 2U);
  second.cancel();
  EXPECT_EQ(fake.backend->load().waiting, 1U);
  gate.open();
  ASSERT_TRUE(slow->wait_end());
  fake.backend->drain(steady_clock::now() + std::chrono::seconds(20));
  EXPECT_EQ(gate.passed(), "a");
  EXPECT_EQ(gone->ends(), 0);
}

TEST(Preparation, TokensNeedNoTokenizer) {
  Gate gate('a');
  auto fake = gated(gate);
  const auto slow = std::make_shared<Client>(), tokens = std::make_shared<Client>();
  auto first = fake.backend->start(of_app("flood", large('a')), slow).value();
  ASSERT_TRUE(gate.wait_for("a"));
  CompletionRequest request = of_app("light", "");
  request.prompt = TokenPrompt{std::vector<Token>(80'000, 'x')};
  auto second = fake.backend->start(std::move(request), tokens).value();
  ASSERT_TRUE(tokens->wait_end());
  EXPECT_TRUE(tokens->done());
  gate.open();
  ASSERT_TRUE(slow->wait_end());
}

// By the number of bytes alone, before anything of it is read: at once.
TEST(Preparation, TextThatCannotFitIsRefusedAtOnce) {
  Gate gate('a');
  auto fake = make_fake({.context = 1024, .on_encode = [&](std::string_view text) { gate.pass(text); }});
  const auto refused = fake.backend->start(of_app("flood", std::string(std::size_t{4} << 20U, 'a')),
                                           std::make_shared<Client>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::context_length_exceeded);
  EXPECT_EQ(refused.error().param, "prompt");
  EXPECT_NE(refused.error().message.find("4194304 bytes, which are at least 838861 tokens"),
            std::string::npos)
      << refused.error().message;
  EXPECT_EQ(gate.passed(), "");
}

// A chat by what its template writes of it, which may be less than what it has.
TEST(Preparation, ChatThatCannotFitIsNotTokenized) {
  Gate gate('\0');
  const auto ask = [&](const std::string& chat_template) {
    auto fake =
        make_fake({.context = 1024, .chat_template = chat_template, .on_encode = [&](std::string_view text) {
                     gate.pass(text);
                   }});
    CompletionRequest request = of_app("a", "");
    request.prompt = ChatPrompt{
        test::packed(R"([{"role":"user","content":")" + std::string(100'000, 'a') + "\"}]"), {}, {}};
    const auto client = std::make_shared<Client>();
    auto ticket = fake.backend->start(std::move(request), client).value();
    EXPECT_TRUE(client->wait_end());
    return client->error().value_or(Error{ErrorCode::internal, "it was served", {}, {}});
  };
  const Error error = ask("{{ messages[0].content }}");
  EXPECT_EQ(error.code, ErrorCode::context_length_exceeded);
  EXPECT_EQ(error.param, "messages");
  EXPECT_NE(error.message.find("more than 5115 bytes, which are at least 1024 tokens"), std::string::npos)
      << error.message;
  EXPECT_EQ(gate.passed(), "");
  EXPECT_EQ(ask("{{ messages[0].content[:100] }}").message, "it was served");
}

// ---- what clients wrote is text ---------------------------------------------------------------------------

std::vector<Token> prompt_of(ChatPrompt chat, const std::string& chat_template) {
  auto fake = make_fake({.chat_template = chat_template});
  std::vector<Token> seen;
  fake.control->model = [&](std::span<const Token> history) {
    seen.assign(history.begin(), history.end());
    return kEos;
  };
  CompletionRequest request = text_request("", 5);
  request.prompt = std::move(chat);
  const auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client).value();
  EXPECT_TRUE(client->wait_end());
  EXPECT_FALSE(client->error());
  return seen;
}

std::vector<Token> letters(std::string_view text) {
  std::vector<Token> out;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

TEST(Preparation, ControlTokensInMessagesAreText) {
  const auto messages = [] { return test::packed(R"([{"role":"user","content":"<bos>"}])"); };
  const std::string chat_template = "{{ bos_token }}{{ messages[0].content }}";
  std::vector<Token> expected{kBos};
  for (const Token token : letters("<bos>")) expected.push_back(token);
  EXPECT_EQ(prompt_of({.messages = messages(), .tools = {}, .template_args = {}}, chat_template), expected);
  EXPECT_EQ(
      prompt_of({.messages = messages(), .tools = {}, .template_args = {}, .control_tokens_in_content = true},
                chat_template),
      (std::vector<Token>{kBos, kBos}));
}

// The template's own BOS is left out if the tokenizer adds one itself. A client's is kept.
TEST(Preparation, OnlyTheTemplatesOwnBosIsLeftOut) {
  auto fake = make_fake({.adds_bos = true, .chat_template = "{{ messages[0].content }}"});
  std::vector<Token> seen;
  fake.control->model = [&](std::span<const Token> history) {
    seen.assign(history.begin(), history.end());
    return kEos;
  };
  CompletionRequest request = text_request("", 5);
  request.prompt = ChatPrompt{test::packed(R"([{"role":"user","content":"<bos>x"}])"), {}, {}};
  const auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(std::move(request), client).value();
  ASSERT_TRUE(client->wait_end());
  std::vector<Token> expected{kBos};
  for (const Token token : letters("<bos>x")) expected.push_back(token);
  EXPECT_EQ(seen, expected);
}

TEST(Preparation, HalvesOfAControlTokenStayText) {
  EXPECT_EQ(
      prompt_of(
          {.messages = test::packed(R"([{"role":"user","content":"<bo"},{"role":"user","content":"s>"}])"),
           .tools = {},
           .template_args = {}},
          "{% for m in messages %}{{ m.content }}{% endfor %}"),
      letters("<bos>"));
}

}  // namespace
}  // namespace flyball::test
