// The daemon's queue in front of the engine's scheduler, as they stand in a running daemon: both hold to the
// contract of backends/fairness.hpp. Random arrivals, seeds printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backends/engine/scheduler.hpp"
#include "backends/fairness.hpp"
#include "daemon/route/fair_queue.hpp"

namespace flyball {
namespace {

TEST(FairnessContract, SaysWhoIsAGuestAndWhoYields) {
  EXPECT_TRUE(is_guest(0, 0)) << "a newcomer always is one";
  EXPECT_TRUE(is_guest(1, 2) && is_guest(3, 6) && is_guest(3, 7));
  EXPECT_FALSE(is_guest(1, 1) || is_guest(3, 5));
  EXPECT_FALSE(is_guest(1U << 31U, 1)) << "twice so many is beyond 32 bits";
  EXPECT_FALSE(yields_place(0) || yields_place(1));
  EXPECT_TRUE(yields_place(2) && yields_place(9));
}

TEST(FairnessContract, SaysToWhomTheEngineHasAPlace) {
  EXPECT_EQ(handover(4, 2, false, true), Handover::all);
  EXPECT_EQ(handover(4, 3, false, false), Handover::all);
  EXPECT_EQ(handover(4, 3, false, true), Handover::newcomers) << "the last slot is kept";
  EXPECT_EQ(handover(1, 0, false, true), Handover::all) << "an only slot is not";
  EXPECT_EQ(handover(4, 4, false, true), Handover::none);
  EXPECT_EQ(handover(4, 4, true, true), Handover::newcomers) << "beside all slots";
  EXPECT_EQ(handover(4, 5, true, true), Handover::none) << "one at a time";
}

// Turns of a queue in front of an engine with four slots.
class Line {
 public:
  Line() { queue_.set_slots(4); }
  void add(const std::string& app, bool behind, int n = 1) {
    for (; n > 0; --n) {
      queue_.add(++last_, app, 1, 100, behind);
      names_[last_] = app;
    }
  }
  void end(const std::string& app) {
    const auto at = std::ranges::find(running_, app, [&](FairQueueId id) { return names_.at(id); });
    queue_.remove(*at);
    running_.erase(at);
  }
  std::vector<std::string> turns() {
    std::vector<std::string> out;
    while (const auto id = queue_.next()) {
      running_.push_back(*id);
      out.push_back(names_.at(*id));
    }
    return out;
  }

 private:
  using FairQueueId = route::FairQueue::Id;
  route::FairQueue queue_;
  FairQueueId last_ = 0;
  std::map<FairQueueId, std::string> names_;
  std::vector<FairQueueId> running_;
};

using Turns = std::vector<std::string>;

TEST(FairnessContract, LetsOthersPassThoseBehindAtAFullEngine) {
  Line line;
  line.add("night", true, 9);
  EXPECT_EQ(line.turns(), Turns(4, "night"));
  line.add("chat", false, 5);
  EXPECT_EQ(line.turns(), Turns(3, "chat")) << "a slot is for one of those behind";
  line.end("night");
  EXPECT_EQ(line.turns(), Turns{}) << "two of the night's are there still, and a chat waits";
  line.end("chat");
  EXPECT_EQ(line.turns(), Turns{"chat"});
  for (int i = 0; i < 3; ++i) line.end("night");
  EXPECT_EQ(line.turns(), Turns{"night"}) << "one of those behind has its turn as any other";
}

TEST(FairnessContract, LetsThoseBehindInWhereNobodyElseWaits) {
  Line line;
  line.add("chat", false);
  EXPECT_EQ(line.turns(), Turns{"chat"});
  line.add("night", true, 9);
  EXPECT_EQ(line.turns(), Turns(3, "night"));
}

TEST(FairnessContract, KeepsAnAppsRequestsBehindApartFromItsOthers) {
  Line line;
  line.add("app", true, 9);
  EXPECT_EQ(line.turns().size(), 4U);
  line.add("app", false);
  EXPECT_EQ(line.turns(), Turns{"app"});
}

// One engine, its queue and its scheduler.
class Engine {
 public:
  explicit Engine(std::uint32_t slots) : slots_(slots), scheduler_(limits(slots)) { queue_.set_slots(slots); }

