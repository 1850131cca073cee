// A prompt waits until the engine's KV has blocks for it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/predict/predictor.hpp"
#include "tests/daemon/predict/simulated_engine.hpp"

namespace flyball::predict {
namespace {

constexpr std::uint32_t kAnswer = 40;  // tokens
constexpr double kTokenTime = 0.02;    // seconds

// An engine with 2000 positions of KV and four slots; each answer has 40 tokens.
struct SmallKv {
  Predictor predictor{KeyedHash(1, 2)};
  std::vector<EngineState> engines{{"cpu", true, 1, 2'000, 0}};
  policy::Facts facts = machine();
  double now = 10;

  SmallKv() {
    for (const char* app : {"chat", "agent"})
      for (int i = 0; i < 8; ++i) {
        auto place = decodes(100, app);
        finish(place);
      }
  }
  Query query(std::uint32_t tokens, const char* app = "chat") {
    Query out;
    out.app = app;
    out.model = "m";
    out.prompt = std::make_shared<const PromptPrint>(PromptPrint{.bytes = 5 * tokens, .tokens = tokens});
    out.slots = 4;
    out.engines = engines;
    out.now = at(now);
    return out;
  }
  Predictor::Place decodes(std::uint32_t tokens, const char* app = "chat", std::uint32_t cached = 0) {
    Query asked = query(tokens, app);
    policy::Facts told = facts;
    predictor.predict(asked, told);  // tells it of the engine's room
    auto place = predictor.enter({asked, "cpu", facts});
    place.began(at(now));
    place.received({"t", {1}, {}, tokens, cached}, at(now += 0.001 * tokens));
    return place;
  }
  void finish(Predictor::Place& place) {
    now += kTokenTime * (kAnswer - 1);
    place.received({"t", std::vector<Token>(kAnswer - 1, 1), {}, 0, 0}, at(now));
    place.finished({100, kAnswer, 0}, {0, 0, static_cast<std::uint64_t>(kTokenTime * (kAnswer - 1) * 1e6)},
                   at(now));
  }
  double queue(std::uint32_t tokens, const char* app = "chat") {
    return static_cast<double>(predictor.expect(query(tokens, app), "cpu", true)->queue) / 1e6;
  }
};

TEST(KvRoom, APromptWaitsForTheEndOfAnAnswerWhoseBlocksItNeeds) {
  SmallKv engine;
  const auto large = engine.decodes(1500);
  EXPECT_EQ(engine.queue(400), 0) << "it fits beside the other";
  const double rest = kTokenTime * (kAnswer - 1);
  EXPECT_NEAR(engine.queue(800), rest, 0.3 * rest);
  engine.engines[0].kv_tokens = 4'000;
  EXPECT_EQ(engine.queue(800), 0);
  engine.engines[0].kv_tokens = 0;
  EXPECT_EQ(engine.queue(800), 0) << "nothing is known of its room";
}

TEST(KvRoom, AnOpenAnswerIsAsLongAsItsAppsLatestAnswers) {
  SmallKv engine;
  const auto large = engine.decodes(1500);
  const double before = engine.queue(800);
  constexpr std::uint32_t kLonger = 4 * kAnswer;
  for (int i = 0; i < 20; ++i) {
    auto place = engine.decodes(100);
    engine.now += kTokenTime * (kLonger - 1);
    place.received({"t", std::vector<Token>(kLonger - 1, 1), {}, 0, 0}, at(engine.now));
    place.finished({100, kLonger, 0}, {0, 0, static_cast<std::uint64_t>(kTokenTime * (kLonger - 1) * 1e6)},
                   at(engine.now));
  }
  EXPECT_GT(engine.queue(800), 2 * before);
}

TEST(KvRoom, TheAnswerThatEndsFirstMakesRoom) {
  SmallKv engine;
  auto old = engine.decodes(700);
  old.received({"t", std::vector<Token>(30, 1), {}, 0, 0}, at(engine.now += 30 * kTokenTime));
  const auto young = engine.decodes(700, "agent");
  EXPECT_EQ(engine.queue(400), 0);
  EXPECT_GT(engine.queue(800), 0);
  EXPECT_LT(engine.queue(800), 20 * kTokenTime) << "one end is enough";
  EXPECT_GT(engine.queue(1900), 30 * kTokenTime) << "it needs both to end";
}

TEST(KvRoom, AnswersGrow) {
  SmallKv engine;
  auto large = engine.decodes(1500);
  EXPECT_EQ(engine.queue(460), 0);
  large.received({"t", std::vector<Token>(30, 1), {}, 0, 0}, at(engine.now += 30 * kTokenTime));
  EXPECT_GT(engine.queue(460), 0);
}

TEST(KvRoom, SequencesOfAnAppShareWhatTheyFoundInTheCache) {
  SmallKv engine;
  const auto one = engine.decodes(900, "chat", 800), two = engine.decodes(900, "chat", 800);
  EXPECT_EQ(engine.queue(800), 0) << "they hold 1000 positions";
  const auto other = engine.decodes(900, "agent", 800);
  EXPECT_GT(engine.queue(800), 0) << "another app's are its own";
}

// Agents behind one long system prompt.
TEST(KvRoom, APromptNeedsNoBlocksForWhatItsAppsAnswersHoldOfIt) {
  Group group;
  EngineWork work(group);
  EngineModel model;
  AnswerLength app, other;
  for (int i = 0; i < 8; ++i) {
    app.answered(400);
    model.decoded({}, kTokenTime);
    PrefillWork prompt;
    prompt.tokens = 100;
    prompt.pairs = 5050;
    model.prefilled(prompt, 0.1);
  }
  Stay stay;
  stay.id = stay.request = 1;
  stay.app = &app;
  stay.prompt = 1500;
  PromptPrint print{.bytes = 7500, .tokens = 1500};
  for (std::uint64_t block = 1; block * kBlockBytes <= print.bytes; ++block) print.blocks.push_back(block);
  stay.print = std::make_shared<const PromptPrint>(print);
  stay.placed = at(1);
  work.enter(std::move(stay));
  work.begin(*work.find(1), at(1), model);
  work.first_token(*work.find(1), at(2), model);
  work.generated(*work.find(1), 1, at(2));
  EngineWork::Asked asked;
  asked.app = &app;
  asked.print = &print;
  asked.request = 2;
  asked.tokens = 100;  // 1400 are cached
  asked.prompt = 1500;
  asked.kv_tokens = 2'000;
  asked.output = 400;
  asked.slots = 4;
  EXPECT_FALSE(work.ahead(asked, model, at(2)).waits_for_room);
  PromptPrint another = print;
  for (std::uint64_t& block : another.blocks) block += 1000;
  asked.print = &another;
  EXPECT_TRUE(work.ahead(asked, model, at(2)).waits_for_room) << "its prefix is that of another conversation";
  asked.print = &print;
  asked.app = &other;
  EXPECT_TRUE(work.ahead(asked, model, at(2)).waits_for_room) << "another app's blocks are not its own";
}

TEST(KvRoom, ThePromptsOfThoseThatGoFirstTakeRoom) {
  SmallKv engine;
  const auto large = engine.decodes(1000);
  EXPECT_EQ(engine.queue(500, "third"), 0);
  const auto waits = engine.predictor.enter({engine.query(600, "agent"), "cpu", engine.facts});
  EXPECT_GT(engine.queue(500, "third"), 10 * kTokenTime) << "shorter, it is computed first once it has room";
}

TEST(KvRoom, AWaitForRoomIsNoPrefill) {
  SmallKv engine;
  const auto prefill = [&] { return engine.predictor.expect(engine.query(800), "cpu", true)->prefill; };
  const auto before = prefill();
  for (int i = 0; i < 20; ++i) {
    auto large = engine.decodes(1500);
    auto place = engine.predictor.enter({engine.query(800, "agent"), "cpu", engine.facts});
    place.began(at(engine.now));
    engine.finish(large);
    place.received({"t", {1}, {}, 800, 0}, at(engine.now += 0.8));
  }
  EXPECT_NEAR(static_cast<double>(prefill()), static_cast<double>(before), 0.1 * static_cast<double>(before));
}

// ---- of a load, in memory ---------------------------------------------------------------------------------

// An engine of `m` has to be loaded where another model's engine lies.
struct FullMemory : SmallKv {
  std::vector<Neighbour> neighbours{{"other", "cpu", 4'000}};

  FullMemory() {
    facts.set("model.bytes", std::int64_t{3'000}, "model file");
    facts.set("backend.cpu.memory_free", std::int64_t{1'000}, "supervisor");
    facts.set("backend.cpu.load_time", std::int64_t{700}, "measured");
    for (int i = 0; i < 8; ++i) {
      auto place = at_work("other", 100);
      place.received({"t", {1}, {}, 100, 0}, at(now += 0.1));
      finish(place);
    }
    engines[0].loaded = false;
  }
  Predictor::Place at_work(const char* model, std::uint32_t tokens) {
    Query asked = query(tokens);
    asked.model = model;
    auto place = predictor.enter({asked, "cpu", facts});
    place.began(at(now));
    return place;
  }
  // Seconds of the load of `m`.
  double load() {
    Query asked = query(100);
    asked.neighbours = neighbours;
    policy::Facts told = facts;
    predictor.predict(asked, told);
    return static_cast<double>(predictor.expect(asked, "cpu", true, 700)->load) / 1e6;
  }
};

TEST(MemoryRoom, ALoadWaitsForTheEndOfAnEngineWhoseMemoryItNeeds) {
  FullMemory memory;
  EXPECT_NEAR(memory.load(), 0.9, 0.01) << "the other engine ends at once";
  auto place = memory.at_work("other", 100);
  place.received({"t", {1}, {}, 100, 0}, at(memory.now += 0.1));
  const double rest = kTokenTime * (kAnswer - 1);
  EXPECT_NEAR(memory.load(), 0.9 + rest, 0.2 * rest) << "it ends when its answer has";
  memory.facts.set("backend.cpu.memory_free", std::int64_t{3'000}, "supervisor");
  EXPECT_NEAR(memory.load(), 0.7, 0.01) << "both fit";
}

TEST(MemoryRoom, AnEngineWithoutWorkEndsBeforeOneAtWork) {
  FullMemory memory;
  const auto place = memory.at_work("other", 1000);
  const double busy = memory.load();
  const auto idle = memory.predictor.enter({[&] {
                                              Query asked = memory.query(100);
                                              asked.model = "third";
                                              return asked;
                                            }(),
                                            "cpu", memory.facts});
  memory.neighbours.push_back({"third", "cpu", 2'000});
  EXPECT_NEAR(memory.load(), 0.9, 0.01);
  EXPECT_GT(busy, 1.5);
  memory.neighbours.back().bytes = 500;
  EXPECT_NEAR(memory.load(), busy, 0.01) << "it is too small";
}

TEST(MemoryRoom, AnEngineThatNobodyAskedAboutHasNoWork) {
  FullMemory memory;
  const auto place = memory.at_work("other", 1000);
  EXPECT_GT(memory.load(), 1.5);
  memory.neighbours.push_back({"unheard of", "cpu", 2'000});
  EXPECT_NEAR(memory.load(), 0.9, 0.01);
}

TEST(MemoryRoom, TheDelayToOthersIsUnknownWhereALoadEndsAnotherEngine) {
  FullMemory memory;
  const auto place = memory.at_work("other", 1000);
  const auto delay = [&] {
    Query asked = memory.query(100);
    asked.neighbours = memory.neighbours;
    asked.asks_delay_to_others = true;
    policy::Facts told = memory.facts;
    memory.predictor.predict(asked, told);
    EXPECT_NE(told.get("backend.cpu.expected_total"), nullptr);
    return told.get("backend.cpu.expected_delay_to_others");
  };
  EXPECT_EQ(delay(), nullptr);
  memory.facts.set("backend.cpu.memory_free", std::int64_t{3'000}, "supervisor");
  EXPECT_NE(delay(), nullptr) << "both fit";
}

TEST(MemoryRoom, ALoadThatHasItsMemoryWaitsForNobody) {
  FullMemory memory;
  const auto place = memory.at_work("other", 1000);
  EXPECT_GT(memory.load(), 1.5);
  memory.engines[0].starts = true;
  EXPECT_NEAR(memory.load(), 0.7, 0.01);
}

TEST(MemoryRoom, TheTimeOfAnEvictionIsLearnedApartFromTheLoads) {
  FullMemory memory;
  const auto loads = [&](double seconds) {
    memory.load();
    auto place = memory.predictor.enter({memory.query(100), "cpu", memory.facts});
    place.began(at(memory.now += seconds));
  };
  memory.facts.set("backend.cpu.memory_free", std::int64_t{3'000}, "supervisor");
  loads(0.7);
  memory.facts.set("backend.cpu.memory_free", std::int64_t{1'000}, "supervisor");
  EXPECT_NEAR(memory.load(), 0.9, 0.01);
  for (int i = 0; i < 6; ++i) loads(0.7 + 0.5);
  EXPECT_NEAR(memory.load(), 1.2, 0.1);
  memory.facts.set("backend.cpu.memory_free", std::int64_t{3'000}, "supervisor");
  EXPECT_NEAR(memory.load(), 0.7, 0.01);
}

}  // namespace
}  // namespace flyball::predict
