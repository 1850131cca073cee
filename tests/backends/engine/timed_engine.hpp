// A scheduler over simulated time: steps last what a cost like that of a small model on two cores says, with
// the budget that engines use.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "backends/engine/scheduler.hpp"

namespace flyball::engine::test {

inline constexpr StepCost kCost{8e-3, 0.7e-3, 2e-6};
inline constexpr std::uint32_t kSlots = 8;

class TimedEngine {
 public:
  explicit TimedEngine(std::uint32_t kv_blocks = 100'000, std::uint32_t slots = kSlots)
      : s_(limits(kv_blocks, slots)), budget_(step_budget(kCost, true)) {}

  SequenceId submit(const std::string& owner, std::uint32_t prompt, std::uint32_t answer, double arrived,
                    const config::RequestSettings& settings = {}) {
    const SequenceId id = next_++;
    std::vector<Token> tokens(prompt, static_cast<Token>(id));  // nobody shares a beginning
    EXPECT_TRUE(s_.submit({id, owner, tokens, prompt + answer, settings}));
    open_[id] = {owner, arrived, answer, -1};
    return id;
  }
  // Who has ended in it. Nothing to do: none. A step that may be given up is, when somebody arrives.
  std::vector<SequenceId> step(double arrival = -1) {
    last_ = s_.plan(budget_);
    const StepPlan& plan = last_;
    if (plan.empty()) return {};
    if (plan.may_stop && arrival >= now_ && arrival < now_ + kCost.of(plan.work)) {
      now_ = arrival;
      s_.retract();
      return {};
    }
    longest_ = std::max(longest_, kCost.of(plan.work));
    now_ += kCost.of(plan.work);
    std::vector<StepResult> results;
    std::vector<SequenceId> ended;
    for (const PlannedSequence& p : plan.sequences) {
      Open& o = open_.at(p.id);
      computed_[o.owner] += p.n_tokens;
      if (!p.want_logits) continue;
      if (o.ttft < 0) o.ttft = now_ - o.arrived;
      const bool over = --o.left == 0;
      results.push_back({.id = p.id, .ended = over});
      if (over) ended.push_back(p.id);
    }
    s_.commit(results);
    return ended;
  }
  void pause(SequenceId id) { s_.pause(id); }
  void cancel(SequenceId id) { s_.cancel(id); }
  const StepPlan& last() const { return last_; }  // step that ran last
  const Scheduler& scheduler() const { return s_; }
  double ttft(SequenceId id) const { return open_.at(id).ttft; }
  const std::string& owner(SequenceId id) const { return open_.at(id).owner; }
  double now() const { return now_; }
  double longest_step() const { return longest_; }
  std::uint64_t preemptions() const { return s_.preemptions(); }
  std::uint64_t computed(const std::string& owner) { return computed_[owner]; }

 private:
  static SchedulerLimits limits(std::uint32_t kv_blocks, std::uint32_t slots) {
    SchedulerLimits l;
    l.max_sequences = slots;
    l.kv_blocks = kv_blocks;
    return l;
  }
  struct Open {
    std::string owner;
    double arrived = 0;
    std::uint32_t left = 0;
    double ttft = -1;
  };
  Scheduler s_;
  const StepBudget budget_;
  StepPlan last_;
  SequenceId next_ = 1;
  double now_ = 0, longest_ = 0;
  std::map<SequenceId, Open> open_;
  std::map<std::string, std::uint64_t> computed_;
};

}  // namespace flyball::engine::test
