// The scheduler as a state machine: what a step holds. scheduler_walk_test.cpp: whatever may happen.
#include "backends/engine/scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

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

// Tokens that no other `kind` shares.
std::vector<Token> letters(std::uint64_t kind, std::uint32_t n) {
  std::vector<Token> tokens(n);
  for (std::uint32_t i = 0; i < n; ++i) tokens[i] = static_cast<Token>(kind * 1000 + i);
  return tokens;
}
// A prompt that shares nothing with another one's.
Result<void> submit(Scheduler& s, SequenceId id, std::uint32_t known, std::uint32_t most) {
  return s.submit({id, "", letters(id, known), most});
}

// Every sequence with logits gets one more token.
void advance(Scheduler& s, const StepPlan& plan, std::set<SequenceId> ended = {}) {
  std::vector<StepResult> results;
  for (const auto& p : plan.sequences)
    if (p.want_logits) results.push_back({.id = p.id, .ended = ended.contains(p.id), .token = 7});
  s.commit(results);
}

// Does what advance() does, with so many forced tokens behind each.
void advance_forced(Scheduler& s, const StepPlan& plan, std::size_t forced) {
  std::vector<StepResult> results;
  for (const auto& p : plan.sequences)
    if (p.want_logits) results.push_back({.id = p.id, .token = 7, .forced = std::vector<Token>(forced, 8)});
  s.commit(results);
}

TEST(Scheduler, ComputesForcedTokensTogetherWithinTheTimeOfAPartOfAPrompt) {
  Scheduler s(limits(100, 4, 40));
  ASSERT_TRUE(submit(s, 1, 4, 90));
  advance_forced(s, s.plan(), 9);
  StepBudget budget = token_budget(40);
  budget.part = 6;
  auto plan = s.plan(budget);
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].first_position, 4U);
  EXPECT_EQ(plan.sequences[0].n_tokens, 6U) << "its own token, and five more";
  EXPECT_FALSE(plan.sequences[0].want_logits);
  EXPECT_EQ(plan.work.tokens, 6U);
  EXPECT_EQ(plan.work.pairs, 5U + 6 + 7 + 8 + 9 + 10);
  EXPECT_EQ(plan.work.reads, 10U);
  advance(s, plan);
  budget.part = 0;
  plan = s.plan(budget);
  EXPECT_EQ(plan.sequences[0].n_tokens, 1U) << "a decode goes on whatever the budget is";
  advance(s, plan);
  plan = s.plan();
  EXPECT_EQ(plan.sequences[0].n_tokens, 3U);
  EXPECT_TRUE(plan.sequences[0].want_logits);
  advance(s, plan, {1});
  EXPECT_TRUE(s.balanced());
}

TEST(Scheduler, SharesAStepEvenlyAmongForcedTokens) {
  Scheduler s(limits(100, 4, 12));
  for (SequenceId id = 1; id <= 3; ++id) ASSERT_TRUE(submit(s, id, 2, 60));
  const std::vector<std::size_t> forced = {20, 1, 20};
  std::vector<StepResult> results;
  for (const auto& p : s.plan().sequences)
    results.push_back({.id = p.id, .token = 7, .forced = std::vector<Token>(forced[p.id - 1], 8)});
  s.commit(results);
  std::vector<std::uint32_t> n;
  for (const auto& p : s.plan().sequences) n.push_back(p.n_tokens);
  EXPECT_EQ(n, (std::vector<std::uint32_t>{5, 2, 5})) << "what one leaves is shared, too";
}

