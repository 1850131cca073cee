// Idle calibration without a machine: time, the daemon's answers, model files and the process that measures
// are the test's. The loop and the thread are real; nobody sleeps.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <mutex>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>

#include "daemon/calibrate/idle_refresh.hpp"
#include "daemon/calibrate/unmeasured.hpp"

namespace flyball::cli {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using Figures = Result<std::vector<measure::Figure>>;

class IdleRefreshTest : public ::testing::Test {
 protected:
  // One begun measurement, on its thread; the test's thread says what comes of it.
  struct Begun {
    std::string model;
    std::thread::id thread;
    std::optional<Result<std::uint64_t>> lent;  // absent: it does not ask
  };
  struct Loan final : fleet::Loan {
    explicit Loan(IdleRefreshTest& test) : test_(test) { ++test_.loans; }
    ~Loan() override { --test_.loans; }
    std::uint64_t kv_bytes() const override { return 7; }
    void holds(std::uint64_t bytes) override { test_.held.push_back(bytes); }
    IdleRefreshTest& test_;
  };

  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> open{io.get_executor()};
  const std::thread::id loop = std::this_thread::get_id();

  calibrate::IdlePlan::TimePoint now = calibrate::IdlePlan::TimePoint() + hours(1000);
  bool busy = false, others_work = false;
  std::vector<std::string> models{"a"};
  std::vector<std::string> without_ceilings;  // backends
  std::optional<fleet::NotLent> not_lent;
  std::function<void(const std::string&)> give_back;
  std::vector<std::string> kept;
  std::vector<measure::Subject> subjects;  // of those kept
  std::vector<std::uint64_t> held;
  milliseconds wanted{0};  // until the next look
  int loans = 0, asked = 0;

  std::mutex mutex;
  std::map<std::string, std::uint64_t> stamps;  // mutex
  bool stamped_on_loop = false;                 // mutex
  std::vector<Begun> begun;                     // mutex
  bool asks = true;                             // mutex
  std::vector<std::uint64_t> says_it_holds;     // mutex
  std::optional<Figures> says;                  // mutex; absent: it goes on until it is stopped

  calibrate::IdleRefresh refresh{io, host()};  // last: its thread ends before what it uses

  calibrate::IdleRefresh::Host host() {
    return {
        .busy = [this] { return busy; },
        .due =
            [this] {
              std::vector<calibrate::IdleRefresh::Work> works;
              for (const std::string& id : models) {
                config::ModelEntry model;
                model.id = id;
                works.push_back({{{id, "cpu"}, "as ever"}, {}, model, {"cpu", "", "", {}, {}}});
                works.back().measuring.engine.model_id = id;
              }
              return works;
            },
        .due_ceilings =
            [this] {
              std::vector<calibrate::IdleRefresh::Work> works;
              for (const std::string& backend : without_ceilings)
                works.push_back({{{"", backend}, "as ever"}, {}, {}, {backend, "a GPU", "d1", {}, {}, {}}});
              return works;
            },
        .lend = [this](const calibrate::IdleRefresh::Work&, const MemoryNeed&, auto back) -> fleet::Lent {
          ++asked;
          if (not_lent) return std::unexpected(*not_lent);
          give_back = std::move(back);
          return std::make_unique<Loan>(*this);
        },
        .keep =
            [this](const measure::Subject& subject, std::vector<measure::Figure> figures) {
              kept.push_back(std::to_string(figures.size()));
              subjects.push_back(subject);
            },
        .look_after = [this](milliseconds delay) { wanted = delay; },
        .now = [this] { return now; },
        .others_work = [this](std::uint32_t) { return others_work; },
        .stamp =
            [this](const config::ModelEntry& model) {
              const std::lock_guard lock(mutex);
              stamped_on_loop |= std::this_thread::get_id() == loop;
              return stamps[model.id];
            },
        .measure = [this](const calibrate::Measuring& m, const measure::Subject&,
                          const std::stop_token& stop) { return measure(m, stop); }};
  }
  Figures measure(const calibrate::Measuring& m, const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    Begun one{m.engine.model_id, std::this_thread::get_id(), std::nullopt};
    const bool ask = asks;
    lock.unlock();
    if (ask) one.lent = m.memory->ask({});
    lock.lock();
    begun.push_back(one);
    const auto answer = says;
    const auto holds = says_it_holds;
    lock.unlock();
    for (const std::uint64_t bytes : holds) m.memory->holds(bytes);
    if (one.lent && !*one.lent) return std::unexpected(one.lent->error());
    if (answer) return *answer;
    std::promise<void> stopped;
    const std::stop_callback when(stop, [&] { stopped.set_value(); });
    stopped.get_future().wait();
    return fail(ErrorCode::cancelled, "Something else was to be done.");
  }
  std::vector<Begun> all_begun() {
    const std::lock_guard lock(mutex);
    return begun;
  }

