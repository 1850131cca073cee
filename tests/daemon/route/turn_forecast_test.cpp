// The queue's forecast of turns beside the turns that it then gives, and the predictor's times that follow
// from it beside a simulated engine. Random apps, arrivals and ends, seeds printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/route/fair_queue.hpp"
#include "tests/daemon/predict/simulated_engine.hpp"

namespace flyball::route {
namespace {

using Id = FairQueue::Id;

// One line under a random load.
class Walk {
 public:
  explicit Walk(std::uint64_t seed) : random_(seed), slots_(1 + below(8)), apps_(1 + below(6)) {
    queue_.set_slots(slots_);
  }
  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) {
      change();
      give_turns();
      if (below(8) == 0) compare();
      if (below(8) == 0) compare_one_that_comes();
    }
  }
  std::size_t compared() const { return compared_; }
  std::size_t late() const { return late_; }
  std::size_t moved() const { return moved_; }

 private:
  struct Turn {
    Id id = 0;
    std::uint32_t ends = 0;
  };
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  std::string name(std::uint32_t app) const { return "app" + std::to_string(app); }
  static double weight(std::uint32_t app) { return app % 3 == 0 ? 0.25 : app; }
  std::uint32_t some_app() { return below(3) != 0 ? 0 : below(apps_); }  // one app floods