// Decodes with forced tokens, and a prompt that came after them.
TEST(Scheduler, APromptIsInEachStepBesideForcedTokens) {
  Scheduler s(limits(400, 10, 64));
  for (SequenceId id = 1; id <= 9; ++id) ASSERT_TRUE(submit(s, id, 2, 1'600));
  advance_forced(s, s.plan(), 32);
  ASSERT_TRUE(submit(s, 10, 100, 110));
  bool forced = false;
  for (std::uint32_t left = 100; left > 0;) {
    const auto plan = s.plan();
    ASSERT_EQ(plan.sequences.size(), 10U);
    ASSERT_EQ(plan.sequences.back().id, 10U);
    ASSERT_GE(plan.sequences.back().n_tokens, std::min(left, 16U));
    for (std::size_t i = 0; i < 9; ++i) forced = forced || plan.sequences[i].n_tokens > 1;
    left -= plan.sequences.back().n_tokens;
    advance_forced(s, plan, left > 0 ? 32 : 0);
  }
  EXPECT_TRUE(forced);
}

TEST(Scheduler, ForcedTokensGoOnWithTheRoomThatIsFree) {
  Scheduler s(limits(8, 2, 64));
  ASSERT_TRUE(submit(s, 1, 15, 17));
  ASSERT_TRUE(submit(s, 2, 4, 30));
  auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 2U);
  std::vector<StepResult> results = {{.id = 1, .token = 7},
                                     {.id = 2, .token = 7, .forced = std::vector<Token>(20, 8)}};
  s.commit(results);
  plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 2U);
  EXPECT_EQ(plan.sequences[1].n_tokens, 12U) << "four blocks are left to it, of seven that it needs";
  EXPECT_FALSE(plan.sequences[1].want_logits);
  advance(s, plan, {1});
  plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].first_position, 16U);
  EXPECT_EQ(plan.sequences[0].n_tokens, 9U);
  EXPECT_TRUE(plan.sequences[0].want_logits);
  advance(s, plan, {2});
  EXPECT_EQ(s.preemptions(), 0U);
  EXPECT_TRUE(s.balanced());
}

TEST(Scheduler, ForcedTokensTakeNobodysRoom) {
  Scheduler s(limits(8, 2, 64));
  ASSERT_TRUE(submit(s, 1, 4, 30));
  ASSERT_TRUE(submit(s, 2, 14, 20));
  auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 2U);
  std::vector<StepResult> results = {{.id = 1, .token = 7, .forced = std::vector<Token>(20, 8)},
                                     {.id = 2, .token = 7}};
  s.commit(results);
  plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 2U);
  EXPECT_EQ(plan.sequences[0].n_tokens, 12U);
  EXPECT_EQ(s.preemptions(), 0U);
  advance(s, plan);
  EXPECT_TRUE(s.balanced());
}

TEST(Scheduler, PrefillsAPromptInChunks) {
  Scheduler s(limits(100));
  ASSERT_TRUE(submit(s, 1, 40, 50));
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
  ASSERT_TRUE(submit(s, 1, 3, 20));
  advance(s, s.plan());
  ASSERT_TRUE(submit(s, 2, 30, 40));
  ASSERT_TRUE(submit(s, 3, 5, 40));
  auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 2U);
  EXPECT_EQ(plan.sequences[0].id, 1U);
  EXPECT_EQ(plan.sequences[0].n_tokens, 1U);
  EXPECT_EQ(plan.sequences[1].id, 3U);  // whole, and alone: the longer one is passed over
  EXPECT_EQ(plan.sequences[1].n_tokens, 5U);
  advance(s, plan);
  ASSERT_TRUE(submit(s, 4, 5, 40));
  plan = s.plan();  // again
  ASSERT_EQ(plan.sequences.size(), 3U);
  EXPECT_EQ(plan.sequences[2].id, 4U);
  EXPECT_EQ(plan.sequences[2].n_tokens, 5U);
  advance(s, plan);
  plan = s.plan();  // three decodes, and the longer prompt has what is left
  ASSERT_EQ(plan.sequences.size(), 4U);
  EXPECT_EQ(plan.sequences[3].id, 2U);
  EXPECT_EQ(plan.sequences[3].n_tokens, 13U);
  advance(s, plan);
}

TEST(Scheduler, ASmallerBudgetMakesSmallerChunksAndKeepsEveryDecode) {
  Scheduler s(limits(100));  // 4 sequences, 16 tokens
  for (SequenceId id = 1; id <= 3; ++id) ASSERT_TRUE(submit(s, id, 3, 20));
  advance(s, s.plan());
  ASSERT_TRUE(submit(s, 4, 30, 40));
  for (const auto& [budget, n_tokens] : {std::pair{1U, 4U}, std::pair{7U, 7U}, std::pair{99U, 16U}}) {
    const auto plan = s.plan(token_budget(budget));
    EXPECT_EQ(plan.sequences.size(), 4U) << budget;
    EXPECT_EQ(plan.work.tokens, n_tokens) << budget;
    advance(s, plan);
  }
}

