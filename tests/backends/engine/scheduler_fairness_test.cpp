// Who waits for whom when prompts of all lengths arrive, by simulation: time is the tokens computed so far.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "backends/engine/scheduler.hpp"

namespace flyball::engine {
namespace {

constexpr std::uint32_t kBudget = 64;

class Simulation {
 public:
  explicit Simulation(std::uint32_t sequences = 8) : s_(limits(sequences)) {}

  SequenceId submit(std::uint32_t prompt) {
    const SequenceId id = next_++;
    std::vector<Token> tokens(prompt, static_cast<Token>(id));
    EXPECT_TRUE(s_.submit({id, "", tokens, prompt + 1}));
    arrived_[id] = now_;
    return id;
  }
  // One step; every prompt that is computed ends with its first token.
  void step() {
    const StepPlan plan = s_.plan();
    if (plan.empty()) return;
    now_ += plan.work.tokens;
    std::vector<StepResult> results;
    for (const auto& p : plan.sequences) {
      computed_[p.id] += p.n_tokens;
      if (!p.want_logits) continue;
      results.push_back({.id = p.id, .ended = true});
      ttft_[p.id] = now_ - arrived_[p.id];
    }
    s_.commit(results);
  }
  bool answered(SequenceId id) const { return ttft_.contains(id); }
  std::uint64_t ttft(SequenceId id) const { return ttft_.at(id); }
  std::uint64_t computed(SequenceId id) const { return computed_.at(id); }
  std::uint64_t now() const { return now_; }

 private:
  static SchedulerLimits limits(std::uint32_t sequences) {
    SchedulerLimits l;
    l.step_tokens = kBudget;
    l.max_sequences = sequences;
    l.kv_blocks = 10'000;
    return l;
  }
  Scheduler s_;
  SequenceId next_ = 1;
  std::uint64_t now_ = 0;
  std::map<SequenceId, std::uint64_t> arrived_, ttft_, computed_;
};

TEST(Fairness, AShortPromptPassesALongOneBeingComputed) {
  Simulation sim;
  const SequenceId longest = sim.submit(4096);
  for (int i = 0; i < 5; ++i) sim.step();
  const SequenceId brief = sim.submit(40);
  sim.step();
  ASSERT_TRUE(sim.answered(brief));
  EXPECT_EQ(sim.ttft(brief), 40U) << "its own tokens and nothing else";
  sim.step();
  EXPECT_EQ(sim.computed(longest), 6 * kBudget);
}

TEST(Fairness, ALongPromptAdvancesWhateverArrives) {
  Simulation sim;
  const SequenceId longest = sim.submit(4096);
  std::vector<SequenceId> brief;
  while (!sim.answered(longest)) {
    ASSERT_LT(sim.now(), 2 * 8 * 4096U) << "starves: " << sim.computed(longest);
    for (int i = 0; i < 2; ++i) brief.push_back(sim.submit(kBudget / 2));
    sim.step();
  }
  std::vector<std::uint64_t> times;
  for (const SequenceId id : brief)
    if (sim.answered(id)) times.push_back(sim.ttft(id));
  std::ranges::sort(times);
  // Twice the load that fits: those that wait for a slot wait for the queue, not for the long prompt.
  EXPECT_GT(times.size(), 50U);
  EXPECT_LE(times.front(), kBudget);
}

TEST(Fairness, OfManyLongPromptsTheShortestIsFirstAndAllAdvance) {
  Simulation sim;
  std::vector<SequenceId> ids;
  for (std::uint32_t i = 0; i < 6; ++i) ids.push_back(sim.submit(2000 - 100 * i));
  for (int i = 0; i < 30; ++i) sim.step();
  for (const SequenceId id : ids) EXPECT_GE(sim.computed(id), kBudget) << id;
  while (!sim.answered(ids.front())) sim.step();
  for (std::size_t i = 1; i < ids.size(); ++i) EXPECT_LT(sim.ttft(ids[i]), sim.ttft(ids[i - 1]));
  EXPECT_EQ(sim.now(), 6 * 2000U - 1500) << "no step is left empty";
}

// Random arrivals: nobody's first token takes more than what was there when it came, and what came later and
// was shorter, and its own share of the aged ones.
TEST(Fairness, EveryPromptIsAnsweredUnderAnyArrivals) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Simulation sim(16);
    std::set<SequenceId> open;
    for (int i = 0; i < 2000; ++i) {
      if (open.size() < 16 && random() % 3 == 0) {
        const auto length =
            static_cast<std::uint32_t>(random() % 4 == 0 ? 500 + random() % 2000 : 1 + random() % 60);
        open.insert(sim.submit(length));
      }
      sim.step();
      std::erase_if(open, [&](SequenceId id) { return sim.answered(id); });
    }
    for (int i = 0; i < 2000 && !open.empty(); ++i) {
      sim.step();
      std::erase_if(open, [&](SequenceId id) { return sim.answered(id); });
    }
    EXPECT_TRUE(open.empty());
  }
}

}  // namespace
}  // namespace flyball::engine