  void start() {
    refresh.set({.idle = minutes(30), .max_load = 20});
    EXPECT_EQ(wanted, calibrate::IdleRefresh::kLook);
  }
  void pass(milliseconds time) {
    now += time;
    refresh.look();
  }
  // The loop, until it is known what came of what was begun.
  void run_to_end() {
    while (wanted == calibrate::IdleRefresh::kWatch) io.run_one();
  }
  // A look when it is idle, and all that follows it.
  void measure_once(milliseconds time) {
    pass(time);
    run_to_end();
  }
};

TEST_F(IdleRefreshTest, MeasuresOnceItIsIdleAndKeepsTheFigures) {
  says = Figures(std::vector<measure::Figure>(3));
  says_it_holds = {100};
  start();
  pass(minutes(29));
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kLook);
  others_work = true;
  pass(minutes(1));
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kLook) << "but other programs work";
  EXPECT_TRUE(all_begun().empty());
  others_work = false;
  measure_once(milliseconds(0));
  ASSERT_EQ(all_begun().size(), 1U);
  EXPECT_EQ(**all_begun()[0].lent, 7U);
  EXPECT_NE(all_begun()[0].thread, loop);
  EXPECT_EQ(kept, std::vector<std::string>{"3"});
  EXPECT_EQ(held, std::vector<std::uint64_t>{100});
  EXPECT_EQ(loans, 0) << "given back";
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kLook);
}

TEST_F(IdleRefreshTest, MeasuresCeilingsOnceItIsQuietWhateverIsSaidOfModels) {
  says = Figures(std::vector<measure::Figure>(2));
  asks = false;
  without_ceilings = {"opencl"};
  refresh.set({.idle = milliseconds(0)});
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kLook);
  pass(calibrate::IdleRefresh::kQuiet - milliseconds(1));
  EXPECT_TRUE(all_begun().empty());
  measure_once(milliseconds(1));
  ASSERT_EQ(all_begun().size(), 1U);
  EXPECT_EQ(all_begun()[0].model, "");
  ASSERT_EQ(subjects.size(), 1U);
  EXPECT_EQ(subjects[0], (measure::Subject{"", "opencl", "a GPU", "d1", ""}));
  measure_once(hours(1));
  EXPECT_EQ(all_begun().size(), 1U) << "once";
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kRest);
}

TEST_F(IdleRefreshTest, CeilingsComeBeforeModels) {
  says = Figures(std::vector<measure::Figure>(2));
  asks = false;
  without_ceilings = {"opencl"};
  start();
  measure_once(minutes(30));
  measure_once(milliseconds(0));
  ASSERT_EQ(all_begun().size(), 2U);
  EXPECT_EQ(all_begun()[0].model, "");
  EXPECT_EQ(all_begun()[1].model, "a");
}

TEST_F(IdleRefreshTest, ARequestEndsTheMeasurementOfCeilings) {
  asks = false;
  without_ceilings = {"opencl"};
  refresh.set({.idle = milliseconds(0)});
  pass(calibrate::IdleRefresh::kQuiet);
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kWatch);
  busy = true;
  pass(calibrate::IdleRefresh::kWatch);
  run_to_end();
  EXPECT_TRUE(kept.empty());
  busy = false;
  {
    const std::lock_guard lock(mutex);
    says = Figures(std::vector<measure::Figure>(2));
  }
  measure_once(calibrate::IdleRefresh::kQuiet);
  EXPECT_EQ(kept.size(), 1U) << "begun anew";
}