// A step, a token, and a pair of tokens cost something each.
TEST(Scheduler, LateChunksOfALongPromptAreSmallerAndTakeTheSameTime) {
  SchedulerLimits l = limits(1000);
  l.step_tokens = 256;
  Scheduler s(l);
  ASSERT_TRUE(submit(s, 1, 3000, 3001));
  const StepBudget budget{{3, 0.3, 0.001}, 30, 20, 150, false};
  std::uint32_t first = 0, last = 0;
  for (auto plan = s.plan(budget);; plan = s.plan(budget)) {
    if (plan.sequences[0].want_logits) break;
    EXPECT_LE(budget.cost.of(plan.work), budget.part);
    EXPECT_GT(budget.cost.of(plan.work), 0.7 * budget.part);
    if (first == 0) first = plan.work.tokens;
    last = plan.work.tokens;
    advance(s, plan);
  }
  EXPECT_GT(first, 40U);
  EXPECT_LT(last, 8U);
}

TEST(Scheduler, PromptsAdvanceWhateverTheyCost) {
  Scheduler s(limits(1000));
  ASSERT_TRUE(submit(s, 1, 20, 30));
  ASSERT_TRUE(submit(s, 2, 3, 30));
  const StepBudget tight{{100, 50, 10}, 1, 1, 1, false};
  auto plan = s.plan(tight);
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].id, 2U);
  EXPECT_EQ(plan.sequences[0].n_tokens, 1U);
  for (int i = 0; i < 200 && !plan.sequences.back().want_logits; ++i) {
    advance(s, plan);
    plan = s.plan(tight);
  }
  advance(s, plan);
  EXPECT_GT(s.tokens(2).size(), 3U);
  for (int i = 0; i < 200 && s.tokens(1).size() == 20; ++i) advance(s, s.plan(tight), {2});
  EXPECT_EQ(s.tokens(1).size(), 21U);
}

// Long steps only where nobody waits for their end, or where an arrival can end them.
TEST(Scheduler, AStepIsLongOnlyWhereNobodyWaitsForItsEnd) {
  SchedulerLimits l = limits(1000, 2, 64);
  const auto part = [](const StepPlan& plan) { return plan.work.tokens; };
  const StepBudget fixed{{0, 1, 0}, 16, 8, 64, false}, stoppable{{0, 1, 0}, 16, 8, 64, true};
  {
    Scheduler s(l);
    ASSERT_TRUE(submit(s, 1, 1000, 1010));
    for (int i = 0; i < 40; ++i) {
      const auto plan = s.plan(fixed);
      EXPECT_EQ(part(plan), 8U);
      EXPECT_FALSE(plan.may_stop);
      advance(s, plan);
    }
    ASSERT_TRUE(submit(s, 2, 1000, 1010));  // no slot is free
    const auto plan = s.plan(fixed);
    EXPECT_EQ(part(plan), 64U);
    EXPECT_FALSE(plan.may_stop) << "who arrives now could not begin";
    advance(s, plan);
  }
  Scheduler s(l);
  ASSERT_TRUE(submit(s, 1, 2000, 2010));
  const auto calm = [&] {
    int steps = 0;
    for (auto plan = s.plan(stoppable);; plan = s.plan(stoppable)) {
      if (plan.may_stop) {
        EXPECT_EQ(part(plan), 64U);
        return steps;
      }
      EXPECT_EQ(part(plan), 8U);
      ++steps;
      advance(s, plan);
    }
  };
  EXPECT_EQ(calm(), 4 * 64 / 8);
  const std::uint32_t at = 4 * 64;  // what is voided at most is little beside what was computed before
  s.retract();
  EXPECT_TRUE(s.balanced());
  auto plan = s.plan(stoppable);
  EXPECT_EQ(plan.sequences[0].first_position, at) << "what was given up is computed again";
  EXPECT_EQ(part(plan), 8U) << "and not given up a second time soon";
  advance(s, plan);
  EXPECT_GT(calm(), 4);
  ASSERT_TRUE(submit(s, 2, 5, 100));  // arrives in the step, and stops it
  s.retract();
  plan = s.plan(stoppable);
  EXPECT_EQ(plan.sequences[0].id, 2U);
  EXPECT_TRUE(plan.sequences[0].want_logits);
  advance(s, plan);
  for (int i = 0; i < 40; ++i) {  // a stream waits for each step's end
    plan = s.plan(stoppable);
    EXPECT_EQ(part(plan), 8U);
    EXPECT_FALSE(plan.may_stop);
    advance(s, plan);
  }
}

