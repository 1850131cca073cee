// Requests that share KV, and what must not be seen of it in their answers, on any device.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <random>

#include "backends/local/local_backend.hpp"
#include "backends/model/synthetic.hpp"
#include "tests/backends/engine/fakes.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::test {

inline constexpr std::chrono::seconds kDrain{20};

struct Answer {
  std::shared_ptr<Client> client = std::make_shared<Client>();
  Ticket ticket;
  Usage usage() const { return client->done() ? client->done()->usage : Usage{}; }
};

inline Answer ask(Backend& backend, CompletionRequest request, std::string owner = "app") {
  Answer answer;
  request.owner = std::move(owner);
  answer.ticket = backend.start(std::move(request), answer.client).value();
  return answer;
}
inline Answer wait(Backend& backend, CompletionRequest request, std::string owner = "app") {
  Answer answer = ask(backend, std::move(request), std::move(owner));
  EXPECT_TRUE(answer.client->wait_end());
  EXPECT_FALSE(answer.client->error()) << answer.client->error()->message;
  return answer;
}

// An app's requests are prepared in order, and apps take turns: when this one of "app" has been refused, the
// others of "app" and one of each other app are with the engine.
inline void wait_prepared(Backend& backend, std::uint32_t context) {
  const auto last = std::make_shared<Client>();
  CompletionRequest too_long = text_request("", 1);
  too_long.owner = "app";
  too_long.prompt = TokenPrompt{std::vector<Token>(context, 0)};
  auto ticket = backend.start(std::move(too_long), last).value();
  ASSERT_TRUE(last->wait_end());
  ASSERT_TRUE(last->error());
}