  void arrive(const std::string& app, std::uint32_t prompt, std::uint32_t answer) {
    requests_[++last_] = {app, prompt, answer};
    queue_.add(last_, app, 1, prompt);
    hand_over();
  }
  // Every request that the queue gives a turn goes to the engine at once.
  void hand_over() {
    while (const auto id = queue_.next()) {
      Request& r = requests_.at(*id);
      r.newcomer = presence(r.app) == 0;
      const std::uint32_t before = at_engine();
      ASSERT_TRUE(before < slots_ || (before == slots_ && r.newcomer && one_yields()))
          << "beyond its slots the engine gets a newcomer's request alone, beside an app that yields";
      r.handed_over = true;
      ++presence_[r.app];
      ASSERT_TRUE(
          scheduler_.submit({++handed_over_, r.app, std::vector<Token>(r.prompt, static_cast<Token>(*id)),
                             r.prompt + r.answer}));
      sequences_[handed_over_] = *id;
    }
    double least = -1;
    for (const auto& [id, r] : requests_)
      if (!r.handed_over && (least < 0 || queue_.counter(r.app) < least)) least = queue_.counter(r.app);
    for (const auto& [id, r] : requests_) {
      if (r.handed_over || presence(r.app) > 0 || queue_.counter(r.app) > least + kMostLead) continue;
      ASSERT_TRUE(at_engine() > slots_ || (at_engine() == slots_ && !one_yields()))
          << "a newcomer waits although a slot is free or an app yields: " << r.app;
    }
  }
  void step() {
    const engine::StepPlan plan = scheduler_.plan();
    std::vector<engine::StepResult> results;
    std::vector<std::uint64_t> ended;
    for (const engine::PlannedSequence& p : plan.sequences) {
      const std::uint64_t id = sequences_.at(p.id);
      Request& r = requests_.at(id);
      r.planned = true;
      if (!p.want_logits) continue;
      queue_.generated(id, 1);
      const bool over = --r.answer == 0;
      results.push_back({.id = p.id, .ended = over});
      if (over) ended.push_back(id);
    }
    for (auto& [id, r] : requests_) {
      if (!r.handed_over || !r.newcomer) continue;
      extra_newcomers_ += r.steps == 0 && at_engine() > slots_;
      ASSERT_TRUE(r.planned || ++r.steps < 2) << "a newcomer waits longer than a step: " << r.app;
      r.newcomer = !r.planned;
    }
    if (!plan.empty()) scheduler_.commit(results);
    for (const std::uint64_t id : ended) {
      --presence_[requests_.at(id).app];
      requests_.erase(id);
      queue_.remove(id);
    }
    hand_over();
  }
  bool empty() const { return requests_.empty(); }
  std::uint64_t extra_newcomers() const { return extra_newcomers_; }

 private:
  struct Request {
    std::string app;
    std::uint32_t prompt = 0, answer = 0;
    bool handed_over = false, planned = false;
    bool newcomer = false;  // when it was handed over, and no step has computed it since
    int steps = 0;          // since then
  };
  static engine::SchedulerLimits limits(std::uint32_t slots) {
    engine::SchedulerLimits l;
    l.max_sequences = slots;
    l.kv_blocks = 10'000;
    return l;
  }
  std::uint32_t presence(const std::string& app) const {
    const auto it = presence_.find(app);
    return it == presence_.end() ? 0 : it->second;
  }
  std::uint32_t at_engine() const {
    std::uint32_t sum = 0;
    for (const auto& [app, n] : presence_) sum += n;
    return sum;
  }
  bool one_yields() const {
    return std::ranges::any_of(presence_, [](const auto& app) { return yields_place(app.second); });
  }

  const std::uint32_t slots_;
  route::FairQueue queue_;
  engine::Scheduler scheduler_;
  std::uint64_t last_ = 0, handed_over_ = 0, extra_newcomers_ = 0;
  std::map<std::uint64_t, Request> requests_;              // waiting in the queue, or at the engine
  std::map<std::string, std::uint32_t> presence_;          // of each app
  std::map<engine::SequenceId, std::uint64_t> sequences_;  // the request that each one answers
};

TEST(FairnessContract, QueueAndSchedulerKeepItTogether) {
  std::uint64_t extra_newcomers = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto upto = [&](std::uint32_t n) { return 1 + static_cast<std::uint32_t>(random() % n); };
    Engine engine(1 + static_cast<std::uint32_t>(seed % 6));
    for (int i = 0; i < 600; ++i) {
      if (random() % 3 == 0)  // one app floods
        engine.arrive(random() % 2 == 0 ? "flood" : "app" + std::to_string(random() % 4), upto(8), upto(20));
      engine.step();
      if (HasFatalFailure()) return;
    }
    for (int i = 0; i < 20'000 && !engine.empty(); ++i) engine.step();
    EXPECT_TRUE(engine.empty());
    extra_newcomers += engine.extra_newcomers();
  }
  EXPECT_GT(extra_newcomers, 30U) << "hardly any newcomer met a full engine";
}

}  // namespace
}  // namespace flyball