// Late in a prompt a step of so many tokens costs more, and what it may void is still at most a part of what
// was done before.
TEST(Scheduler, WhatAnArrivalVoidsIsLittleWhereverAPromptIs) {
  const StepBudget budget{{0, 1, 0.05}, 64, 8, 1e9, true};
  Scheduler s(limits(10'000, 2, 64));
  ASSERT_TRUE(submit(s, 1, 20'000, 20'010));
  double since_arrival = 0;
  std::uint32_t stoppable = 0;
  for (SequenceId arrival = 2; s.tokens(1).size() == 20'000 && arrival < 300;) {
    const auto plan = s.plan(budget);
    const double cost = budget.cost.of(plan.work);
    if (!plan.may_stop) {
      since_arrival += cost;
      advance(s, plan);
      continue;
    }
    EXPECT_LE(cost, since_arrival / 4 * 1.1) << "at " << plan.sequences[0].first_position;
    ++stoppable;
    s.retract();
    ASSERT_TRUE(submit(s, arrival, 1, 2));
    while (s.contains(arrival)) {
      const auto own = s.plan(budget);
      advance(s, own, {arrival});
    }
    ++arrival;
    since_arrival = 0;
  }
  EXPECT_GT(stoppable, 10U);
}

// Steps without work are no calm: nothing was computed that would outweigh what is voided.
TEST(Scheduler, EmptyPlansAreNoCalm) {
  const StepBudget budget{{1, 1, 0}, 16, 8, 64, true};
  Scheduler s(limits(1000, 2, 64));
  ASSERT_TRUE(submit(s, 1, 1000, 1010));
  s.pause(1);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(s.plan(budget).empty());
  s.resume(1);
  EXPECT_FALSE(s.plan(budget).may_stop);
}

// Giving up a prompt's last step would take a first token from one who waits for it.
TEST(Scheduler, AStepThatYieldsATokenIsNotGivenUp) {
  const StepBudget budget{{0, 1, 0}, 16, 8, 64, true};
  for (std::uint32_t length = 330; length < 470; ++length) {
    SCOPED_TRACE(length);
    Scheduler s(limits(1000, 2, 64));
    ASSERT_TRUE(submit(s, 1, length, length + 10));
    std::uint32_t computed = 0, stoppable = 0;
    for (bool done = false; !done;) {
      const auto plan = s.plan(budget);
      ASSERT_EQ(plan.sequences.size(), 1U);
      done = plan.sequences[0].want_logits;
      EXPECT_FALSE(done && plan.may_stop);
      EXPECT_TRUE(plan.may_stop || plan.work.tokens <= 16) << plan.work.tokens;
      stoppable += plan.may_stop ? 1 : 0;
      computed += plan.work.tokens;
      advance(s, plan);
    }
    EXPECT_EQ(computed, length);
    EXPECT_GT(stoppable, 0U);
  }
}

TEST(Scheduler, AStepGivenUpKeepsItsCopiesAndFreesWhoWasCancelled) {
  Scheduler s(limits(100, 4, 64));
  ASSERT_TRUE(s.submit({1, "", letters(1, 22), 40}));
  advance(s, s.plan());
  ASSERT_TRUE(s.submit({2, "", letters(1, 22), 40}));
  ASSERT_TRUE(submit(s, 3, 30, 40));
  const auto plan = s.plan();
  ASSERT_EQ(plan.copies.size(), 1U);
  s.cancel(3);
  s.retract();
  EXPECT_TRUE(s.balanced());
  EXPECT_EQ(s.running(), 2U);
  const auto again = s.plan();
  ASSERT_EQ(again.sequences.size(), 2U);
  EXPECT_TRUE(again.copies.empty());
  EXPECT_EQ(again.sequences[1].first_position, 21U);
  advance(s, again);
}

TEST(Scheduler, NobodyOvertakesTheFirstInTheQueue) {
  Scheduler s(limits(8));
  ASSERT_TRUE(submit(s, 1, 20, 24));  // 5 of 8 blocks
  advance(s, s.plan());
  ASSERT_TRUE(submit(s, 2, 16, 20));  // needs 4: has to wait
  ASSERT_TRUE(submit(s, 3, 1, 2));    // would fit
  const auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].id, 1U);
  EXPECT_EQ(s.waiting(), 2U);
  advance(s, plan);
}