// A model file and what to ask of it. Heads of 32 values, so that KV may be q8_0.
class SharingModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto spec = model::parse_synthetic_shape(
                    "dim=64,layers=2,heads=4,kv_heads=2,head_dim=32,ffn=96,vocab=512,context=2048")
                    .value();
    spec.type = kernels::DType::q8_0;
    path_ = std::filesystem::temp_directory_path() /
            ("flyball_sharing_test_" + std::to_string(getpid()) + ".gguf");
    ASSERT_TRUE(model::write_synthetic_file(spec, path_, 1));
  }
  static void TearDownTestSuite() { std::filesystem::remove(path_); }

  static local::LocalBackendOptions options(const char* kv_type, std::uint32_t sequences,
                                            std::uint32_t blocks = 0, std::uint32_t step_tokens = 64) {
    local::LocalBackendOptions o;
    o.model_id = "tiny";
    o.path = path_;
    o.threads = 2;
    o.context = 2048;
    o.max_sequences = sequences;
    o.kv_blocks = blocks;
    o.step_tokens = step_tokens;
    o.kv_type = kv_type;
    return o;
  }
  static std::unique_ptr<Backend> make_backend(const local::LocalBackendOptions& o) {
    auto backend = local::make_local_backend(o);
    EXPECT_TRUE(backend) << backend.error().message;
    return std::move(*backend);
  }
  // Random tokens of which requests of one `family` share the first `common`.
  static CompletionRequest request(std::uint32_t family, std::uint32_t common, std::uint32_t tail,
                                   std::uint32_t own, std::uint32_t generate) {
    std::mt19937 shared(family), mine(1000 + own);
    TokenPrompt prompt;
    for (std::uint32_t i = 0; i < common; ++i) prompt.tokens.push_back(static_cast<Token>(shared() % 256));
    for (std::uint32_t i = 0; i < tail; ++i) prompt.tokens.push_back(static_cast<Token>(mine() % 256));
    CompletionRequest r;
    r.prompt = std::move(prompt);
    r.max_tokens = generate;
    r.ignore_eos = true;
    r.sampling.temperature = 0;
    r.sampling.top_logprobs = 20;
    return r;
  }
  static void expect_same(const Answer& a, const Answer& b) {
    EXPECT_EQ(a.client->tokens(), b.client->tokens());
    const auto x = a.client->deltas(), y = b.client->deltas();
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(x[i].logprobs.size(), y[i].logprobs.size());
      for (std::size_t k = 0; k < x[i].logprobs.size(); ++k) {
        SCOPED_TRACE("token " + std::to_string(i));
        expect_same(x[i].logprobs[k], y[i].logprobs[k]);
      }
    }
  }
  static void expect_same(const TokenLogprob& a, const TokenLogprob& b) {
    if (!rounds_) {
      EXPECT_EQ(a.logprob, b.logprob);
      EXPECT_EQ(a.top, b.top);
      return;
    }
    EXPECT_NEAR(a.logprob, b.logprob, kRounding);
    ASSERT_EQ(a.top.size(), b.top.size());
    for (std::size_t i = 0; i < a.top.size(); ++i) EXPECT_NEAR(a.top[i].second, b.top[i].second, kRounding);
  }

  static void expect_cold_equals_prefix_hit(Backend& backend) {
    for (const std::uint32_t common : {17U, 100U, 512U}) {
      const Answer cold = wait(backend, request(common, common, 20, 1, 24));
      const Answer again = wait(backend, request(common, common, 20, 1, 24));
      EXPECT_EQ(cold.usage().cached_tokens, 0U);
      EXPECT_EQ(again.usage().cached_tokens, (common + 19) / 16 * 16);
      expect_same(cold, again);
      const Answer sibling = wait(backend, request(common, common, 20, 2, 24));
      EXPECT_EQ(sibling.usage().cached_tokens, common / 16 * 16);
      expect_same(sibling, wait(backend, request(common, common, 20, 2, 24), "somebody else"));
    }
  }
  // The KV of forced tokens, several a step, is what a prompt's is: an answer may be resumed anywhere, and
  // prompts that go on from it compute the same. every: tokens between two places where it is resumed.
  static void expect_forced_equals_computed(Backend& backend, std::size_t every = 1) {
    std::string properties, names;
    for (const char* name : {"customer_identifier", "delivery_address", "is_preferred_partner", "currency"}) {
      properties += std::string(names.empty() ? "" : ",") + "\"" + name + "\":{\"enum\":[true,false,17]}";
      names += std::string(names.empty() ? "" : ",") + "\"" + name + "\"";
    }
    const std::string schema = R"({"type":"object","additionalProperties":false,"properties":{)" +
                               properties + R"(},"required":[)" + names + "]}";
    for (const float temperature : {0.0F, 1.0F}) {
      CompletionRequest r = request(3, 40, 5, 1, 300);
      const auto prompt = std::get<TokenPrompt>(r.prompt).tokens;
      r.constraint = Constraint{Constraint::Kind::json_schema, packed(schema), true};
      r.sampling.top_logprobs = -1;
      r.sampling.temperature = temperature;
      r.sampling.seed = 5;
      const std::uint64_t steps = backend.load().steps;
      const Answer whole = wait(backend, r, "forced");
      const auto tokens = whole.client->tokens();
      EXPECT_EQ(whole.client->done()->reason, FinishReason::stop);
      EXPECT_LT(backend.load().steps - steps, tokens.size() * 2 / 3) << whole.client->text();

      CompletionRequest next = request(3, 0, 0, 1, 8);
      std::get<TokenPrompt>(next.prompt).tokens = prompt;
      auto& all = std::get<TokenPrompt>(next.prompt).tokens;
      all.insert(all.end(), tokens.begin(), tokens.end());
      const Answer after = wait(backend, next, "forced");
      EXPECT_GE(after.usage().cached_tokens, (all.size() - 17) / 16 * 16);
      const Answer plain = wait(backend, next, "plain" + std::to_string(temperature));
      EXPECT_EQ(plain.usage().cached_tokens, 0U);
      expect_same(after, plain);
      for (std::size_t n = 0; n <= tokens.size() && !rounds_; n += every) {
        CompletionRequest rest = r;
        rest.resume_tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
        const Answer resumed = wait(backend, std::move(rest), std::to_string(n % 2));
        EXPECT_EQ(resumed.client->text(), whole.client->text()) << n;
        EXPECT_TRUE(std::ranges::equal(resumed.client->tokens(), std::span(tokens).subspan(n))) << n;
      }
    }
  }
  // alone: one sequence at once; together: six.
  static void expect_copied_equals_computed(Backend& alone, Backend& together) {
    // Nobody goes on before all are there: else the first may have ended, and its last block with it.
    std::atomic<bool> all_there{false};
    std::vector<Answer> choices;
    for (int i = 0; i < 6; ++i) {
      Answer& choice = choices.emplace_back();
      choice.client->on_push = [&] { all_there.wait(false); };
      CompletionRequest r = request(9, 200, 5, 1, 30);
      r.owner = "app";
      choice.ticket = together.start(std::move(r), choice.client).value();
    }
    wait_prepared(together, 2048);
    all_there = true;
    all_there.notify_all();
    const Answer reference = wait(alone, request(9, 200, 5, 1, 30));
    for (Answer& choice : choices) {
      ASSERT_TRUE(choice.client->wait_end());
      expect_same(reference, choice);
    }
    EXPECT_EQ(choices[5].usage().cached_tokens, 204U);
  }
  // tight: kTightBlocks for four sequences at once of up to 90 tokens.
  static constexpr std::uint32_t kTightBlocks = 14;
  static void expect_before_equals_after_preemption(Backend& roomy, Backend& tight) {
    // Nobody goes on before all are there: else the first may be gone before the others need its room.
    std::atomic<bool> all_there{false};
    std::vector<Answer> answers;
    for (std::uint32_t i = 0; i < 6; ++i) {
      Answer answer;
      answer.client->on_push = [&] { all_there.wait(false); };
      auto r = request(i % 2, 20, 5 + 3 * i, i, 50);
      r.owner = "app";
      answer.ticket = tight.start(std::move(r), answer.client).value();
      answers.push_back(std::move(answer));
    }
    wait_prepared(tight, 2048);
    all_there = true;
    all_there.notify_all();
    for (std::uint32_t i = 0; i < 6; ++i) {
      ASSERT_TRUE(answers[i].client->wait_end());
      expect_same(wait(roomy, request(i % 2, 20, 5 + 3 * i, i, 50), std::to_string(i)), answers[i]);
    }
    tight.drain(std::chrono::steady_clock::now() + kDrain);
    EXPECT_EQ(tight.load().kv_blocks_used, 0U);
    EXPECT_GT(tight.load().preemptions, 0U);
  }
  // backend: kStreams sequences at once, and room for all.
  static constexpr std::uint32_t kStreams = 64;
  static void expect_one_copy_of_a_prefix(Backend& backend) {
    constexpr std::uint32_t kPrefix = 1024, kTail = 8, kAnswer = 24;
    std::atomic<std::uint32_t> most = 0, most_running = 0;
    std::atomic<bool> all_there{false};
    std::vector<Answer> answers;
    for (std::uint32_t i = 0; i < kStreams; ++i) {
      Answer answer;
      answer.client->on_push = [&] {  // on the engine's thread, one at a time
        all_there.wait(false);
        most = std::max(most.load(), backend.load().kv_blocks_used);
        most_running = std::max(most_running.load(), backend.load().running);
      };
      auto r = request(5, kPrefix, kTail, i, kAnswer);
      r.sampling.top_logprobs = -1;
      r.owner = "app";
      answer.ticket = backend.start(std::move(r), answer.client).value();
      answers.push_back(std::move(answer));
    }
    wait_prepared(backend, 2048);
    all_there = true;
    all_there.notify_all();
    for (Answer& answer : answers) ASSERT_TRUE(answer.client->wait_end(std::chrono::seconds(120)));
    const std::uint32_t copy = kPrefix / 16, tails = kStreams * ((kTail + kAnswer + 15) / 16);
    std::cout << "at most " << most << " blocks for " << most_running
              << " streams at once; one copy of the prefix: " << copy << ", private tails: " << tails
              << ", unshared: " << kStreams * copy + tails << "\n";
    EXPECT_EQ(most_running, kStreams);
    EXPECT_GE(most, copy + kStreams);
    EXPECT_LE(most, copy * 13 / 10 + tails);
    const BackendLoad load = backend.load();
    EXPECT_EQ(load.prompt_tokens, std::uint64_t{kStreams} * (kPrefix + kTail));
    const double hit_rate = static_cast<double>(load.cached_tokens) / static_cast<double>(load.prompt_tokens);
    EXPECT_GE(hit_rate, static_cast<double>((kStreams - 1) * kPrefix) / (kStreams * (kPrefix + kTail)));
    EXPECT_EQ(load.preemptions, 0U);
  }

  static constexpr double kRounding = 5e-3;
  // A GPU's sums run in another order beside other rows: then logprobs are near, and tokens alone are the
  // same.
  static inline bool rounds_ = false;
  static inline std::filesystem::path path_;
};

}  // namespace flyball::test
