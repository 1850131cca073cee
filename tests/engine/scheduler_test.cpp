// The scheduler as a state machine: what a step holds, and a model-based random test of everything that may
// happen.
#include "backends/engine/scheduler.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <set>

namespace flyball::engine {
namespace {

SchedulerLimits limits(std::uint32_t blocks, std::uint32_t sequences = 4, std::uint32_t step = 16) {
  SchedulerLimits l;
  l.kv_blocks = blocks;
  l.max_sequences = sequences;
  l.step_tokens = step;
  l.max_waiting = 8;
  l.block_size = 4;
  return l;
}

// Every sequence with logits gets one more token.
void advance(Scheduler& s, const StepPlan& plan, std::set<SequenceId> ended = {}) {
  std::vector<StepResult> results;
  for (const auto& p : plan.sequences)
    if (p.want_logits) results.push_back({p.id, ended.contains(p.id)});
  s.commit(results);
}

TEST(Scheduler, PrefillsAPromptInChunks) {
  Scheduler s(limits(100));
  ASSERT_TRUE(s.submit(1, 40, 50));
  auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].n_tokens, 16U);
  EXPECT_FALSE(plan.sequences[0].want_logits);
  advance(s, plan);
  plan = s.plan();
  EXPECT_EQ(plan.sequences[0].first_position, 16U);
  advance(s, plan);
  plan = s.plan();
  EXPECT_EQ(plan.sequences[0].n_tokens, 8U);
  EXPECT_TRUE(plan.sequences[0].want_logits);
  advance(s, plan);
  plan = s.plan();
  EXPECT_EQ(plan.sequences[0].first_position, 40U);
  EXPECT_EQ(plan.sequences[0].n_tokens, 1U);
  advance(s, plan, {1});
  EXPECT_TRUE(s.plan().empty());
  EXPECT_EQ(s.kv().free(), 100U);
}

TEST(Scheduler, DecodesBeforePrefillsUnderOneBudget) {
  Scheduler s(limits(100));
  ASSERT_TRUE(s.submit(1, 3, 20));
  advance(s, s.plan());
  ASSERT_TRUE(s.submit(2, 30, 40));
  ASSERT_TRUE(s.submit(3, 5, 40));
  const auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 2U);
  EXPECT_EQ(plan.sequences[0].id, 1U);
  EXPECT_EQ(plan.sequences[0].n_tokens, 1U);
  EXPECT_EQ(plan.sequences[1].id, 2U);
  EXPECT_EQ(plan.sequences[1].n_tokens, 15U);
  EXPECT_EQ(plan.n_tokens, 16U);
  advance(s, plan);
}

TEST(Scheduler, ASmallerBudgetMakesSmallerChunksAndKeepsEveryDecode) {
  Scheduler s(limits(100));  // 4 sequences, 16 tokens
  for (SequenceId id = 1; id <= 3; ++id) ASSERT_TRUE(s.submit(id, 3, 20));
  advance(s, s.plan());
  ASSERT_TRUE(s.submit(4, 30, 40));
  for (const auto& [budget, n_tokens] : {std::pair{1U, 4U}, std::pair{7U, 7U}, std::pair{99U, 16U}}) {
    const auto plan = s.plan(budget);
    EXPECT_EQ(plan.sequences.size(), 4U) << budget;
    EXPECT_EQ(plan.n_tokens, n_tokens) << budget;
    advance(s, plan);
  }
}

TEST(Scheduler, NobodyOvertakesTheFirstInTheQueue) {
  Scheduler s(limits(8));
  ASSERT_TRUE(s.submit(1, 20, 24));  // 5 of 8 blocks
  advance(s, s.plan());
  ASSERT_TRUE(s.submit(2, 16, 20));  // needs 4: has to wait
  ASSERT_TRUE(s.submit(3, 1, 2));    // would fit
  const auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].id, 1U);
  EXPECT_EQ(s.waiting(), 2U);
  advance(s, plan);
}

