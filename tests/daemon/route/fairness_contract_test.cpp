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

// One engine, its queue and its scheduler; a request's id is its sequence's.
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
      ASSERT_TRUE(scheduler_.submit(
          {*id, r.app, std::vector<Token>(r.prompt, static_cast<Token>(*id)), r.prompt + r.answer}));
    }
    double least = -1;
    for (const auto& [id, r] : requests_)
      if (!r.handed_over && (least < 0 || queue_.counter(r.app) < least)) least = queue_.counter(r.app);
    for (const auto& [id, r] : requests_) {
      if (r.handed_over || presence(r.app) > 0 || queue_.counter(r.app) > least + route::FairQueue::kAhead)
        continue;
      ASSERT_TRUE(at_engine() > slots_ || (at_engine() == slots_ && !one_yields()))
          << "a newcomer waits although a slot is free or an app yields: " << r.app;
    }
  }
  void step() {
    const engine::StepPlan plan = scheduler_.plan();
    std::vector<engine::StepResult> results;
    std::vector<std::uint64_t> ended;
    for (const engine::PlannedSequence& p : plan.sequences) {
      Request& r = requests_.at(p.id);
      r.planned = true;
      if (!p.want_logits) continue;
      queue_.generated(p.id, 1);
      const bool over = --r.answer == 0;
      results.push_back({.id = p.id, .ended = over});
      if (over) ended.push_back(p.id);
    }
    for (auto& [id, r] : requests_) {
      if (!r.handed_over) continue;
      ASSERT_TRUE(r.planned || !r.newcomer) << "a newcomer waits for a slot: " << r.app;
      extra_newcomers_ += r.newcomer && at_engine() > slots_;
      r.newcomer = false;
    }
    if (!plan.empty()) scheduler_.commit(results);
    for (const std::uint64_t id : ended) {
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
    bool newcomer = false;  // when it was handed over, and no step since
  };
  static engine::SchedulerLimits limits(std::uint32_t slots) {
    engine::SchedulerLimits l;
    l.max_sequences = slots;
    l.kv_blocks = 10'000;
    return l;
  }
  std::uint32_t presence(const std::string& app) const {
    return static_cast<std::uint32_t>(std::ranges::count_if(
        requests_, [&](const auto& one) { return one.second.handed_over && one.second.app == app; }));
  }
  std::uint32_t at_engine() const {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(requests_, [](const auto& one) { return one.second.handed_over; }));
  }
  bool one_yields() const {
    return std::ranges::any_of(requests_,
                               [&](const auto& one) { return yields_place(presence(one.second.app)); });
  }

  const std::uint32_t slots_;
  route::FairQueue queue_;
  engine::Scheduler scheduler_;
  std::uint64_t last_ = 0, extra_newcomers_ = 0;
  std::map<std::uint64_t, Request> requests_;  // waiting in the queue, or at the engine
};

TEST(FairnessContract, QueueAndSchedulerKeepItTogether) {
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
    if (seed % 6 > 0) EXPECT_GT(engine.extra_newcomers(), 0U) << "nobody came beside a full engine";
  }
}

}  // namespace
}  // namespace flyball