TEST(Scheduler, RefusesWhatCanNeverFitAndWhatTheQueueCannotHold) {
  Scheduler s(limits(4, 1));
  const auto never = submit(s, 1, 10, 17);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().code, ErrorCode::insufficient_memory);
  EXPECT_NE(never.error().message.find("needs 5 KV blocks; the engine has 4"), std::string::npos);
  for (SequenceId id = 2; id < 2 + 9; ++id) ASSERT_TRUE(submit(s, id, 1, 2));  // one may run, eight wait
  const auto full = submit(s, 50, 1, 2);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::overloaded);
}

TEST(Scheduler, PreemptsTheLatestAndRecomputesIt) {
  Scheduler s(limits(4));
  ASSERT_TRUE(submit(s, 1, 4, 16));
  ASSERT_TRUE(submit(s, 2, 3, 12));
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
  ASSERT_TRUE(submit(s, 1, 8, 16));
  advance(s, s.plan());
  s.pause(1);
  EXPECT_TRUE(s.plan().empty());
  ASSERT_TRUE(submit(s, 2, 8, 12));
  auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].id, 2U);
  s.resume(1);  // in the middle of a step
  advance(s, plan, {2});
  plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].id, 1U);
  EXPECT_EQ(plan.sequences[0].first_position, 8U);  // what it had is still there
  EXPECT_EQ(plan.sequences[0].n_tokens, 1U);
  advance(s, plan);
}

TEST(Scheduler, CancellationInAStepFreesTheBlocksWhenItIsOver) {
  Scheduler s(limits(4));
  ASSERT_TRUE(submit(s, 1, 8, 16));
  const auto plan = s.plan();
  s.cancel(1);
  EXPECT_FALSE(s.contains(1));
  EXPECT_EQ(s.kv().used(), 2U);
  EXPECT_TRUE(s.balanced());
  s.commit({});
  EXPECT_EQ(s.kv().used(), 0U);
  EXPECT_TRUE(s.balanced());
}

TEST(Scheduler, APrefixIsComputedOnceAndReadByAll) {
  Scheduler s(limits(100, 4, 64));
  const std::vector<Token> prompt = letters(1, 22);  // five blocks and a half
  for (SequenceId id = 1; id <= 4; ++id) ASSERT_TRUE(s.submit({id, "app", prompt, 40}));
  auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);  // three wait for the first one's
  EXPECT_EQ(plan.work.tokens, 22U);
  advance(s, plan);
  plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 4U);
  EXPECT_EQ(plan.work.tokens, 4U);  // the first one's second token, and each other one's last of the prompt
  ASSERT_EQ(plan.copies.size(), 3U);
  for (const PlannedCopy& copy : plan.copies) EXPECT_EQ(copy.from, s.kv().table(1)[5]);
  for (SequenceId id = 2; id <= 4; ++id) {
    EXPECT_TRUE(std::ranges::equal(s.kv().table(id).first(5), s.kv().table(1).first(5)));
    EXPECT_NE(s.kv().table(id)[5], s.kv().table(1)[5]);
  }
  EXPECT_EQ(s.kv().used(), 5U + 4);
  advance(s, plan, {1, 2, 3, 4});
  EXPECT_EQ(s.kv().used(), 0U);
  EXPECT_TRUE(s.balanced());
}