  void change() {
    const std::uint32_t app = some_app();
    const double prompt = 1 + below(3000);
    switch (below(6)) {
      case 0:
      case 1:
        if (prompts_.size() >= 50) break;
        prompts_[last_ += kGap] = prompt;
        add(queue_, last_, app, prompt, is_behind());
        break;
      case 2:
        if (below(20) != 0) break;
        behind_[last_ += kGap] = is_behind();
        queue_.begin(last_, name(app), weight(app), prompt, behind_[last_]);
        running_.push_back(last_);
        break;
      case 3:
        if (!running_.empty()) end(below(static_cast<std::uint32_t>(running_.size())));
        break;
      case 4:
        for (const Id id : running_) queue_.generated(id, below(200));
        if (!running_.empty()) queue_.settle(running_.front(), below(3000));
        break;
      default:
        if (prompts_.empty() || below(4) != 0) break;
        const auto gone = std::next(prompts_.begin(), below(static_cast<std::uint32_t>(prompts_.size())));
        queue_.remove(gone->first);
        prompts_.erase(gone);
    }
  }
  bool is_behind() { return below(4) == 0; }
  void add(FairQueue& queue, Id id, std::uint32_t app, double prompt, bool behind) {
    behind_[id] = behind;
    queue.add(id, name(app), weight(app), prompt, behind);
  }
  void end(std::size_t i) {
    queue_.remove(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void give_turns() {
    while (const auto id = queue_.next()) {
      running_.push_back(*id);
      ASSERT_EQ(prompts_.erase(*id), 1U);
    }
  }
  // Nobody else comes: the order in which `queue` begins all of its own, and how many had ended before.
  std::vector<Turn> drain(FairQueue queue) const {
    std::vector<Id> running = running_;
    std::vector<Turn> out;
    for (std::uint32_t ended = 0; queue.waiting() > 0; ++ended) {
      while (const auto id = queue.next()) {
        out.push_back({*id, ended});
        running.push_back(*id);
      }
      if (running.empty()) {
        ADD_FAILURE() << "nobody runs, and some wait";
        break;
      }
      const auto behind = [&](Id id) { return behind_.at(id); };
      const auto usual = std::ranges::find_if_not(running, behind);  // they end before those behind
      const auto ends = usual == running.end() ? running.begin() : usual;
      queue.remove(*ends);
      running.erase(ends);
    }
    return out;
  }
  void compare() {
    const std::vector<Turn> turns = drain(queue_);
    ASSERT_EQ(turns.size(), prompts_.size());
    double tokens = 0;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const TurnForecast forecast = queue_.forecast(turns[i].id, turns[i].id);
      ASSERT_EQ(forecast.before, i);
      ASSERT_EQ(forecast.ends, turns[i].ends);
      ASSERT_EQ(forecast.tokens, tokens);
      ASSERT_EQ(forecast.taken, running_.size());
      ASSERT_EQ(forecast.waiting, turns.size() - 1);
      ASSERT_EQ(queue_.ahead_of(turns[i].id), i);
      tokens += prompts_.at(turns[i].id);
      ++compared_;
    }
  }
  void compare_one_that_comes() {
    const std::uint32_t app = some_app(), answers = 1 + below(2) * below(6);
    const std::string app_name = below(10) == 0 ? "new" : name(app);
    const bool moved = last_ > 0 && below(2) == 0;  // from another line, where it has waited already
    const Id own = moved ? kGap * below(static_cast<std::uint32_t>(last_ / kGap)) + 1 : last_ + 1;
    const bool behind = is_behind();
    const FairQueue::Coming coming{.app = app_name,
                                   .weight = weight(app),
                                   .prompt_tokens = 50,
                                   .answers = answers,
                                   .behind = behind,
                                   .arrival = moved ? own : 0};
    const TurnForecast forecast = queue_.forecast(coming);
    FairQueue copy = queue_;
    for (std::uint32_t i = 0; i < answers; ++i) {
      behind_[own + i] = behind;
      copy.add(own + i, app_name, weight(app), 50, behind);
    }
    const std::vector<Turn> turns = drain(copy);
    const auto at = [&](Id id) {
      return static_cast<std::size_t>(std::ranges::find(turns, id, &Turn::id) - turns.begin());
    };
    const std::size_t first = at(own), last = at(own + answers - 1);
    ASSERT_EQ(forecast.before, first);
    ASSERT_EQ(forecast.ends, turns[first].ends);
    ASSERT_EQ(forecast.between, last - first - (answers - 1));
    ASSERT_EQ(forecast.ends_between, turns[last].ends - turns[first].ends);
    late_ += first > 0 && first < prompts_.size() ? 1 : 0;
    moved_ += moved && first < prompts_.size() ? 1 : 0;
    // The same of those answers once they stand in line, by their places or by when they came.
    FairQueue::Coming again = coming;
    again.arrival = own;
    for (const TurnForecast& in_line : {copy.forecast(own, own + answers - 1), copy.forecast(again)}) {
      ASSERT_EQ(in_line.before, forecast.before);
      ASSERT_EQ(in_line.ends, forecast.ends);
      ASSERT_EQ(in_line.between, forecast.between);
      ASSERT_EQ(in_line.ends_between, forecast.ends_between);
      ASSERT_EQ(in_line.tokens, forecast.tokens);
      ASSERT_EQ(in_line.waiting, prompts_.size());
    }
    ++compared_;
  }

  static constexpr Id kGap = 10;  // between two ids, for the answers of requests from other lines

  std::mt19937_64 random_;
  std::uint32_t slots_, apps_;
  FairQueue queue_;
  Id last_ = 0;
  std::map<Id, double> prompts_;  // of those that wait
  std::map<Id, bool> behind_;
  std::vector<Id> running_;  // in the order in which they began
  std::size_t compared_ = 0, late_ = 0, moved_ = 0;
};

TEST(TurnForecast, IsTheOrderInWhichTheQueueGivesTurns) {
  std::size_t compared = 0, late = 0, moved = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Walk walk(seed);
    walk.run(600);
    if (HasFatalFailure()) return;
    compared += walk.compared();
    late += walk.late();
    moved += walk.moved();
  }
  EXPECT_GT(compared, 5000U);
  EXPECT_GT(late, 200U) << "hardly any request came that goes before some and after others";
  EXPECT_GT(moved, 200U) << "hardly any request moved before others";
}

TEST(TurnForecast, ChangesNothing) {
  FairQueue q;
  for (Id id = 1; id <= 5; ++id) q.add(id, "a", 1, 10);
  EXPECT_EQ(q.next(), 1U);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(q.forecast({.app = "b", .prompt_tokens = 10}).before, 1U) << "its app saved nothing up";
    EXPECT_EQ(q.forecast(3, 5).before, 1U);
    EXPECT_EQ(q.counter("a"), 10);
    EXPECT_EQ(q.counter("b"), 0);
  }
}

