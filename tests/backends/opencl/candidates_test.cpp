// What crosses from an OpenCL device to the host: candidates equal to what the whole rows say, in steps that
// mix both, and no more bytes than were asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "backends/graph/memory_plan.hpp"
#include "backends/graph/ops.hpp"
#include "kernels/reference/top_k.hpp"
#include "tests/backends/engine/fakes.hpp"
#include "tests/backends/opencl/executors.hpp"

namespace flyball::test {
namespace {

constexpr std::uint32_t kStreams = 32, kCandidateBlocks = 256;
constexpr std::uint32_t kRows = 2000;  // values in a row of logits; only kVocab of them are tokens

class OpenClCandidates : public OpenClTest {
 protected:
  std::unique_ptr<opencl::OpenClExecutor> executor(const opencl::Pretence& pretence = kItself) {
    auto options = opencl_options(pretence);
    options.max_logit_rows = kStreams;
    auto made = opencl::make_opencl_executor(*model_.file, options).value();
    EXPECT_TRUE(made->reserve_kv(graph::kv_layout(model_.file->config()), kCandidateBlocks));
    return made;
  }

  const RunModel model_ =
      small_model("dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=" + std::to_string(kRows));
};

class OpenClCandidatesOf : public OpenClCandidates, public testing::WithParamInterface<opencl::Pretence> {};
INSTANTIATE_TEST_SUITE_P(Devices, OpenClCandidatesOf, testing::Values(kItself, kAsGpu),
                         [](const auto& i) { return device_name(i.param); });

// A step of one prompt and of decoded tokens, of which some rows are wanted whole, some cut, some not at all.
TEST_P(OpenClCandidatesOf, AreWhatTheWholeRowsSay) {
  const auto device = executor(GetParam());
  ASSERT_EQ(device->max_candidates(), graph::kMaxCandidates);
  struct Sequence {
    std::uint32_t tokens;
    bool wanted;
    std::uint32_t candidates;
  };
  const std::vector<Sequence> steps[] = {
      {{3, true, 5}, {1, true, 0}, {1, true, 64}, {1, false, 0}, {1, true, 0}, {1, true, 0}, {9, true, 1}},
      {{1, true, 0}, {1, true, 1}, {1, true, 7}, {1, true, 0}},  // every row wanted
      {{1, true, 2}, {5, true, 3}},                              // none whole
      {{4, false, 0}, {2, false, 0}},                            // none at all
  };
  for (const auto& step : steps)
    for (const std::uint32_t of : {kRows, kVocab}) {
      std::vector<Token> tokens;
      std::vector<device::BlockId> tables(step.size());
      std::vector<device::StepSequence> whole, mixed;
      std::uint64_t n_whole = 0, n_pairs = 0;
      for (std::uint32_t i = 0; i < step.size(); ++i) {
        tables[i] = i;
        device::StepSequence s{
            static_cast<std::uint32_t>(tokens.size()), step[i].tokens, 0, {&tables[i], 1}, step[i].wanted};
        whole.push_back(s);
        s.n_candidates = step[i].candidates;
        s.want_exp_sum = s.n_candidates % 2 == 1;
        mixed.push_back(s);
        for (std::uint32_t t = 0; t < step[i].tokens; ++t) tokens.push_back(static_cast<Token>(7 * i + t));
        if (s.n_wanted == 0) continue;
        n_whole += s.n_candidates == 0 ? 1 : 0;
        n_pairs += s.n_candidates > 0 ? 1 + s.n_candidates : 0;
      }
      const auto all = device->wait(device->submit({tokens, whole}, {}).value()).value();
      EXPECT_TRUE(all.candidates.empty());
      const std::vector<float> expected(all.logits.begin(), all.logits.end());
      const auto before = device->statistics().result_bytes;
      const auto got = device->wait(device->submit({tokens, mixed, of}, {}).value()).value();
      EXPECT_EQ(device->statistics().result_bytes - before, 4 * n_whole * kRows + 8 * n_pairs);

      std::size_t row = 0, n = 0, cut = 0;
      for (const device::StepSequence& s : mixed) {
        if (s.n_wanted == 0) continue;
        const auto logits = std::span(expected).subspan(row++ * kRows, kRows);
        if (s.n_candidates == 0) {
          ASSERT_TRUE(std::ranges::equal(got.logits.subspan(n++ * kRows, kRows), logits)) << "row " << row;
          continue;
        }
        ASSERT_LT(cut, got.candidates.size());
        const decode::Candidates& c = got.candidates[cut++];
        std::vector<std::uint32_t> ids(s.n_candidates);
        const double sum = kernels::reference::top_k(logits.data(), of, s.n_candidates, ids.data());
        ASSERT_TRUE(c.finite);
        ASSERT_NEAR(c.exp_sum, s.want_exp_sum ? sum : 0.0, 2e-6 * sum);
        ASSERT_EQ(c.likeliest.size(), ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) {
          ASSERT_EQ(c.likeliest[i].token, static_cast<Token>(ids[i]));
          ASSERT_EQ(c.likeliest[i].value, logits[ids[i]]);
        }
      }
      EXPECT_EQ(n * kRows, got.logits.size());
      EXPECT_EQ(cut, got.candidates.size());
    }
}

TEST_F(OpenClCandidates, MoreThanThereAreAreRefused) {
  const auto device = executor();
  const std::vector<Token> tokens{1};
  const std::vector<device::BlockId> table{0};
  device::StepSequence s{0, 1, 0, table, true, graph::kMaxCandidates + 1};
  EXPECT_FALSE(device->submit({tokens, {&s, 1}}, {}));
  s.n_candidates = 11;
  EXPECT_FALSE(device->submit({tokens, {&s, 1}, 10}, {}));
  s.n_candidates = 1;
  EXPECT_FALSE(device->submit({tokens, {&s, 1}, kRows + 1}, {}));
  EXPECT_TRUE(device->submit({tokens, {&s, 1}, kRows}, {}));
}

// The engine's device, as one that gives candidates or does not.
class Watched final : public device::Executor {
 public:
  Watched(std::unique_ptr<opencl::OpenClExecutor> device, std::uint32_t max_candidates,
          std::shared_ptr<std::atomic<std::uint64_t>> bytes)
      : device_(std::move(device)), max_candidates_(max_candidates), bytes_(std::move(bytes)) {}
  graph::MemoryPlan memory() const override { return device_->memory(); }
  Result<void> reserve_kv(const graph::KvLayout& layout, std::uint32_t n) override {
    return device_->reserve_kv(layout, n);
  }
  Result<device::StepId> submit(const device::StepBatch& batch,
                                std::span<const device::BlockCopy> copies) override {
    return device_->submit(batch, copies);
  }
  Result<device::StepOutput> wait(device::StepId step) override {
    auto output = device_->wait(step);
    *bytes_ = device_->statistics().result_bytes;
    return output;
  }
  std::uint32_t max_step_tokens() const override { return device_->max_step_tokens(); }
  std::uint32_t max_candidates() const override { return max_candidates_; }