// Who waits for a leader is not overtaken: the slot and the blocks it will need are not given away.
TEST(Scheduler, AFollowersSlotIsKept) {
  Scheduler s(limits(100, 2, 8));
  ASSERT_TRUE(s.submit({1, "", letters(1, 40), 60}));
  ASSERT_TRUE(s.submit({2, "", letters(1, 40), 60}));
  ASSERT_TRUE(submit(s, 3, 16, 20));
  for (int i = 0; i < 5; ++i) {
    const auto plan = s.plan();
    ASSERT_EQ(plan.sequences.size(), 1U);
    EXPECT_EQ(plan.sequences[0].id, 1U);
    advance(s, plan);
  }
  const auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 2U);
  EXPECT_EQ(plan.sequences[1].id, 2U);
  EXPECT_EQ(plan.sequences[1].first_position, 39U);
  advance(s, plan);
}

TEST(Scheduler, AFollowersBlocksAreKept) {
  Scheduler s(limits(16, 4, 8));
  std::vector<Token> longer = letters(1, 40);
  const std::vector<Token> tail = letters(2, 8);
  longer.insert(longer.end(), tail.begin(), tail.end());
  ASSERT_TRUE(s.submit({1, "", letters(1, 40), 41}));
  ASSERT_TRUE(s.submit({2, "", longer, 49}));
  ASSERT_TRUE(submit(s, 3, 16, 17));  // would fit beside the first one, but not beside both
  std::vector<SequenceId> order;
  for (int i = 0; i < 20 && (s.contains(1) || s.contains(2) || s.contains(3)); ++i) {
    const auto plan = s.plan();
    std::set<SequenceId> ended;
    for (const auto& p : plan.sequences) {
      if (!std::ranges::count(order, p.id)) order.push_back(p.id);
      ended.insert(p.id);
    }
    advance(s, plan, ended);
  }
  EXPECT_EQ(order, (std::vector<SequenceId>{1, 2, 3}));
}

TEST(Scheduler, AnotherOwnerFindsNothing) {
  Scheduler s(limits(100, 4, 64));
  ASSERT_TRUE(s.submit({1, "mine", letters(1, 22), 40}));
  advance(s, s.plan(), {1});
  ASSERT_TRUE(s.submit({2, "theirs", letters(1, 22), 40}));
  ASSERT_TRUE(s.submit({3, "mine", letters(1, 22), 40}));
  const auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 2U);
  EXPECT_EQ(plan.sequences[0].id, 3U);
  EXPECT_EQ(plan.sequences[0].first_position, 20U);
  EXPECT_EQ(plan.sequences[1].id, 2U);
  EXPECT_EQ(plan.sequences[1].first_position, 0U);
  advance(s, plan);
}

TEST(Scheduler, AtLeastOneTokenIsComputed) {
  Scheduler s(limits(100, 4, 64));
  ASSERT_TRUE(s.submit({1, "", letters(1, 16), 40}));
  advance(s, s.plan(), {1});
  ASSERT_TRUE(s.submit({2, "", letters(1, 16), 40}));
  const auto plan = s.plan();
  EXPECT_EQ(plan.sequences[0].first_position, 12U);
  EXPECT_TRUE(plan.sequences[0].want_logits);
  advance(s, plan);
}

TEST(Scheduler, OneBehindOthersLeadsOnlyItsLike) {
  for (const auto place : {config::QueuePlace::usual, config::QueuePlace::behind}) {
    Scheduler s(limits(100, 2, 8));
    ASSERT_TRUE(s.submit({1, "", letters(1, 40), 60, {.place = config::QueuePlace::behind}}));
    advance(s, s.plan());
    ASSERT_TRUE(s.submit({2, "", letters(1, 40), 60, {.place = place}}));
    const auto plan = s.plan();
    ASSERT_FALSE(plan.sequences.empty());
    const bool waits = place == config::QueuePlace::behind;
    EXPECT_EQ(plan.sequences[0].id, waits ? 1U : 2U);
    EXPECT_EQ(plan.sequences[0].first_position, 8U) << "what is published is taken over";
    advance(s, plan);
    EXPECT_TRUE(s.balanced());
  }
}