TEST(TurnForecast, TakesAllToGoFirstBeyondThoseThatItFollows) {
  FairQueue q;
  q.set_slots(4);
  for (Id id = 1; id <= 1000; ++id) q.add(id, id % 2 == 0 ? "a" : "b", 1, 10);
  while (q.next()) continue;
  const TurnForecast forecast = q.forecast({.app = "a", .prompt_tokens = 10, .answers = 3});
  EXPECT_EQ(forecast.before, 997U) << "three have begun, and the last slot is kept";
  EXPECT_EQ(forecast.ends, 998U) << "the last slot stays kept as far as turns are followed";
  EXPECT_EQ(forecast.tokens, 9970);
  EXPECT_EQ(forecast.ends_between, 2U);
  EXPECT_EQ(q.ahead_of(999), 995U) << "each one is followed where the place itself is asked for";
}

TEST(TurnForecast, IsThatOfTheAnswersInLineWhereARequestIsThereAlready) {
  FairQueue q;
  q.set_slots(2);
  for (Id id = 1; id <= 1000; ++id) q.add(id, "a", 1, 10);
  while (q.next()) continue;
  const auto arrived = [&](Id arrival, std::uint32_t answers) {
    return q.forecast({.app = "a", .prompt_tokens = 10, .answers = answers, .arrival = arrival});
  };
  const TurnForecast running = arrived(1, 2);
  EXPECT_EQ(running.before, 0U);
  EXPECT_EQ(running.taken, 0U);
  EXPECT_EQ(running.ends_between, 0U);
  EXPECT_EQ(arrived(2, 1).ends_between, 0U) << "it has begun";
  EXPECT_EQ(arrived(4, 2).before, 1U);
  EXPECT_EQ(arrived(4, 2).waiting, 996U);
  q.remove(4);
  EXPECT_EQ(arrived(4, 3).before, 1U) << "the first of its answers stands elsewhere";
  EXPECT_EQ(arrived(4, 3).waiting, 995U);
}

// An app that was there long ago changes no turn, and costs a forecast nothing. It may come again.
TEST(TurnForecast, LeavesOutAppsThatCameLongAgo) {
  FairQueue q;
  q.set_slots(1);
  Id id = 0;
  const auto serve = [&](const std::string& app) {
    q.add(++id, app, 1, 10);
    ASSERT_EQ(q.next(), id);
    q.remove(id);
  };
  for (int i = 0; i < 5; ++i) serve("old" + std::to_string(i));
  for (std::uint64_t i = 0; i <= kRemembered + 5; ++i) serve("busy");
  for (int i = 0; i < 3; ++i) q.add(++id, "busy", 1, 10);
  ASSERT_TRUE(q.next());
  const TurnForecast forecast = q.forecast({.app = "old3", .prompt_tokens = 10, .answers = 2});
  FairQueue later = q;
  for (const Id own : {id + 1, id + 2}) later.add(own, "old3", 1, 10);
  const TurnForecast in_line = later.forecast(id + 1, id + 2);
  EXPECT_EQ(forecast.before, in_line.before);
  EXPECT_EQ(forecast.between, in_line.between);
  EXPECT_EQ(forecast.ends, in_line.ends);
}

// One that has its turn goes on the way to the engine, wherever its further answers stand.
TEST(TurnForecast, AnswersWithATurnWaitForNobody) {
  FairQueue q;
  q.set_slots(2);
  for (Id id = 1; id <= 6; ++id) q.add(id, "a", 1, 10);
  while (q.next()) continue;
  const TurnForecast forecast = q.forecast(2, 4);
  EXPECT_EQ(forecast.before, 0U);
  EXPECT_EQ(forecast.ends, 0U);
  EXPECT_EQ(forecast.between, 0U);
  EXPECT_EQ(forecast.ends_between, 2U);
  EXPECT_EQ(forecast.taken, 1U);
  EXPECT_EQ(forecast.waiting, 2U);
}

// ---- the predictor, told by the queue ---------------------------------------------------------------------