TEST(Scheduler, RefusesWhatCanNeverFitAndWhatTheQueueCannotHold) {
  Scheduler s(limits(4, 1));
  const auto never = s.submit(1, 10, 17);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().code, ErrorCode::insufficient_memory);
  EXPECT_NE(never.error().message.find("needs 5 KV blocks; the engine has 4"), std::string::npos);
  for (SequenceId id = 2; id < 2 + 9; ++id) ASSERT_TRUE(s.submit(id, 1, 2));  // one may run, eight wait
  const auto full = s.submit(50, 1, 2);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::overloaded);
}

TEST(Scheduler, PreemptsTheLatestAndRecomputesIt) {
  Scheduler s(limits(4));
  ASSERT_TRUE(s.submit(1, 4, 16));
  ASSERT_TRUE(s.submit(2, 3, 12));
  bool preempted = false;
  std::uint32_t known2 = 3;
  for (int i = 0; i < 40 && (s.contains(1) || s.contains(2)); ++i) {
    const auto plan = s.plan();
    std::set<SequenceId> ended;
    for (const auto& p : plan.sequences) {
      if (p.id == 2 && p.first_position == 0 && p.n_tokens > 3) {
        preempted = true;
        EXPECT_EQ(p.n_tokens, known2);  // prompt and answer so far
      }
      const std::uint32_t most = p.id == 1 ? 16 : 12;
      if (p.want_logits && p.first_position + p.n_tokens + 1 == most) ended.insert(p.id);
      if (p.id == 2 && p.want_logits) ++known2;
    }
    advance(s, plan, ended);
    ASSERT_TRUE(s.balanced());
  }
  EXPECT_TRUE(preempted);
  EXPECT_GT(s.preemptions(), 0U);
  EXPECT_EQ(s.kv().free(), 4U);
}

TEST(Scheduler, APausedSequenceIsNotPlannedAndYieldsItsRoom) {
  Scheduler s(limits(4, 1));
  ASSERT_TRUE(s.submit(1, 8, 16));
  advance(s, s.plan());
  s.pause(1);
  EXPECT_TRUE(s.plan().empty());
  ASSERT_TRUE(s.submit(2, 8, 12));
  auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].id, 2U);
  s.resume(1);  // in the middle of a step
  advance(s, plan, {2});
  plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].id, 1U);
  EXPECT_EQ(plan.sequences[0].n_tokens, 9U);  // recomputed
  advance(s, plan);
}

TEST(Scheduler, CancellationInAStepFreesTheBlocksWhenItIsOver) {
  Scheduler s(limits(4));
  ASSERT_TRUE(s.submit(1, 8, 16));
  const auto plan = s.plan();
  s.cancel(1);
  EXPECT_FALSE(s.contains(1));
  EXPECT_EQ(s.kv().used(), 2U);
  EXPECT_TRUE(s.balanced());
  s.commit({});
  EXPECT_EQ(s.kv().used(), 0U);
  EXPECT_TRUE(s.balanced());
}

// What the test believes about a sequence.
struct Believed {
  std::uint32_t known, most;
  bool paused = false;
};