TEST(Scheduler, ASpareSequenceGivesItsSlotToWhoeverHasNone) {
  Scheduler s(limits(100, 2, 8));
  const config::RequestSettings behind{.place = config::QueuePlace::behind};
  ASSERT_TRUE(s.submit({1, "", letters(1, 40), 60, behind, 0, 0, /*spare=*/true}));
  advance(s, s.plan());
  for (SequenceId id = 2; id <= 3; ++id) ASSERT_TRUE(submit(s, id, 8, 60));
  for (int i = 0; i < 3; ++i) {
    const auto plan = s.plan();
    for (const auto& planned : plan.sequences) EXPECT_NE(planned.id, 1U);
    advance(s, plan);
  }
  EXPECT_EQ(s.running(), 2U);
  ASSERT_TRUE(s.submit({4, "", letters(4, 8), 60, behind}));
  s.cancel(2);
  for (const auto& planned : s.plan().sequences) EXPECT_NE(planned.id, 1U) << "others have the slots";
  EXPECT_EQ(s.running(), 2U);
  EXPECT_TRUE(s.contains(1)) << "it waits until nobody else does";
  s.retract();
  s.cancel(3);
  s.cancel(4);
  const auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].id, 1U);
  EXPECT_EQ(plan.sequences[0].first_position, 8U) << "what it had computed is there";
  advance(s, plan);
  EXPECT_TRUE(s.balanced());
}

TEST(Scheduler, NobodyWaitsForALeaderThatIsPaused) {
  Scheduler s(limits(100, 4, 8));
  ASSERT_TRUE(s.submit({1, "", letters(1, 40), 50}));
  ASSERT_TRUE(s.submit({2, "", letters(1, 40), 50}));
  auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  advance(s, plan);
  s.pause(1);
  plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].id, 2U);
  EXPECT_EQ(plan.sequences[0].first_position, 8U);
  advance(s, plan);
  // Now both compute the same: the second to come keeps the first one's blocks.
  s.resume(1);
  for (int i = 0; i < 12; ++i) advance(s, s.plan());
  EXPECT_TRUE(std::ranges::equal(s.kv().table(1).first(10), s.kv().table(2).first(10)));
  EXPECT_TRUE(s.balanced());
}

TEST(Scheduler, WhatMayBeWrongIsNotTakenOver) {
  Scheduler s(limits(100, 4, 64));
  ASSERT_TRUE(s.submit({1, "", letters(1, 22), 40}));
  const auto plan = s.plan();
  s.commit({{{.id = 1, .ended = true, .distrusted = true}}});
  EXPECT_EQ(s.kv().kept(), 0U);
  ASSERT_TRUE(s.submit({2, "", letters(1, 22), 40}));
  EXPECT_EQ(s.plan().sequences[0].first_position, 0U);
}

TEST(Scheduler, WhatMayBeWrongIsNotCopiedFromWhoStillHoldsIt) {
  Scheduler s(limits(100, 4, 64));
  ASSERT_TRUE(s.submit({1, "", letters(1, 22), 40}));
  advance(s, s.plan());
  ASSERT_TRUE(s.submit({2, "", letters(1, 22), 40}));
  advance(s, s.plan());
  ASSERT_TRUE(std::ranges::equal(s.kv().table(1).first(1), s.kv().table(2).first(1)));
  s.pause(2);
  s.plan();
  s.commit({{{.id = 1, .ended = true, .distrusted = true}}});
  ASSERT_FALSE(s.kv().table(2).empty());
  ASSERT_TRUE(s.submit({3, "", letters(1, 22), 40}));
  const auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].first_position, 0U);
  EXPECT_TRUE(plan.copies.empty());
}

// ---- blocks that are kept outside of the device's memory --------------------------------------------------

struct Outside final : ColdBlocks {
  bool holds(const kv::ChainKey& key) const override { return keys.contains(key); }
  std::set<kv::ChainKey> keys;
};
SchedulerLimits keyed_limits(std::uint32_t blocks) {
  SchedulerLimits l = limits(blocks);
  l.keyed = kv::Keyed{kv::space_key("test"), 2};
  return l;
}
// Runs a sequence of 13 known tokens to its end, so that three blocks are kept.
void run_one(Scheduler& s, SequenceId id, std::uint64_t kind, const std::string& owner = "") {
  ASSERT_TRUE(s.submit({id, owner, letters(kind, 13), 14}));
  for (auto plan = s.plan(); !plan.empty(); plan = s.plan()) advance(s, plan, {id});
}

