// What an app's first token costs it beside another app that fills the engine: simulated time, by a cost like
// that of a small model on two cores, with the budget that engines use.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/backends/engine/timed_engine.hpp"

namespace flyball::engine {
namespace {

using test::kCost, test::kSlots, test::TimedEngine;

double alone(std::uint32_t prompt) {
  TimedEngine sim;
  const SequenceId id = sim.submit("light", prompt, 1, 0);
  while (sim.ttft(id) < 0) sim.step();
  return sim.ttft(id);
}

// Times to first token, in seconds, sorted, of one that asks one thing after the other, at any moment of a
// step, while another app always has every slot but one.
std::vector<double> beside(std::uint32_t prompt, std::uint32_t flood_prompt, std::size_t n = 200) {
  TimedEngine sim;
  std::mt19937_64 random(prompt + flood_prompt);
  const auto pause = [&] { return std::uniform_real_distribution<double>(0, 0.2)(random); };
  const auto flood = [&] {
    sim.submit("flood", flood_prompt, std::uniform_int_distribution<std::uint32_t>(1, 64)(random), sim.now());
  };
  for (std::uint32_t i = 1; i < kSlots; ++i) flood();
  for (int i = 0; i < 50; ++i)
    for ([[maybe_unused]] const SequenceId id : sim.step()) flood();
  std::vector<double> out;
  double next = sim.now() + pause();
  while (out.size() < n) {
    if (next >= 0 && next <= sim.now()) {
      sim.submit("light", prompt, 8, next);
      next = -1;
    }
    for (const SequenceId id : sim.step(next)) {
      if (sim.owner(id) == "flood") {
        flood();
        continue;
      }
      out.push_back(sim.ttft(id));
      next = sim.now() + pause();
    }
  }
  std::ranges::sort(out);
  return out;
}

// What it waits for is the end of the step in flight, and beside it are the flood's next tokens; not the
// flood's prompts, whatever their length.
TEST(Guest, FirstTokenTakesAtMostTwiceWhatItTakesAlone) {
  for (const std::uint32_t flood : {40U, 140U, 2048U})
    for (const std::uint32_t prompt : {64U, 93U, 150U, 300U}) {
      const double solo = alone(prompt);
      const std::vector<double> ttfts = beside(prompt, flood);
      EXPECT_LE(ttfts[ttfts.size() * 99 / 100], 2 * solo) << prompt << " beside " << flood;
      EXPECT_LE(ttfts[ttfts.size() / 2], 1.5 * solo) << prompt << " beside " << flood;
    }
}

TEST(Guest, IsComputedInOneStepBesideAllThatDecodes) {
  TimedEngine sim;
  for (std::uint32_t i = 1; i < kSlots; ++i) sim.submit("flood", 40, 1000, 0);
  for (int i = 0; i < 20; ++i) sim.step();
  const SequenceId brief = sim.submit("light", 100, 8, sim.now());
  sim.step();
  EXPECT_NEAR(sim.ttft(brief), kCost.of(StepWork::of(0, 100)) + 7 * kCost.added(60, 1), 1e-3);
}

// Every slot is taken and nobody decodes: that alone would be reason for long steps.
TEST(Guest, WaitsForNoLongStep) {
  TimedEngine sim;
  for (std::uint32_t i = 1; i < kSlots; ++i) sim.submit("flood", 2048, 1, 0);
  sim.submit("light", 600, 1, 0);
  const std::uint64_t light = 600;
  while (sim.computed("light") < light) sim.step();
  EXPECT_LE(sim.longest_step(), 2 * kCost.of(StepWork::of(0, kShortPrompt)) + 1e-9);
  for (int i = 0; i < 20; ++i) sim.step();
  EXPECT_GT(sim.longest_step(), 0.14) << "without it they are long";
}

TEST(Guest, ALongPromptHasEveryOtherStepAndTheOthersGoOn) {
  TimedEngine sim;
  const auto flood = [&] { sim.submit("flood", 300, 1, sim.now()); };
  for (std::uint32_t i = 1; i < kSlots; ++i) flood();
  sim.submit("light", 6000, 1, 0);
  std::uint64_t before = 0;
  int missed = 0;
  for (int i = 0; i < 200 && sim.computed("light") < 6000; ++i) {
    for ([[maybe_unused]] const SequenceId id : sim.step()) flood();
    missed = sim.computed("light") == before ? missed + 1 : 0;
    EXPECT_LE(missed, 1) << "step " << i;
    before = sim.computed("light");
  }
  EXPECT_GT(sim.computed("flood"), sim.computed("light") / 3);
}

// Guests with more prompts than there are steps for: the one that everybody passes still has a step in seven.
TEST(Guest, ManyDoNotStarveTheOthers) {
  TimedEngine sim;
  int guests = 0;
  const auto guest = [&] { sim.submit("guest" + std::to_string(++guests), 90, 1, sim.now()); };
  for (int i = 0; i < 4; ++i) sim.submit("flood", 4000, 1, 0);
  guest();
  guest();
  std::uint64_t before = 0;
  int missed = 0, longest = 0;
  for (int i = 0; i < 400; ++i) {
    for (const SequenceId id : sim.step())
      if (sim.owner(id) != "flood") guest();
    missed = sim.computed("flood") == before ? missed + 1 : 0;
    longest = std::max(longest, missed);
    before = sim.computed("flood");
  }
  EXPECT_LE(longest, 6);
  EXPECT_GT(guests, 200);
}

// Every slot is the flood's: its latest one gives way for as long as the light one takes, and computes little
// of what it had a second time.
TEST(Guest, WaitsForNoSlot) {
  TimedEngine sim;
  std::vector<SequenceId> flood;
  for (std::uint32_t i = 0; i < kSlots + 2; ++i) flood.push_back(sim.submit("flood", 100, 100, 0));
  for (int i = 0; i < 60; ++i) sim.step();
  const SequenceId light = sim.submit("light", 60, 8, sim.now());
  const SequenceId more = sim.submit("light", 60, 8, sim.now());
  const SequenceId other = sim.submit("other", 60, 8, sim.now());
  sim.step();
  EXPECT_GT(sim.ttft(light), 0);
  sim.step();
  EXPECT_GT(sim.ttft(other), 0) << "one place a step";
  EXPECT_LT(sim.ttft(more), 0) << "it has something here";
  std::size_t ended = 0;
  for (int i = 0; i < 1000; ++i) ended += sim.step().size();
  EXPECT_EQ(ended, kSlots + 5);
  EXPECT_EQ(sim.preemptions(), 2U);
  EXPECT_LE(sim.computed("flood"), (kSlots + 2) * (100 + 99) + 2 * 16U);
}

// There is room for three of the flood's; four wait for it, and whoever came after them would wait longer.
TEST(Guest, IsTheNextToFindRoom) {
  TimedEngine sim(64);
  std::vector<SequenceId> flood;
  for (std::uint32_t i = 1; i < kSlots; ++i) flood.push_back(sim.submit("flood", 300, 20, 0));
  for (int i = 0; i < 10; ++i) sim.step();
  const SequenceId light = sim.submit("light", 100, 8, sim.now());
  std::size_t ended = 0;
  while (sim.ttft(light) < 0) ended += sim.step().size();
  EXPECT_LE(ended, 3U);
  for (std::size_t i = 3; i < flood.size(); ++i) EXPECT_LT(sim.ttft(flood[i]), 0) << i;
  for (const SequenceId id : flood)
    while (sim.ttft(id) < 0) sim.step();
}

// The flood's answers grow until the memory is full: one of the flood's gives way.
TEST(Guest, IsNotWhatGivesWay) {
  TimedEngine sim(64);
  for (int i = 0; i < 3; ++i) sim.submit("flood", 240, 400, 0);
  for (int i = 0; i < 30; ++i) sim.step();
  const SequenceId light = sim.submit("light", 100, 200, sim.now());
  bool ended = false;
  while (!ended)
    for (const SequenceId id : sim.step()) ended = ended || id == light;
  EXPECT_EQ(sim.computed("light"), 100U + 199) << "some of it was computed twice";
  EXPECT_GT(sim.preemptions(), 0U);
}

// Who has as much here as each of the others is no guest: all is as if it were one owner's.
// Whose clients do not read wait for nothing: its prompt has steps as long as where it is alone.
TEST(Guest, BesideOnesThatArePausedIsAlone) {
  TimedEngine sim;
  const SequenceId held[] = {sim.submit("flood", 40, 1000, 0), sim.submit("flood", 40, 1000, 0)};
  for (int i = 0; i < 20; ++i) sim.step();
  for (const SequenceId id : held) sim.pause(id);
  const double arrived = sim.now();
  const SequenceId guest = sim.submit("light", 8000, 1, arrived);
  while (sim.ttft(guest) < 0) sim.step();
  EXPECT_LE(sim.ttft(guest), 1.01 * alone(8000));
}

TEST(Guest, IsNobodyAmongEquals) {
  std::vector<std::vector<double>> ttfts;
  for (const bool one : {true, false}) {
    TimedEngine sim;
    std::vector<SequenceId> ids;
    for (std::uint32_t i = 0; i < 6; ++i)
      ids.push_back(sim.submit("app" + std::to_string(one ? 0 : i), 900 - 100 * i, 1, 0));
    const auto is_open = [&](SequenceId id) { return sim.ttft(id) < 0; };
    while (std::ranges::any_of(ids, is_open)) sim.step();
    const auto first = std::ranges::min(ids, {}, [&](SequenceId id) { return sim.ttft(id); });
    EXPECT_EQ(first, ids.back()) << "the shortest; a longer one has a step now and then";
    auto& times = ttfts.emplace_back();
    for (const SequenceId id : ids) times.push_back(sim.ttft(id));
  }
  EXPECT_EQ(ttfts[0], ttfts[1]);
}

}  // namespace
}  // namespace flyball::engine