void random_walk(std::uint64_t seed, int steps) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
  const std::uint32_t blocks = 4 + below(40);
  const SchedulerLimits l = limits(blocks, 1 + below(6), 1 + below(24));
  Scheduler s(l);
  std::map<SequenceId, Believed> live;
  std::map<SequenceId, int> ends;
  SequenceId next = 1;
  const auto end = [&](SequenceId id) {
    ++ends[id];
    live.erase(id);
  };
  const auto any = [&]() {
    auto it = live.begin();
    std::advance(it, below(live.size()));
    return it->first;
  };

  for (int step = 0; step < steps; ++step) {
    if (below(3) == 0) {
      const std::uint32_t known = 1 + below(30);
      const std::uint32_t most = known + 1 + below(30);
      const SequenceId id = next++;
      const auto ok = s.submit(id, known, most);
      if (ok) {
        live[id] = {known, most};
      } else {
        const bool never = (most + 3) / 4 > blocks;
        ASSERT_EQ(ok.error().code == ErrorCode::insufficient_memory, never) << ok.error().message;
        ASSERT_FALSE(s.contains(id));
      }
    }
    const auto disturb = [&] {
      if (live.empty()) return;
      switch (below(12)) {
        case 0: {
          const SequenceId id = any();
          s.cancel(id);
          end(id);
          break;
        }
        case 1:
        case 2: {
          const SequenceId id = any();
          s.pause(id);
          live[id].paused = true;
          break;
        }
        case 3:
        case 4:
        case 5: {
          const SequenceId id = any();
          s.resume(id);
          live[id].paused = false;
          break;
        }
        default:
          break;
      }
      s.cancel(next + 1000);  // unknown
    };
    disturb();
    const StepPlan plan = s.plan(below(32));
    ASSERT_TRUE(s.balanced());
    std::uint32_t total = 0;
    std::set<SequenceId> seen;
    for (const auto& p : plan.sequences) {
      ASSERT_TRUE(seen.insert(p.id).second);
      const auto it = live.find(p.id);
      ASSERT_NE(it, live.end());
      ASSERT_FALSE(it->second.paused);
      ASSERT_GT(p.n_tokens, 0U);
      ASSERT_LE(p.first_position + p.n_tokens, it->second.known);
      ASSERT_EQ(p.want_logits, p.first_position + p.n_tokens == it->second.known);
      ASSERT_GE(s.kv().table(p.id).size() * l.block_size, p.first_position + p.n_tokens);
      total += p.n_tokens;
    }
    ASSERT_EQ(total, plan.n_tokens);
    ASSERT_LE(total, std::max(l.step_tokens, l.max_sequences));
    ASSERT_LE(s.running(), l.max_sequences);
    if (plan.empty()) {
      // Nothing may be startable: all that live are paused.
      for (const auto& [id, b] : live) ASSERT_TRUE(b.paused) << "sequence " << id << " starves";
      continue;
    }
    disturb();
    if (below(40) == 0) {
      for (const SequenceId id : s.abort()) {
        ASSERT_TRUE(live.contains(id));
        end(id);
      }
      for (const auto& p : plan.sequences) ASSERT_FALSE(live.contains(p.id));
    } else {
      std::vector<StepResult> results;
      for (const auto& p : plan.sequences) {
        if (!p.want_logits || !live.contains(p.id)) continue;
        Believed& b = live[p.id];
        const bool over = b.known + 1 == b.most || below(25) == 0;
        results.push_back({p.id, over});
        if (over) {
          end(p.id);
        } else {
          ++b.known;
        }
      }
      s.commit(results);
    }
    ASSERT_TRUE(s.balanced());
    for (const auto& [id, b] : live) ASSERT_TRUE(s.contains(id));
    ASSERT_EQ(s.waiting() + s.running(), live.size());
  }

  // Left alone, everything ends.
  for (auto& [id, b] : live) {
    s.resume(id);
    b.paused = false;
  }
  for (int guard = 0; !live.empty(); ++guard) {
    ASSERT_LT(guard, 100'000) << "does not end";
    const StepPlan plan = s.plan();
    ASSERT_FALSE(plan.empty());
    std::vector<StepResult> results;
    for (const auto& p : plan.sequences) {
      if (!p.want_logits) continue;
      Believed& b = live[p.id];
      const bool over = b.known + 1 == b.most;
      results.push_back({p.id, over});
      if (over) {
        end(p.id);
      } else {
        ++b.known;
      }
    }
    s.commit(results);
  }
  ASSERT_TRUE(s.plan().empty());
  ASSERT_EQ(s.kv().used(), 0U);
  ASSERT_TRUE(s.balanced());
  for (const auto& [id, n] : ends) ASSERT_EQ(n, 1) << "sequence " << id;
}

TEST(Scheduler, RandomWalkKeepsTheBooksAndEndsEachSequenceOnce) {
  // FLYBALL_SEED=n runs one walk, FLYBALL_WALKS=n that many.
  const char* seed = std::getenv("FLYBALL_SEED");
  const char* walks = std::getenv("FLYBALL_WALKS");
  if (seed != nullptr) return random_walk(std::strtoull(seed, nullptr, 10), 2'000);
  const std::uint64_t n = walks != nullptr ? std::strtoull(walks, nullptr, 10) : 60;
  std::cout << "seeds 1 to " << n << ", 500 steps each\n";
  for (std::uint64_t i = 1; i <= n && !testing::Test::HasFatalFailure(); ++i) random_walk(i, 500);
}

}  // namespace
}  // namespace flyball::engine