TEST(Scheduler, WhatIsEvictedIsFoundOutsideByItsTokensAndItsOwner) {
  Outside outside;
  Scheduler s(keyed_limits(4), &outside);
  run_one(s, 1, 7);
  const auto kept = s.kv().keyed_blocks();
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_TRUE(s.take_evicted().empty());
  run_one(s, 2, 8);
  const auto evicted = s.take_evicted();
  ASSERT_EQ(evicted.size(), 3U);
  for (const kv::KeyedBlock& block : evicted) outside.keys.insert(block.key);
  for (const kv::KeyedBlock& block : kept) EXPECT_TRUE(outside.keys.contains(block.key));

  ASSERT_TRUE(s.submit({3, "", letters(7, 13), 14}));
  EXPECT_TRUE(s.plan().empty());
  ASSERT_TRUE(s.restoring());
  const auto next = s.next_restores(2);
  ASSERT_EQ(next.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(next[i].key, kept[i].key);
    EXPECT_EQ(next[i].block, s.kv().table(3)[i]);
  }
  s.restored(3, 2, false);
  EXPECT_TRUE(s.plan().empty());
  s.restored(3, 1, false);
  EXPECT_FALSE(s.restoring());
  auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].first_position, 12U);
  advance(s, plan, {3});

  ASSERT_TRUE(s.submit({4, "another", letters(7, 13), 14}));
  plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].first_position, 0U);
  advance(s, plan, {4});
  EXPECT_TRUE(s.balanced());
}

TEST(Scheduler, WhatCannotBeRestoredIsComputed) {
  Outside outside;
  Scheduler s(keyed_limits(4), &outside);
  run_one(s, 1, 7);
  run_one(s, 2, 8);
  for (const kv::KeyedBlock& block : s.take_evicted()) outside.keys.insert(block.key);
  ASSERT_TRUE(s.submit({3, "", letters(7, 13), 14}));
  ASSERT_TRUE(s.plan().empty());
  s.restored(3, 1, true);
  EXPECT_FALSE(s.restoring());
  const auto plan = s.plan();
  ASSERT_EQ(plan.sequences.size(), 1U);
  EXPECT_EQ(plan.sequences[0].first_position, 4U);
  EXPECT_EQ(plan.sequences[0].n_tokens, 9U);
  advance(s, plan, {3});
  EXPECT_TRUE(s.balanced());
}

TEST(Scheduler, ARestoreIsCancelledAtAnyTime) {
  Outside outside;
  Scheduler s(keyed_limits(4), &outside);
  run_one(s, 1, 7);
  run_one(s, 2, 8);
  for (const kv::KeyedBlock& block : s.take_evicted()) outside.keys.insert(block.key);
  ASSERT_TRUE(s.submit({3, "", letters(7, 13), 14}));
  ASSERT_TRUE(s.plan().empty());
  s.restored(3, 1, false);
  s.cancel(3);
  EXPECT_FALSE(s.restoring());
  EXPECT_TRUE(s.next_restores(8).empty());
  EXPECT_TRUE(s.plan().empty());
  EXPECT_EQ(s.kv().used(), 0U);
  EXPECT_TRUE(s.balanced());
}

TEST(Scheduler, ShortRunsAreNotWorthKeepingOutside) {
  Outside outside;
  Scheduler s(keyed_limits(8), &outside);
  ASSERT_TRUE(s.submit({1, "", letters(7, 6), 7}));
  for (auto plan = s.plan(); !plan.empty(); plan = s.plan()) advance(s, plan, {1});
  EXPECT_EQ(s.kv().kept(), 1U);
  EXPECT_TRUE(s.kv().keyed_blocks().empty());
  run_one(s, 2, 7);  // longer: its beginning is worth it, too
  EXPECT_EQ(s.kv().keyed_blocks().size(), 3U);
}

}  // namespace
}  // namespace flyball::engine