class FairLine final : public predict::Queue {
 public:
  explicit FairLine(std::uint32_t slots) { queue_.set_slots(slots); }
  void come(std::uint64_t number, const predict::Simulated& r) override {
    queue_.add(number, r.app, weight(r), r.prompt);
  }
  std::optional<std::uint64_t> next() override { return queue_.next(); }
  void token(std::uint64_t number) override { queue_.generated(number, 1); }
  void leave(std::uint64_t number) override { queue_.remove(number); }
  TurnForecast forecast(const predict::Simulated& r) const override {
    return queue_.forecast(
        {.app = r.app, .weight = weight(r), .prompt_tokens = double(r.prompt), .answers = r.answers});
  }
  TurnForecast forecast(std::uint64_t number) const override { return queue_.forecast(number, number); }

 private:
  static double weight(const predict::Simulated& r) { return r.app == "batch" ? 0.25 : 1; }
  FairQueue queue_;
};

// A batch app has put much in line before others came, whose turns are before most of it.
TEST(TurnForecast, TellsThePredictorWhoBeginsFirst) {
  std::size_t pairs = 0, wrong = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    predict::Predictor predictor(KeyedHash(1, 2));
    FairLine line(4);
    predict::SimulatedEngine engine(predictor, 4, seed);
    engine.costs.noise = 0;
    engine.line = &line;
    std::mt19937_64 random(seed);
    const auto request = [&](std::string app, double at) {
      predict::Simulated one;
      one.app = std::move(app);
      one.at = at;
      one.prompt = 60 + static_cast<std::uint32_t>(random() % 80);
      one.output = 32;
      return one;
    };
    std::vector<predict::Simulated> learned;
    const char* const names[] = {"batch", "chat", "agent"};
    for (int i = 0; i < 30; ++i) learned.push_back(request(names[i % 3], 10.0 * (i + 1)));
    engine.run(learned);
    std::vector<predict::Simulated> burst;
    const double start = engine.now() + 1;
    for (int i = 0; i < 24; ++i) burst.push_back(request("batch", start));
    for (int i = 0; i < 12; ++i) burst.push_back(request(names[1 + random() % 2], start + 0.3));
    engine.asks_again = true;
    engine.run(burst);
    for (const auto& a : burst)
      for (const auto& b : burst) {
        // Requests that began within a few steps of each other say nothing.
        if (a.began < start + 0.3 || b.began < a.began + 0.1) continue;
        ++pairs;
        wrong += a.predicted.queue >= b.predicted.queue ? 1 : 0;
      }
  }
  EXPECT_GT(pairs, 1000U);
  EXPECT_LT(static_cast<double>(wrong), 0.02 * static_cast<double>(pairs)) << wrong << " of " << pairs;
}

// The queue gives turns to another app between them.
TEST(TurnForecast, TellsThePredictorWhenTheLastOfSeveralAnswersEnds) {
  predict::Predictor predictor(KeyedHash(1, 2));
  FairLine line(4);
  predict::SimulatedEngine engine(predictor, 4, 3);
  engine.costs.noise = 0.02;
  engine.line = &line;
  const auto request = [&](std::string app, double at) {
    predict::Simulated one;
    one.app = std::move(app);
    one.at = at;
    one.prompt = 100;
    one.output = 32;
    return one;
  };
  std::vector<predict::Simulated> learned;
  for (int i = 0; i < 60; ++i) learned.push_back(request(i % 2 == 0 ? "chat" : "agent", 0.25 * (i + 1)));
  engine.run(learned);
  std::vector<predict::Simulated> burst;
  const double start = engine.now() + 1;
  for (int i = 0; i < 24; ++i) burst.push_back(request("agent", start));
  predict::Simulated several = request("chat", start + 0.1);
  several.answers = 12;
  burst.push_back(several);
  engine.run(burst);
  const predict::Simulated& asked = burst.back();
  ASSERT_TRUE(asked.known && asked.predicted.total);
  EXPECT_GT(asked.total, 2 * asked.ttft) << "they took turns";
  EXPECT_NEAR(static_cast<double>(asked.predicted.ttft.p50) / 1e6, asked.ttft, 0.25 * asked.ttft);
  EXPECT_NEAR(static_cast<double>(asked.predicted.total->p50) / 1e6, asked.total, 0.25 * asked.total);
}

}  // namespace
}  // namespace flyball::route
