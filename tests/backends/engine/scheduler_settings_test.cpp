// What the settings of a request's profile change: each one alone, and all of them at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/backends/engine/timed_engine.hpp"

namespace flyball::engine {
namespace {

using config::QueuePlace;
using config::RequestSettings;
using std::chrono::milliseconds;
using test::kCost, test::kSlots, test::TimedEngine;

constexpr double kRounding = 1e-9;
const RequestSettings kStrict{.step_budget = milliseconds(25)};
const RequestSettings kLong{.step_budget = milliseconds(200)};
const RequestSettings kAhead{.place = QueuePlace::ahead};
const RequestSettings kBehind{.place = QueuePlace::behind};

double seconds(milliseconds time) {
  return std::chrono::duration<double>(time).count();
}
double longest_of(TimedEngine& sim, int steps) {
  double longest = 0;
  for (int i = 0; i < steps; ++i) {
    sim.step();
    longest = std::max(longest, kCost.of(sim.last().work));
  }
  return longest;
}

TEST(StepBudgetSetting, OfAStreamBoundsTheStepsThatComputeOthersPrompts) {
  for (const bool strict : {true, false}) {
    TimedEngine sim;
    sim.submit("chat", 20, 1000, 0, strict ? kStrict : RequestSettings{});
    sim.step();
    sim.submit("batch", 2000, 1, 0);
    const double longest = longest_of(sim, 40);
    if (strict) {
      EXPECT_LE(longest, 25e-3 + kRounding);
    } else {
      EXPECT_GT(longest, 30e-3);
    }
    EXPECT_GT(sim.computed("batch"), 300U);
  }
}

TEST(StepBudgetSetting, OfAPromptBoundsTheStepsThatComputeOthersBesideIt) {
  TimedEngine sim;
  sim.submit("batch", 2000, 1, 0);
  sim.submit("chat", 500, 1, 0, kStrict);
  while (sim.computed("chat") < 500) {
    sim.step();
    ASSERT_LE(kCost.of(sim.last().work), 25e-3 + kRounding);
  }
  EXPECT_GT(longest_of(sim, 20), 30e-3) << "it has ended";
}

TEST(StepBudgetSetting, DoesNotShortenTheStepsOfASequenceThatIsAlone) {
  double ttfts[2];
  for (const bool strict : {true, false}) {
    TimedEngine sim;
    const SequenceId id = sim.submit("chat", 3000, 1, 0, strict ? kStrict : RequestSettings{});
    while (sim.ttft(id) < 0) sim.step();
    ttfts[strict ? 1 : 0] = sim.ttft(id);
  }
  EXPECT_EQ(ttfts[0], ttfts[1]);
}

// Seven streams alone take longer than their budget.
TEST(StepBudgetSetting, LeavesAPromptTheLeastTokensOfAStep) {
  TimedEngine sim;
  for (std::uint32_t i = 1; i < kSlots; ++i)
    sim.submit("chat", 20, 1000, 0, {.step_budget = milliseconds(5)});
  for (int i = 0; i < 20; ++i) sim.step();
  const SequenceId id = sim.submit("chat", 160, 1, sim.now());
  for (int i = 0; i < 2 * 160 / static_cast<int>(kLeastStepTokens); ++i) {
    const double streams = kCost.added(40, kSlots);  // at most
    sim.step();
    ASSERT_LE(kCost.of(sim.last().work), kCost.step + streams + kCost.added(0, kLeastStepTokens));
  }
  EXPECT_GT(sim.ttft(id), 0);
}

TEST(StepBudgetSetting, BoundsAGuestsPromptToo) {
  TimedEngine sim;
  for (std::uint32_t i = 1; i < kSlots - 1; ++i) sim.submit("chat", 20, 1000, 0, kStrict);
  for (int i = 0; i < 20; ++i) sim.step();
  sim.submit("guest", 60, 1, sim.now());
  EXPECT_LE(longest_of(sim, 8), 25e-3 + kRounding);
  EXPECT_EQ(sim.computed("guest"), 60U);
}

TEST(StepBudgetSetting, LengthensStepsThatCanStopWhileEverySequenceAsksForLongOnes) {
  TimedEngine sim;
  const SequenceId strictest = sim.submit("batch", 2000, 1, 0, kLong);
  sim.submit("batch", 2000, 1, 0, {.step_budget = milliseconds(300)});
  double longest = 0;
  while (sim.ttft(strictest) < 0) {
    sim.step();
    const double cost = kCost.of(sim.last().work);
    longest = std::max(longest, cost);
    ASSERT_LE(cost, 200e-3 + kRounding);
    ASSERT_TRUE(sim.last().may_stop || cost <= seconds(kLongestStep) + kRounding) << cost;
  }
  EXPECT_GT(longest, seconds(kLongestStep));
  sim.submit("chat", 20, 1000, sim.now());
  EXPECT_LE(longest_of(sim, 20), kCost.of(StepWork::of(0, kShortPrompt)) + kRounding);
}

TEST(StepBudgetSetting, LengthensNoStepThatAnArrivalHasToWaitFor) {
  TimedEngine sim;
  const RequestSettings throughput{.step_budget = milliseconds(300)};
  sim.submit("batch", 20, 1000, 0, throughput);
  sim.step();
  sim.submit("batch", 2000, 1, 0, throughput);
  EXPECT_LE(longest_of(sim, 40), step_budget(kCost, true).part + kRounding);
  EXPECT_GT(sim.computed("batch"), 300U);
}

TEST(StepBudgetSetting, LengthensNoneWhileOneWithoutALongBudgetWaitsForASlot) {
  for (const bool waits : {true, false}) {
    TimedEngine sim(190);  // the first leaves room for no other
    sim.submit("batch", 3000, 1, 0, {.step_budget = milliseconds(200)});
    if (waits) sim.submit("batch", 20, 1, 0);
    double longest = 0;
    while (sim.computed("batch") < 2800) longest = std::max(longest, longest_of(sim, 1));
    if (waits) {
      EXPECT_LE(longest, seconds(kLongestStep) + kRounding);
    } else {
      EXPECT_GT(longest, seconds(kLongestStep));
    }
  }
}

TEST(StepBudgetSetting, UpToTheLongestStepLengthensNone) {
  const StepBudget usual = step_budget({1e-3, 5e-6, 4e-9}, false);
  AskedBudgets asked;
  asked.add(kLongestStep);
  asked.add(milliseconds(20));
  const StepBudget budget = step_budget(usual, asked);
  EXPECT_EQ(budget.part, usual.part);
  EXPECT_EQ(budget.whole, usual.whole);
  EXPECT_EQ(budget.most, 20e-3);
}

TEST(PlaceSetting, OrdersThePromptsOfAStep) {
  TimedEngine sim;
  const SequenceId behind = sim.submit("app", 200, 1, 0, kBehind);
  const SequenceId usual = sim.submit("app", 300, 1, 0);
  const SequenceId ahead = sim.submit("app", 400, 1, 0, kAhead);
  while (sim.ttft(behind) < 0) sim.step();
  EXPECT_LT(sim.ttft(ahead), sim.ttft(usual));
  EXPECT_LT(sim.ttft(usual), sim.ttft(behind));
}

TEST(PlaceSetting, OrdersTheSequencesThatWaitForASlot) {
  TimedEngine sim(100'000, 1);
  sim.submit("app", 20, 10, 0);
  sim.step();
  const SequenceId behind = sim.submit("app", 20, 4, 0, kBehind);
  const SequenceId usual = sim.submit("app", 20, 4, 0);
  const SequenceId ahead = sim.submit("app", 20, 4, 0, kAhead);
  while (sim.ttft(behind) < 0) sim.step();
  EXPECT_LT(sim.ttft(ahead), sim.ttft(usual));
  EXPECT_LT(sim.ttft(usual), sim.ttft(behind));
}

// A chat's answer beside a night job that has prompts to compute and answers to decode.
double chat_beside(std::uint32_t night, const config::RequestSettings& settings) {
  TimedEngine sim;
  for (std::uint32_t i = 0; i < night; ++i) sim.submit("night", 300 + 40 * i, 400, 0, settings);
  for (int i = 0; i < 40; ++i) sim.step();
  const double came = sim.now();
  const SequenceId chat = sim.submit("chat", 60, 100, came);
  for (;;)
    if (const auto ended = sim.step(came); std::ranges::find(ended, chat) != ended.end())
      return sim.now() - came;
}

// An app with a single prompt behind does not wait for all prompts behind of another app.
TEST(SequencesBehind, GoAmongThemselvesByWhatTheirAppHas) {
  TimedEngine sim;
  std::vector<SequenceId> many;
  for (int i = 0; i < 4; ++i) many.push_back(sim.submit("many", 500, 4, 0, kBehind));
  const SequenceId one = sim.submit("one", 600, 4, 0, kBehind);
  while (sim.ttft(one) < 0) sim.step();
  EXPECT_LE(std::ranges::count_if(many, [&](SequenceId id) { return sim.ttft(id) >= 0; }), 1);
}

TEST(PlaceSetting, BehindAddsItsShareToTheStepsOfOthers) {
  const double alone = chat_beside(0, kBehind), beside = chat_beside(4, kBehind);
  EXPECT_LT(beside, alone * (1 + kBehindShare) + 0.15) << "and the step that it finds";
  EXPECT_GT(chat_beside(4, {}), 1.3 * alone) << "in turn they share every step";
}

TEST(PlaceSetting, BehindNeverStandsStillBesideAFlood) {
  for (const std::uint32_t prompt : {30U, 900U}) {
    TimedEngine sim;
    const auto flood = [&] { sim.submit("flood", prompt, 20, sim.now(), kAhead); };
    for (int i = 0; i < 6; ++i) flood();
    sim.submit("night", 500, 30, 0, kBehind);
    bool over = false;
    while (!over && sim.now() < 500)
      for (const SequenceId id : sim.step()) {
        over = over || sim.owner(id) == "night";
        if (sim.owner(id) == "flood") flood();
      }
    EXPECT_TRUE(over) << prompt;
    const double spent = kCost.token * 530 + kCost.pair * 530 * 265;
    EXPECT_GT(sim.now(), spent / kBehindShare / 2) << "it has its share, and no more";
  }
}

// A step that reads weights for 8 ms takes hardly longer for another token.
TEST(PlaceSetting, BehindDecodesInEveryStepWhereATokenCostsNothing) {
  constexpr StepCost kReadsWeights{8e-3, 1e-5, 1e-9};
  SchedulerLimits limits;
  limits.kv_blocks = 1000;
  Scheduler s(limits);
  const StepBudget budget = step_budget(kReadsWeights, false);
  for (SequenceId id = 1; id <= 4; ++id)
    ASSERT_TRUE(s.submit({id,
                          id == 1 ? "chat" : "night",
                          std::vector<Token>(20, static_cast<Token>(id)),
                          200,
                          {.place = id == 1 ? QueuePlace::usual : QueuePlace::behind}}));
  std::size_t decoded = 0;
  for (int i = 0; i < 100; ++i) {
    const StepPlan plan = s.plan(budget);
    std::vector<StepResult> results;
    for (const PlannedSequence& p : plan.sequences)
      if (p.want_logits) results.push_back({.id = p.id});
    if (i >= 50) decoded += results.size();
    s.commit(results);
  }
  EXPECT_EQ(decoded, 200U);
}

TEST(PlaceSetting, BehindGivesUpItsSlotsButOne) {
  TimedEngine sim;
  for (std::uint32_t i = 0; i < kSlots; ++i) sim.submit("night", 20, 300, 0, kBehind);
  for (int i = 0; i < 10; ++i) sim.step();
  std::vector<SequenceId> chats;
  for (std::uint32_t i = 0; i < kSlots; ++i) chats.push_back(sim.submit("chat", 20, 300, sim.now()));
  for (int i = 0; i < 12; ++i) sim.step();
  for (const SequenceId id : chats) EXPECT_EQ(sim.ttft(id) > 0, id != chats.back()) << id;
  EXPECT_EQ(sim.scheduler().running(), kSlots);
  EXPECT_EQ(sim.scheduler().preemptions(), kSlots - 1);
}

TEST(PlaceSetting, BehindGivesUpAnOnlySlot) {
  TimedEngine sim(100'000, 1);
  const SequenceId night = sim.submit("night", 20, 300, 0, kBehind);
  for (int i = 0; i < 10; ++i) sim.step();
  const SequenceId chat = sim.submit("chat", 20, 8, sim.now());
  sim.step();
  EXPECT_GT(sim.ttft(chat), 0);
  std::vector<SequenceId> ended;
  while (ended.size() < 2)
    for (const SequenceId id : sim.step()) ended.push_back(id);
  EXPECT_EQ(ended, (std::vector{chat, night}));
}

// Two night jobs, and three chats: each step goes on from the last one.
TEST(PlaceSetting, BehindIsNotAdmittedAndSentAwayByTurns) {
  TimedEngine sim(100'000, 4);
  sim.submit("night", 20, 300, 0, kBehind);
  sim.submit("evening", 20, 300, 0, kBehind);
  for (int i = 0; i < 4; ++i) sim.step();
  for (int i = 0; i < 3; ++i) sim.submit("chat", 20, 100, sim.now());
  for (int i = 0; i < 50; ++i) sim.step();
  EXPECT_EQ(sim.scheduler().preemptions(), 1U);
  EXPECT_EQ(sim.scheduler().running(), 4U);
}

// The night's sequences hold all KV but a block when the chat's answer grows.
TEST(PlaceSetting, BehindGivesUpItsRoomForOneThatCameLater) {
  TimedEngine sim(40);
  for (int i = 0; i < 3; ++i) sim.submit("night", 150, 400, 0, kBehind);
  for (int i = 0; i < 20; ++i) sim.step();
  const SequenceId chat = sim.submit("chat", 100, 200, sim.now());
  std::vector<SequenceId> ended;
  while (ended.empty() || ended.back() != chat)
    for (const SequenceId id : sim.step()) ended.push_back(id);
  EXPECT_EQ(ended.size(), 1U);
  EXPECT_GT(sim.scheduler().preemptions(), 0U);
}

TEST(PlaceSetting, BehindHasASlotAfterThreeThatOvertakeIt) {
  TimedEngine sim(100'000, 1);
  std::vector<SequenceId> ended;
  const auto flood = [&] { return sim.submit("app", 20, 2, sim.now(), kAhead); };
  flood();
  sim.step();
  const SequenceId batch[] = {sim.submit("app", 20, 2, 0, kBehind), sim.submit("app", 20, 2, 0)};
  for (int i = 0; i < 2; ++i) flood();
  while (sim.ttft(batch[1]) < 0) {
    ASSERT_LT(ended.size(), 20U);
    for (const SequenceId id : sim.step()) {
      ended.push_back(id);
      flood();
    }
  }
  EXPECT_EQ(std::ranges::find(ended, batch[0]) - ended.begin(), 4) << "the one before, and three ahead";
  EXPECT_EQ(ended.size(), 5U) << "then the other one, which three have overtaken, too";
}

// A guest's admission overtakes nobody of another class.
TEST(PlaceSetting, BehindHasASlotWhileGuestsAreAdmittedBetween) {
  TimedEngine sim(100'000, 3);
  const auto arrive = [&](const std::string& app) {
    if (app == "flood") {
      sim.submit("flood", 20, 6, sim.now(), kAhead);
    } else {
      sim.submit("light", 20, 2, sim.now());
    }
  };
  arrive("flood");
  for (int i = 0; i < 3; ++i) sim.step();
  arrive("flood");
  arrive("light");
  sim.step();
  const SequenceId behind = sim.submit("flood", 20, 6, sim.now(), kBehind);
  for (int i = 0; i < 4; ++i) arrive("flood");
  int floods = 0;
  while (sim.ttft(behind) < 0) {
    ASSERT_LT(floods, 8);
    for (const SequenceId id : sim.step()) {
      if (sim.owner(id) == "flood") ++floods;
      arrive(sim.owner(id));
    }
  }
  EXPECT_GE(floods, 3);
}

// An app with one request is a guest beside one with six.
TEST(PlaceSetting, BehindHasNoGuestsSteps) {
  std::map<QueuePlace, double> ttfts;
  for (const QueuePlace place : {QueuePlace::usual, QueuePlace::behind}) {
    TimedEngine sim;
    const auto chat = [&] { sim.submit("chat", 50, 1, sim.now()); };
    for (int i = 0; i < 6; ++i) chat();
    const SequenceId batch = sim.submit("batch", 1500, 1, 0, {.place = place});
    while (sim.ttft(batch) < 0)
      for ([[maybe_unused]] const SequenceId id : sim.step()) chat();
    ttfts[place] = sim.ttft(batch);
  }
  EXPECT_GT(ttfts[QueuePlace::behind], 1.5 * ttfts[QueuePlace::usual]);
}

TEST(PlaceSetting, AheadTakesNoGuestsSteps) {
  TimedEngine sim;
  const auto flood = [&] { sim.submit("flood", 300, 1, sim.now(), kAhead); };
  for (std::uint32_t i = 1; i < kSlots; ++i) flood();
  sim.submit("light", 3000, 1, 0);
  std::uint64_t before = 0;
  int missed = 0;
  for (int i = 0; i < 200 && sim.computed("light") < 3000; ++i) {
    for ([[maybe_unused]] const SequenceId id : sim.step()) flood();
    missed = sim.computed("light") == before ? missed + 1 : 0;
    ASSERT_LE(missed, 1) << "step " << i;
    before = sim.computed("light");
  }
}

TEST(PlaceSetting, OfANewcomerCostsItNoSlot) {
  TimedEngine sim;
  for (std::uint32_t i = 0; i < kSlots; ++i) sim.submit("flood", 20, 400, 0, kAhead);
  for (int i = 0; i < 10; ++i) sim.step();
  const SequenceId ahead = sim.submit("flood", 20, 8, sim.now(), kAhead);
  const SequenceId behind = sim.submit("night", 20, 8, sim.now(), kBehind);
  const SequenceId light = sim.submit("light", 20, 8, sim.now());
  for (int i = 0; i < 4; ++i) sim.step();
  EXPECT_GT(sim.ttft(light), 0);
  EXPECT_LT(sim.ttft(ahead), 0);
  EXPECT_LT(sim.ttft(behind), 0) << "nobody gives up a slot for one behind";
}

// Requests of four apps, with settings at random, arrive, pause, leave and end.
class Crowd {
 public:
  explicit Crowd(std::uint64_t seed) : random_(seed) {}

  void run() {
    for (int i = 0; i < 400 && !testing::Test::HasFatalFailure(); ++i) {
      if (below(3) == 0 && open_.size() < 40) submit();
      if (below(40) == 0 && !open_.empty()) {
        const SequenceId id =
            std::next(open_.begin(), below(static_cast<std::uint32_t>(open_.size())))->first;
        sim_.cancel(id);
        open_.erase(id);
      }
      step();
    }
    for (int guard = 0; !open_.empty() && !testing::Test::HasFatalFailure(); ++guard) {
      ASSERT_LT(guard, 20'000) << open_.size() << " sequences do not end";
      step();
    }
  }
  int bounded() const { return bounded_; }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  void submit() {
    RequestSettings settings;
    constexpr int kBudgets[] = {1, 15, 30, 100, 200, 400};
    if (below(3) == 0) settings.step_budget = milliseconds(kBudgets[below(std::size(kBudgets))]);
    settings.place = static_cast<QueuePlace>(below(3));
    const SequenceId id = sim_.submit("app" + std::to_string(below(4)), 1 + below(below(4) == 0 ? 900 : 90),
                                      1 + below(20), sim_.now(), settings);
    open_[id] = settings;
  }

  void step() {
    const auto ended = sim_.step();
    ASSERT_TRUE(sim_.scheduler().balanced());
    check(sim_.last());
    for (const SequenceId id : ended) open_.erase(id);
  }

  void check(const StepPlan& plan) {
    StepWork decodes;
    std::uint32_t prompt_tokens = 0;
    AskedBudgets asked;
    for (const PlannedSequence& p : plan.sequences) {
      const RequestSettings& settings = open_.at(p.id);
      asked.add(settings.step_budget);
      if (p.n_tokens == 1 && p.want_logits) {
        decodes += StepWork::of(p.first_position, 1);
      } else {
        prompt_tokens += p.n_tokens;
      }
    }
    const double cost = kCost.of(plan.work);
    const double least = kCost.of(decodes) + kCost.added(0, kLeastStepTokens);
    if (asked.strictest && plan.sequences.size() > 1 && prompt_tokens > 1) {
      ++bounded_;
      ASSERT_LE(cost, std::max(seconds(*asked.strictest), least) + kRounding);
    }
    if (cost > std::max(seconds(kLongestStep), least) + kRounding) {
      ASSERT_EQ(asked.longer, asked.sequences) << cost;
      ASSERT_TRUE(plan.may_stop) << cost;
    }
  }

  std::mt19937_64 random_;
  TimedEngine sim_{400};
  std::map<SequenceId, RequestSettings> open_;
  int bounded_ = 0;
};

TEST(RequestSettings, AtRandomKeepTheirBoundsAndEverySequenceEnds) {
  int bounded = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Crowd crowd(seed);
    crowd.run();
    bounded += crowd.bounded();
  }
  EXPECT_GT(bounded, 1000);
}

}  // namespace
}  // namespace flyball::engine