 private:
  std::unique_ptr<opencl::OpenClExecutor> device_;
  std::uint32_t max_candidates_;
  std::shared_ptr<std::atomic<std::uint64_t>> bytes_;
};

struct Answers {
  std::vector<std::vector<Token>> tokens;
  double bytes_per_token = 0;
};

Answers answers(std::unique_ptr<opencl::OpenClExecutor> device, std::uint32_t max_candidates,
                const std::function<void(std::uint32_t, SamplingParams&)>& settings) {
  const auto bytes = std::make_shared<std::atomic<std::uint64_t>>(0);
  engine::EngineParts parts;
  parts.limits.kv_blocks = kCandidateBlocks;
  parts.limits.block_size = graph::KvLayout{}.block_size;
  parts.limits.max_sequences = kStreams;
  parts.limits.step_tokens = 64;
  parts.limits.max_waiting = kStreams;
  parts.executor = std::make_unique<Watched>(std::move(device), max_candidates, bytes);
  parts.logits_per_row = kRows;
  parts.text =
      engine::make_text_model(std::make_unique<ByteTokenizer>(), text::ChatTemplate::parse(""), kRows, 100);
  const auto backend = engine::make_engine_backend(std::move(parts));
  std::vector<std::shared_ptr<Client>> clients;
  std::vector<Ticket> tickets;
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    auto request = text_request("prompt " + std::to_string(i), 10);
    request.ignore_eos = true;
    request.sampling.seed = i;
    settings(i, request.sampling);
    clients.push_back(std::make_shared<Client>());
    tickets.push_back(backend->start(std::move(request), clients.back()).value());
  }
  Answers all;
  for (const auto& client : clients) {
    EXPECT_TRUE(client->wait_end());
    EXPECT_FALSE(client->error());
    all.tokens.push_back(client->tokens());
    EXPECT_EQ(all.tokens.back().size(), 10U);
  }
  all.bytes_per_token = static_cast<double>(*bytes) / (10 * kStreams);
  return all;
}

TEST_F(OpenClCandidates, GreedyStreamsReadAFewBytesAToken) {
  const auto greedy = [](std::uint32_t, SamplingParams&) {};
  const auto whole = answers(executor(), 0, greedy), cut = answers(executor(), 64, greedy);
  EXPECT_EQ(whole.tokens, cut.tokens);
  EXPECT_EQ(whole.bytes_per_token, 4.0 * kRows);
  EXPECT_EQ(cut.bytes_per_token, 16.0);  // finite or not, the sum; the token, its logit
}

// Streams that need candidates beside streams that need all.
TEST_F(OpenClCandidates, MixedStreamsDrawTheSameTokens) {
  const auto settings = [](std::uint32_t i, SamplingParams& p) {
    p.temperature = i % 4 == 0 ? 0.0F : 1.2F;
    p.top_k = i % 3 == 0 ? 0 : static_cast<std::int32_t>(2 * i);
    if (i % 5 == 0) p.top_p = 0.8F;
    if (i % 7 == 0) p.frequency_penalty = 0.5F;
    if (i % 6 == 0) p.top_logprobs = 3;
  };
  const auto whole = answers(executor(), 0, settings), cut = answers(executor(), 64, settings);
  EXPECT_EQ(whole.tokens, cut.tokens);
  EXPECT_LT(cut.bytes_per_token, whole.bytes_per_token / 2);
}

}  // namespace
}  // namespace flyball::test