TEST_F(IdleRefreshTest, CeilingsAreLeftAloneWhereTheOperatorSaysSo) {
  without_ceilings = {"opencl"};
  refresh.set({.idle = milliseconds(0), .ceilings = false});
  EXPECT_EQ(wanted, milliseconds(0)) << "it looks at nothing";
  pass(hours(1));
  EXPECT_TRUE(all_begun().empty());
}

TEST_F(IdleRefreshTest, ModelFilesAreLookedAtOnItsThread) {
  says = Figures(std::vector<measure::Figure>());
  start();
  measure_once(minutes(30));
  measure_once(minutes(30));
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kRest) << "tried lately, and nothing else is due";
  EXPECT_EQ(all_begun().size(), 1U);
  EXPECT_FALSE(stamped_on_loop);
  models.clear();
  measure_once(calibrate::IdleRefresh::kRest);
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kRest);
}

TEST_F(IdleRefreshTest, ARequestEndsItAndItIsBegunAnew) {
  start();
  pass(minutes(30));
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kWatch);
  while (loans == 0) io.run_one();
  busy = true;
  pass(calibrate::IdleRefresh::kWatch);
  run_to_end();
  EXPECT_EQ(loans, 0);
  EXPECT_TRUE(kept.empty());
  busy = false;
  pass(minutes(29));
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kLook);
  {
    const std::lock_guard lock(mutex);
    says = Figures(std::vector<measure::Figure>(1));
  }
  measure_once(minutes(1));
  EXPECT_EQ(all_begun().size(), 2U);
  EXPECT_EQ(kept.size(), 1U);
}

// The loop sees the request before the question for memory that has come meanwhile.
TEST_F(IdleRefreshTest, ForARequestNothingIsLentAnyMore) {
  not_lent = fleet::NotLent{{ErrorCode::insufficient_memory, "The request has it.", "", ""}};
  start();
  pass(minutes(30));
  busy = true;
  pass(calibrate::IdleRefresh::kWatch);
  run_to_end();
  EXPECT_EQ(asked, 0);
  busy = false;
  not_lent.reset();
  {
    const std::lock_guard lock(mutex);
    says = Figures(std::vector<measure::Figure>(1));
  }
  measure_once(minutes(30));
  EXPECT_EQ(kept.size(), 1U) << "it was not refused for lack of room";
}

TEST_F(IdleRefreshTest, WhatIsToBeGivenBackIsTriedAfterTheOthers) {
  models = {"a", "b"};
  start();
  pass(minutes(30));
  while (!give_back) io.run_one();
  give_back("others ask for memory");
  run_to_end();
  EXPECT_EQ(loans, 0);
  {
    const std::lock_guard lock(mutex);
    says = Figures(std::vector<measure::Figure>(1));
  }
  measure_once(calibrate::IdleRefresh::kLook);
  measure_once(calibrate::IdleRefresh::kLook);
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kRest);
  ASSERT_EQ(all_begun().size(), 2U);
  EXPECT_EQ(all_begun()[1].model, "b");
  measure_once(calibrate::IdlePlan::kRetryForRoom);
  EXPECT_EQ(all_begun().back().model, "a");
}

TEST_F(IdleRefreshTest, WhatIsNotFreeIsTriedAgainAndWhatCanNeverFitIsNot) {
  not_lent = fleet::NotLent{{ErrorCode::insufficient_memory, "It is not free.", "", ""}};
  start();
  measure_once(minutes(30));
  measure_once(calibrate::IdlePlan::kRetryForRoom - milliseconds(1));
  EXPECT_EQ(asked, 1);
  not_lent->for_good = true;
  measure_once(milliseconds(1));
  EXPECT_EQ(asked, 2);
  measure_once(hours(1000));
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(wanted, calibrate::IdleRefresh::kRest);
  {
    const std::lock_guard lock(mutex);
    stamps["a"] = 1;
  }
  measure_once(calibrate::IdleRefresh::kRest);
  EXPECT_EQ(asked, 3) << "its file is another";
}

TEST_F(IdleRefreshTest, WhatTheEngineRefusesIsNotTriedAgainAndADeadProcessIs) {
  asks = false;
  models = {"refused", "died"};
  says = Figures(fail(ErrorCode::model_unsupported, "Never."));
  start();
  measure_once(minutes(30));
  {
    const std::lock_guard lock(mutex);
    says = Figures(fail(ErrorCode::model_unavailable, "It ended."));
  }
  measure_once(calibrate::IdleRefresh::kLook);
  measure_once(calibrate::IdlePlan::kRetry);
  ASSERT_EQ(all_begun().size(), 3U);
  EXPECT_EQ(all_begun()[2].model, "died");
}

TEST_F(IdleRefreshTest, SwitchedOffItMeasuresNothing) {
  start();
  pass(minutes(30));
  refresh.set({.idle = minutes(0), .ceilings = false, .max_load = 20});
  pass(calibrate::IdleRefresh::kWatch);
  run_to_end();
  wanted = milliseconds(0);
  pass(hours(1));
  EXPECT_EQ(wanted, milliseconds(0)) << "it wants no further look";
  EXPECT_TRUE(kept.empty());
}

TEST_F(IdleRefreshTest, StoppedItGivesUpAndLooksNoMore) {
  start();
  pass(minutes(30));
  while (loans == 0) io.run_one();
  refresh.stop();
  while (loans > 0) io.run_one();
  wanted = milliseconds(0);
  refresh.look();
  refresh.set({.idle = minutes(30), .max_load = 20});
  EXPECT_EQ(wanted, milliseconds(0));
}

TEST(Unmeasured, CeilingsAreThoseOfGpusAlone) {
  const std::vector<measure::Engine> engines = {{"cpu", "a processor", "", {}, {}, {}},
                                                {"opencl", "a GPU", "d1", {}, {"0"}, {}}};
  const std::vector<fleet::DeviceMemory> devices = {{"card", 1000, {{"opencl", 1000}}}};
  const auto works = calibrate::unmeasured_ceilings({}, {}, engines, devices, 0);
  ASSERT_EQ(works.size(), 1U);
  EXPECT_EQ(works[0].due.pair, calibrate::IdlePlan::Pair("", "opencl"));
  EXPECT_TRUE(works[0].measuring.engine.own_memory);
  EXPECT_EQ(works[0].measuring.engine.model_id, "");
  EXPECT_EQ(works[0].measuring.engine.device_ids, std::vector<std::string>{"0"});
  const std::vector<measure::Measured> measured = {
      {measure::subject_of(engines[1]), {measure::Kind::read_gbps, 0, 40, 1000}}};
  const measure::Book known(measured, engines, {});
  EXPECT_TRUE(calibrate::unmeasured_ceilings({}, known, engines, devices, 1000).empty());
}

// A mixture keeps as many experts as an engine would, whatever is pinned beside it.
TEST(Unmeasured, IsToldWhatAnEngineWouldBeTold) {
  config::Config config;
  config.models.resize(1);
  config.models[0].id = "m";
  config.models[0].context = 512;
  const std::vector<measure::Engine> engines = {{"cpu", "", "", {}, {}}, {"opencl", "", "", {}, {"0"}}};
  const std::vector<fleet::DeviceMemory> devices = {{"card", 1000, {{"opencl", 1000}}}};
  fleet::MemoryStatus memory;
  memory.pools = {{.name = "machine", .capacity = 100, .most_for_one = 60},
                  {.name = "card", .capacity = 1000, .most_for_one = 1000}};
  const auto works = calibrate::unmeasured(config, {}, engines, devices, memory, 0);
  ASSERT_EQ(works.size(), 2U);
  EXPECT_EQ(works[0].due.pair, calibrate::IdlePlan::Pair("m", "cpu"));
  EXPECT_EQ(works[0].measuring.engine.memory_capacity, 60U);
  EXPECT_EQ(works[0].measuring.engine.context, 512U);
  EXPECT_FALSE(works[0].measuring.engine.own_memory);
  EXPECT_TRUE(works[1].measuring.engine.own_memory);
  EXPECT_EQ(works[1].measuring.engine.device_ids, std::vector<std::string>{"0"});

  EXPECT_EQ(calibrate::unmeasured(config, {}, engines, devices, memory, 0)[1].due, works[1].due);
  memory.pools[1].most_for_one = 400;
  const auto beside = calibrate::unmeasured(config, {}, engines, devices, memory, 0);
  EXPECT_EQ(beside[0].due, works[0].due);
  EXPECT_NE(beside[1].due, works[1].due) << "what could not fit may fit now, or the reverse";
}

}  // namespace
}  // namespace flyball::cli
