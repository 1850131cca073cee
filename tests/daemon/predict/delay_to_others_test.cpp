// The time that a request adds to interactive answers: sums by hand, and beside an engine that is simulated
// with the request and without it.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/fairness.hpp"
#include "daemon/predict/delay_to_others.hpp"
#include "daemon/predict/predictor.hpp"
#include "tests/daemon/predict/simulated_engine.hpp"

namespace flyball::predict {
namespace {

constexpr double kLater = 1e5;  // seconds, after which nobody expects another interactive request

// ---- by hand, at the engine itself ------------------------------------------------------------------------

// An engine whose steps take 20 ms and 2 ms for each further stream, and whose prompts take 1 ms a token.
EngineModel exact_model() {
  EngineModel model;
  std::mt19937 draw(1);
  for (int i = 0; i < 48; ++i) {
    const auto below = [&](unsigned n) { return static_cast<double>(draw() % n); };
    DecodeWork token{below(8), 0, below(20)};
    model.decoded(token, 20e-3 + 2e-3 * token.streams + 1e-3 * token.prompts);
    PrefillWork prompt{1 + below(400), 0, 0};
    model.prefilled(prompt, 5e-3 + 1e-3 * prompt.tokens);
  }
  return model;
}

struct OneEngine {
  Group group;
  EngineWork work{group};
  EngineModel model = exact_model();
  AnswerLength chat, other, batch;
  std::uint64_t last = 0;

  OneEngine() {
    for (int i = 0; i < 8; ++i) {
      chat.answered(100);
      other.answered(100);
      batch.answered(20);
    }
  }
  // Long ago: nobody expects another one.
  Stay& comes(AnswerLength& app, std::uint32_t prompt, bool interactive = true,
              config::QueuePlace place = config::QueuePlace::usual, double now = 1) {
    Stay stay;
    stay.id = stay.request = ++last;
    stay.app = &app;
    stay.prompt = prompt;
    stay.print = std::make_shared<const PromptPrint>();
    stay.placed = at(now);
    stay.interactive = interactive;
    stay.settings.place = place;
    Stay& entered = work.enter(std::move(stay));
    join_group(work, model);
    return entered;
  }
  Stay& prefills(AnswerLength& app, std::uint32_t prompt, bool interactive = true) {
    Stay& stay = comes(app, prompt, interactive);
    work.begin(stay, at(1), model);
    return stay;
  }
  // With its first token.
  Stay& decodes(AnswerLength& app, bool interactive = true,
                config::QueuePlace place = config::QueuePlace::usual) {
    Stay& stay = comes(app, 10, interactive, place);
    work.begin(stay, at(1), model);
    work.first_token(stay, at(1), model);
    work.generated(stay, 1, at(1));
    return stay;
  }
  // A request with a prompt of so many tokens and an answer of 20.
  EngineWork::Asked asked(std::uint32_t prompt, std::uint32_t slots = 16) const {
    EngineWork::Asked out;
    out.app = &batch;
    out.tokens = out.prompt = prompt;
    out.output = 20;
    out.slots = slots;
    return out;
  }
  DelayToOthers delay(std::uint32_t prompt, double now = kLater) { return delay_of(asked(prompt), now); }
  // Milliseconds. The request takes as long as the model says.
  DelayToOthers delay_of(const EngineWork::Asked& asked, double now = kLater) {
    foresee_interactive(group, asked.request, at(now));
    const EngineWork::Ahead ahead = work.ahead(asked, model, at(now));
    const double prompt = 5e-3 + 1e-3 * asked.tokens;
    const double token = 20e-3 + 2e-3 * (ahead.streams_later + std::min(asked.answers, asked.slots) - 1);
    const double rounds = std::ceil(static_cast<double>(asked.answers) / asked.slots);
    const double begins = ahead.turn + 1e-3 * ahead.tokens;
    const Course course{begins, begins + prompt + rounds * asked.output * token, prompt, token};
    DelayToOthers out = delay_to_others(asked, ahead, course, work, model, at(now));
    for (double* const each : {&out.here, &out.beside, &out.to_come}) *each *= 1e3;
    return out;
  }
};

TEST(DelayToOthers, IsNothingWhereNobodyIs) {
  OneEngine engine;
  EXPECT_EQ(engine.delay(100).here, 0);
  EXPECT_EQ(engine.delay(100).to_come, 0);
}

// 40 tokens of the prompt take 40 ms of its steps, and each of the 20 tokens behind it 2 ms.
TEST(DelayToOthers, OfAStreamIsThePromptAndWhatAStreamAddsToEachToken) {
  OneEngine engine;
  engine.decodes(engine.chat);
  EXPECT_NEAR(engine.delay(40).here, 40 + 20 * 2, 4);
  engine.decodes(engine.chat);
  EXPECT_NEAR(engine.delay(40).here, 2 * (40 + 20 * 2), 8) << "all of them together";
}

TEST(DelayToOthers, OfAStreamThatEndsSoonIsItsRest) {
  OneEngine engine;
  Stay& stay = engine.decodes(engine.chat);
  engine.work.generated(stay, 89, at(1));
  EXPECT_NEAR(engine.delay(1).here, 1 + 9 * 2, 2) << "10 tokens, one of them beside the prompt";
}

TEST(DelayToOthers, OfAStreamThatEndsBeforeTheRequestBeginsIsNothing) {
  OneEngine engine;
  engine.decodes(engine.chat);
  EXPECT_LT(engine.delay_of(engine.asked(40, 1)).here, 5);
  EXPECT_GT(engine.delay_of(engine.asked(40, 2)).here, 50);
}

// The whole prompt, and its own 20 tokens beside the answer.
TEST(DelayToOthers, OfAPromptBehindIsTheWholePrompt) {
  OneEngine engine;
  engine.prefills(engine.chat, 500);
  EXPECT_NEAR(engine.delay(40, 1.0).here, 45 + 20 * 2, 6);
}

// It decodes by then: some steps have a part of the request's prompt, which is longer.
TEST(DelayToOthers, OfAPromptThatGoesFirstIsThatOfAStream) {
  OneEngine engine;
  engine.prefills(engine.chat, 30);
  EXPECT_NEAR(engine.delay(40, 1.0).here, 40 + 20 * 2, 6);
}

// Side by side as far as there are slots, and then one after the other.
TEST(DelayToOthers, OfSeveralAnswersIsWhatEachAddsToATokenOfAStream) {
  OneEngine engine;
  engine.decodes(engine.chat);
  EngineWork::Asked asked = engine.asked(40);
  asked.answers = 4;
  EXPECT_NEAR(engine.delay_of(asked).here, 40 + 20 * 4 * 2, 10);
  asked.answers = 32;
  EXPECT_NEAR(engine.delay_of(asked).here, 40 + 2 * 20 * 16 * 2, 60);
}

// 100 prompts of 10 tokens have 5,500 pairs; one of 1,000 tokens has 500,500.
TEST(DelayToOthers, OfFurtherPromptsIsThatOfEachApart) {
  OneEngine engine;
  for (int i = 0; i < 200; ++i) {
    const PrefillWork prompt{1 + 5.0 * i, pairs_of(1 + 5.0 * i, 0), 0};
    engine.model.prefilled(prompt, 5e-3 + 1e-3 * prompt.tokens + 1e-5 * prompt.pairs);
  }
  engine.decodes(engine.chat);
  EngineWork::Asked asked = engine.asked(10);
  asked.own_prompts = 990.0 / 20;
  EXPECT_NEAR(engine.delay_of(asked).here, 1000 + 55 + 20 * 2, 120);
}

struct ShortOfSlots {
  const char* name;
  std::uint32_t slots, answers;
  bool goes_first;  // before the one that waits
  double delay;     // milliseconds, of the one that waits
};
void PrintTo(const ShortOfSlots& one, std::ostream* out) {
  *out << one.name;
}
class WithoutAFreeSlot : public ::testing::TestWithParam<ShortOfSlots> {};

// Batch answers have all slots, and one interactive request waits.
TEST_P(WithoutAFreeSlot, AWaitingRequestIsDelayedByItsPartOfTheStay) {
  const ShortOfSlots& row = GetParam();
  OneEngine engine;
  for (std::uint32_t i = 0; i < row.slots; ++i) engine.decodes(engine.other, false);
  engine.comes(engine.chat, 10);
  EngineWork::Asked asked = engine.asked(40, row.slots);
  asked.answers = row.answers;
  TurnForecast turn;
  turn.taken = row.slots;
  turn.waiting = 1;
  turn.waiting_tokens = 10;
  turn.before = row.goes_first ? 0 : 1;
  turn.ends = row.goes_first ? 1 : 2;
  turn.ends_between = row.answers > 1 ? row.answers - 1 : 0;
  asked.turn = &turn;
  EXPECT_NEAR(engine.delay_of(asked).here, row.delay, 0.1 * row.delay);
}

// The stay: 45 ms of its prompt and 20 steps, or 40 where its answers need two rounds.
INSTANTIATE_TEST_SUITE_P(Table, WithoutAFreeSlot,
                         ::testing::Values(ShortOfSlots{"one_slot", 1, 1, true, 45 + 20 * 20},
                                           ShortOfSlots{"one_of_four_slots", 4, 1, true,
                                                        (45 + 20 * 26) / 4.0},
                                           ShortOfSlots{"all_slots_for_two_rounds", 2, 4, true, 45 + 40 * 22},
                                           ShortOfSlots{"one_before_the_request", 4, 1, false, 40 + 20 * 2}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(DelayToOthers, CountsNobodyWhoDoesNotWait) {
  OneEngine engine;
  engine.decodes(engine.chat, false);
  engine.decodes(engine.other, true, config::QueuePlace::behind);
  EXPECT_EQ(engine.delay(40).here, 0);
  EXPECT_EQ(engine.delay(40).to_come, 0);
  Stay& moved = engine.decodes(engine.chat);
  EXPECT_GT(engine.delay(40).here, 0);
  engine.work.asks(moved.id, {{}, config::QueuePlace::behind});
  EXPECT_EQ(engine.delay(40).here, 0);
  engine.work.asks(moved.id, {});
  join_group(engine.work, engine.model);
  EXPECT_GT(engine.delay(40).here, 0);
  engine.work.leave(moved.id, at(kLater), engine.model);
  EXPECT_EQ(engine.delay(40).here, 0);
}

TEST(DelayToOthers, OfTheRequestsOwnAnswersIsNothing) {
  OneEngine engine;
  Stay& stay = engine.decodes(engine.chat);
  EngineWork::Asked asked;
  asked.app = &engine.chat;
  asked.request = stay.request;
  asked.tokens = asked.prompt = 40;
  asked.output = 20;
  asked.slots = 4;
  EXPECT_EQ(engine.delay_of(asked).here, 0);
  asked.request = 0;
  EXPECT_GT(engine.delay_of(asked).here, 0);
}

// 100 tokens are left of the answer, and 200 ms of the prompt.
TEST(DelayToOthers, OfARequestBehindIsItsShareOfTheTimeOfOthers) {
  OneEngine engine;
  EngineWork::Asked asked = engine.asked(40);
  asked.settings.place = config::QueuePlace::behind;
  EXPECT_EQ(engine.delay_of(asked).here, 0);
  engine.decodes(engine.chat);
  const double one = engine.delay_of(asked).here;
  EXPECT_NEAR(one, kBehindShare * 100 * 20, 0.2 * one);
  engine.decodes(engine.chat);
  EXPECT_NEAR(engine.delay_of(asked).here, kBehindShare * 2 * 100 * 22, 0.2 * 2 * one);
}

// ---- requests to come -------------------------------------------------------------------------------------

// One comes in each second. It meets half of the prompt and then 20 tokens, or half of the 20 tokens.
TEST(DelayToOthers, OfRequestsToComeIsWhatTheyMeetOfTheRequest) {
  OneEngine engine;
  for (int i = 0; i < 1500; ++i) {
    Stay& stay = engine.comes(engine.chat, 10, true, config::QueuePlace::usual, kLater + i);
    engine.work.leave(stay.id, at(kLater + i), engine.model);
  }
  const double now = kLater + 1500, prompt = 0.105, answer = 20 * 0.02;
  const double expected = prompt * (100 / 2 + 20 * 2) + answer * (20 / 2 * 2);
  const DelayToOthers delay = engine.delay(100, now);
  EXPECT_EQ(delay.here, 0);
  EXPECT_NEAR(delay.to_come, expected, 0.15 * expected);
  EngineWork::Asked behind = engine.asked(100);
  behind.settings.place = config::QueuePlace::behind;
  EXPECT_NEAR(engine.delay_of(behind, now).to_come,
              kBehindShare * 1e3 * (prompt + answer) * (prompt + answer) / 2,
              0.15 * kBehindShare * 1e3 * (prompt + answer) * (prompt + answer) / 2);
  // With one slot, half of the stay besides.
  const double with_turn = expected + (prompt + answer) * 1e3 * (prompt + answer) / 2;
  EXPECT_NEAR(engine.delay_of(engine.asked(100, 1), now).to_come, with_turn, 0.15 * with_turn);
}

TEST(InteractiveArrivals, AreARateAndAMeanThatWane) {
  InteractiveArrivals arrivals;
  EXPECT_EQ(arrivals.mean(at(1000)).per_second, 0);
  for (int i = 1; i <= 1200; ++i) arrivals.came(at(1000 + 0.5 * i), i % 2 == 0 ? 100 : 300, 40);
  EXPECT_NEAR(arrivals.mean(at(1600)).per_second, 2, 0.25);
  EXPECT_NEAR(arrivals.mean(at(1600)).tokens, 200, 1);
  EXPECT_NEAR(arrivals.mean(at(1600)).output, 40, 0.1);
  EXPECT_NEAR(arrivals.mean(at(1900)).per_second, 2 * std::exp(-1), 0.1);
  EXPECT_EQ(arrivals.mean(at(6000)).per_second, 0);
}

TEST(InteractiveArrivals, BelowOneInTenMinutesAreNone) {
  InteractiveArrivals arrivals;
  arrivals.came(at(1000), 100, 40);
  EXPECT_GT(arrivals.mean(at(1060)).per_second, 1.0 / 600);
  EXPECT_EQ(arrivals.mean(at(1600)).per_second, 0);
}

// ---- beside a simulated engine ----------------------------------------------------------------------------

Simulated chat_at(double time, std::uint32_t prompt, std::uint32_t output, int app) {
  Simulated out;
  out.app = "chat-" + std::to_string(app);
  out.at = time;
  out.prompt = prompt;
  out.output = output;
  return out;
}
Simulated batch_at(double time, std::uint32_t prompt, std::uint32_t output) {
  Simulated out = chat_at(time, prompt, output, 0);
  out.app = "batch";
  out.interactive = false;
  return out;
}

constexpr int kApps = 6;

// An engine that has answered all apps, alone and several at once. Its chat answers have `output` tokens, and
// those of batch work `batch_output`.
struct Warm {
  Predictor predictor{KeyedHash(1, 2)};
  SimulatedEngine engine;
  Warm(std::uint32_t output, std::uint32_t batch_output, std::uint64_t seed) : engine(predictor, 16, seed) {
    engine.costs.noise = 0.01;
    std::mt19937 draw(static_cast<unsigned>(seed));
    std::vector<Simulated> before;
    for (int i = 0; i < 60; ++i)
      for (int beside = 0; beside < 1 + i % 4; ++beside) {
        const auto prompt = static_cast<std::uint32_t>(20 + draw() % 600);
        before.push_back(i % 5 == 4 ? batch_at(10.0 * i, prompt, batch_output)
                                    : chat_at(10.0 * i, prompt, output, (i + beside) % kApps));
      }
    engine.run(before);
  }
};

struct AddedTime {
  double predicted = 0, actual = 0;  // seconds
};
// `all` has one batch request. `quiet`: nobody has come for so long before.
AddedTime added_time(std::vector<Simulated> all, std::uint32_t output, std::uint32_t batch_output,
                     std::uint64_t seed, double quiet) {
  AddedTime out;
  for (const bool with : {true, false}) {
    Warm warm(output, batch_output, seed);
    warm.engine.costs.noise = 0;
    std::vector<Simulated> requests;
    for (Simulated one : all) {
      one.at += warm.engine.now() + quiet;
      if (with || one.interactive) requests.push_back(one);
    }
    warm.engine.run(requests);
    for (const Simulated& one : requests) {
      if (one.interactive) out.actual += with ? one.total : -one.total;
      if (!one.interactive) out.predicted = one.predicted.delay_to_others.value().sum();
    }
  }
  return out;
}

struct Scene {
  const char* name;
  std::vector<Simulated> requests;
  std::uint32_t output = 60, batch_output = 40;
};
void PrintTo(const Scene& one, std::ostream* out) {
  *out << one.name;
}
class Simulation : public ::testing::TestWithParam<Scene> {};

// Nobody comes after the batch request.
TEST_P(Simulation, DelaysOthersAboutAsMuchAsForetold) {
  const Scene& scene = GetParam();
  AddedTime sum;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const AddedTime one = added_time(scene.requests, scene.output, scene.batch_output, seed, kLater);
    sum.predicted += one.predicted;
    sum.actual += one.actual;
  }
  EXPECT_GT(sum.actual, 0.08);
  EXPECT_NEAR(sum.predicted, sum.actual, 0.15 * sum.actual);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Simulation,
    ::testing::Values(Scene{"OneStream", {chat_at(0, 50, 60, 0), batch_at(0.1, 300, 40)}},
                      Scene{"FourStreams",
                            {chat_at(0, 50, 60, 0), chat_at(0, 50, 60, 1), chat_at(0, 50, 60, 2),
                             chat_at(0, 50, 60, 3), batch_at(0.15, 300, 40)}},
                      Scene{"AStreamThatEndsSoon", {chat_at(0, 50, 60, 0), batch_at(0.2, 30, 40)}},
                      Scene{"LongPromptsBehind",
                            {chat_at(0, 800, 60, 0), chat_at(0, 900, 60, 1), batch_at(0.01, 200, 40)}},
                      Scene{"ShortPromptsBeforeALongOne",
                            {chat_at(0, 200, 60, 0), chat_at(0, 250, 60, 1), batch_at(0.01, 900, 40)}},
                      Scene{"ALongAnswer",
                            {chat_at(0, 50, 200, 0), chat_at(0, 50, 200, 1), batch_at(0.2, 100, 150)},
                            200,
                            150}),
    [](const auto& row) { return std::string(row.param.name); });

// Chat requests come all the while, before the batch request and beside it. Over 400 seeds the prediction is
// 12 % low: a delayed answer delays others in turn.
TEST(SimulatedArrivals, DelayAboutAsMuchAsForetold) {
  constexpr double kBatchAt = 1200;
  AddedTime sum;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 draw(seed);
    std::exponential_distribution<double> gap(0.5);
    std::vector<Simulated> requests;
    double now = 0;
    bool sent = false;
    for (int i = 0; now < kBatchAt + 15; ++i) {
      now += gap(draw);
      if (now > kBatchAt && !sent) requests.push_back(batch_at(kBatchAt, 600, 150));
      sent = now > kBatchAt;
      requests.push_back(chat_at(now, static_cast<std::uint32_t>(50 + draw() % 300), 40, i % kApps));
    }
    const AddedTime one = added_time(requests, 40, 150, seed, 100);
    sum.predicted += one.predicted;
    sum.actual += one.actual;
  }
  EXPECT_NEAR(sum.predicted, sum.actual, 0.15 * sum.actual);
}

// ---- engines that share the cores -------------------------------------------------------------------------

constexpr double kTtftAlone = 0.3, kTpotAlone = 0.02;  // seconds, of an engine alone
constexpr std::uint32_t kPromptTokens = 100, kAnswerTokens = 30;

// Three engines, each seen at work alone, and long ago.
struct SharedEngines {
  Predictor predictor;
  std::vector<EngineState> engines{{"cpu", true, 1}, {"vulkan", true, 2}, {"opencl", true, 3}};
  policy::Facts facts = machine();
  double now = 100;

  explicit SharedEngines(const DeviceGroups& devices = {}, bool people = true)
      : predictor(KeyedHash(1, 2), devices) {
    for (const EngineState& engine : engines)
      for (int i = 0; i < 5; ++i) {
        now += 1;
        auto place = at_work(engine.backend, people);
        place.received({"t", {1}, {}, kPromptTokens, 0}, at(now += kTtftAlone));
        const double decode = (kAnswerTokens - 1) * kTpotAlone;
        place.finished({kPromptTokens, kAnswerTokens, 0}, {0, 0, static_cast<std::uint64_t>(decode * 1e6)},
                       at(now += decode));
      }
    now += kLater;
  }
  Query query(bool interactive) {
    Query out;
    out.app = interactive ? "chat" : "batch";
    out.model = "m";
    out.prompt =
        std::make_shared<const PromptPrint>(PromptPrint{.bytes = 5 * kPromptTokens, .tokens = kPromptTokens});
    out.declared_output = kAnswerTokens;
    out.slots = 4;
    out.engines = engines;
    out.now = at(now);
    out.interactive = interactive;
    out.asks_delay_to_others = true;
    return out;
  }
  Predictor::Place at_work(std::string_view backend, bool interactive, std::uint64_t request = 0,
                           bool moved = false) {
    Query asked = query(interactive);
    asked.request = request;
    auto place = predictor.enter({asked, backend, facts, true, false, moved});
    place.began(at(now));
    return place;
  }
  // A chat answer at vulkan with so many tokens left.
  Predictor::Place chat_at_vulkan(std::uint32_t left) {
    auto place = at_work("vulkan", true);
    place.received({"t", std::vector<Token>(kAnswerTokens - left, 1), {}, kPromptTokens, 0}, at(now));
    return place;
  }
  // Milliseconds, of a batch request at this engine.
  DelayToOthers delay(std::string_view backend) {
    const auto prediction = predictor.expect(query(false), backend, true);
    DelayToOthers out = prediction.value().delay_to_others.value();
    for (double* const each : {&out.here, &out.beside, &out.to_come}) *each *= 1e3;
    return out;
  }
};

// 20 tokens are left, of 20 ms each, and take twice as long while the other engine is at work.
TEST(DelayBeside, IsWhatTheOtherEngineSlowsAnAnswerBy) {
  SharedEngines engines;
  const auto chat = engines.chat_at_vulkan(20);
  EXPECT_NEAR(engines.delay("cpu").beside, 400, 40);
  EXPECT_EQ(engines.delay("cpu").here, 0);
  EXPECT_EQ(engines.delay("vulkan").beside, 0);
  EXPECT_GT(engines.delay("vulkan").here, 0);
}

// 300 ms of the prompt and 30 tokens.
TEST(DelayBeside, CountsThePromptThatIsComputed) {
  SharedEngines engines;
  const auto chat = engines.at_work("vulkan", true);
  EXPECT_NEAR(engines.delay("cpu").beside, 300 + 600, 90);
}

TEST(DelayBeside, IsNothingOnOtherDevices) {
  SharedEngines engines({{"vulkan"}});
  const auto chat = engines.chat_at_vulkan(20);
  EXPECT_EQ(engines.predictor.expect(engines.query(false), "cpu", true)->delay_to_others->sum(), 0);
}

// An engine that is at work anyway for longer than the answer lasts slows it no more.
TEST(DelayBeside, IsNothingWhereTheEngineIsAtWorkAnyway) {
  SharedEngines engines;
  const auto chat = engines.chat_at_vulkan(20);
  auto other = engines.at_work("cpu", false);
  other.received({"t", {1}, {}, kPromptTokens, 0}, at(engines.now));
  EXPECT_EQ(engines.delay("cpu").beside, 0);
}

// The answer would take longer than the request stays: it loses half of the stay.
TEST(DelayBeside, IsNoMoreThanTheRequestsStay) {
  SharedEngines engines;
  auto place = engines.predictor.enter({[&] {
                                          Query query = engines.query(true);
                                          query.app = "writer";
                                          query.declared_output = 1000;
                                          return query;
                                        }(),
                                        "vulkan", engines.facts});
  place.began(at(engines.now));
  place.received({"t", {1}, {}, kPromptTokens, 0}, at(engines.now));
  const auto prediction = engines.predictor.expect(engines.query(false), "cpu", true);
  const double stay = static_cast<double>(prediction->total->p50) / 1e3;
  EXPECT_NEAR(prediction->delay_to_others->beside * 1e3, stay / 2, 0.05 * stay);
}

TEST(DelayBeside, CountsRequestsThatShouldCome) {
  SharedEngines engines;
  EXPECT_EQ(engines.delay("cpu").to_come, 0) << "nobody has come for a day";
  for (int i = 0; i < 600; ++i) {
    engines.now += 2;
    engines.chat_at_vulkan(20);
  }
  // One in two seconds comes in the 0.88 s that the request takes, and would lose half of the overlap.
  EXPECT_NEAR(engines.delay("cpu").to_come, 0.5 * 0.88 * 0.44 * 0.5 * 1e3, 15);
  EXPECT_EQ(engines.delay("cpu").beside, 0);
}

// With vulkan at work an arrival at opencl takes twice 0.88 s, and three times beside cpu, too: it loses a
// third of the half that overlaps the 1.76 s at cpu.
TEST(DelayBeside, OfAnArrivalCountsTheEngineThatItStarts) {
  SharedEngines engines;
  for (int i = 0; i < 600; ++i) {
    engines.now += 2;
    engines.at_work("opencl", true);
  }
  const auto other = engines.at_work("vulkan", false);
  EXPECT_NEAR(engines.delay("cpu").to_come, 0.5 * 1.76 * 0.88 / 3 * 1e3, 40);
}

TEST(DelayBeside, OfTheRequestsOwnAnswersIsNothing) {
  SharedEngines engines;
  const auto own = engines.at_work("vulkan", true, 7);
  Query query = engines.query(true);
  query.request = 7;
  EXPECT_EQ(engines.predictor.expect(query, "cpu", true)->delay_to_others->beside, 0);
  query.request = 8;
  EXPECT_GT(engines.predictor.expect(query, "cpu", true)->delay_to_others->beside, 0);
}

TEST(DelayBeside, CountsAnAnswerThatLeavesThePlaceBehind) {
  SharedEngines engines;
  Query query = engines.query(true);
  query.settings.place = config::QueuePlace::behind;
  auto place = engines.predictor.enter({query, "vulkan", engines.facts});
  place.began(at(engines.now));
  EXPECT_EQ(engines.delay("cpu").beside, 0);
  place.asks({});
  EXPECT_GT(engines.delay("cpu").beside, 0);
}

TEST(DelayBeside, AMoveIsNoSecondArrival) {
  const auto to_come = [](bool moves, bool moved) {
    SharedEngines engines;
    for (std::uint64_t i = 1; i <= 30; ++i) {
      engines.now += 2;
      engines.at_work("vulkan", true, i);
      if (moves) engines.at_work("opencl", true, i, moved);
    }
    return engines.delay("cpu").to_come;
  };
  EXPECT_NEAR(to_come(true, true), to_come(false, false), 2);
  EXPECT_GT(to_come(true, false), 1.5 * to_come(false, false));
}

// ---- the fact ---------------------------------------------------------------------------------------------

const policy::Fact* delay_fact(SharedEngines& engines, Query query, policy::Facts& facts) {
  facts = engines.facts;
  engines.predictor.predict(query, facts);
  return facts.get("backend.cpu.expected_delay_to_others");
}

TEST(DelayFact, IsSetWithItsSum) {
  SharedEngines engines;
  const auto chat = engines.chat_at_vulkan(20);
  policy::Facts facts;
  const policy::Fact* const fact = delay_fact(engines, engines.query(false), facts);
  ASSERT_NE(fact, nullptr);
  const DelayToOthers sum =
      engines.predictor.expect(engines.query(false), "cpu", true)->delay_to_others.value();
  EXPECT_EQ(std::get<std::int64_t>(fact->value), std::llround(sum.sum() * 1e6));
  EXPECT_EQ(fact->source.substr(0, 54), "predicted: answers here 0 ms + at engines beside it 40")
      << fact->source;
}

TEST(DelayFact, IsNothingWhereNobodyIsAndNobodyIsExpected) {
  SharedEngines engines({}, false);
  policy::Facts facts;
  const policy::Fact* const fact = delay_fact(engines, engines.query(false), facts);
  ASSERT_NE(fact, nullptr);
  EXPECT_EQ(std::get<std::int64_t>(fact->value), 0);
}

TEST(DelayFact, IsNotSetUnlessThePolicyAsks) {
  SharedEngines engines;
  Query query = engines.query(false);
  query.asks_delay_to_others = false;
  policy::Facts facts;
  EXPECT_EQ(delay_fact(engines, query, facts), nullptr);
}

TEST(DelayFact, IsUnknownWithoutABasis) {
  SharedEngines engines;
  Query query = engines.query(false);
  query.model = "another";
  policy::Facts facts;
  EXPECT_EQ(delay_fact(engines, query, facts), nullptr);
}

TEST(DelayFact, IsUnknownWhereOnlyTheTimeToTheFirstTokenIsKnown) {
  SharedEngines engines;
  Query query = engines.query(false);
  query.model = "another";
  for (int i = 0; i < 5; ++i) {
    auto place = engines.predictor.enter({query, "cpu", engines.facts});
    query.now = at(engines.now += 1);
    place.began(query.now);
    query.now = at(engines.now += kTtftAlone);
    place.received({"t", {1}, {}, kPromptTokens, 0}, query.now);
    place.finished({kPromptTokens, 1, 0}, {}, query.now);
  }
  policy::Facts facts;
  EXPECT_EQ(delay_fact(engines, query, facts), nullptr);
  EXPECT_NE(facts.get("backend.cpu.expected_ttft"), nullptr);
}

TEST(DelayFact, OfSomebodyElseIsKept) {
  SharedEngines engines;
  engines.facts.set("backend.cpu.expected_delay_to_others", std::int64_t{77}, "override");
  policy::Facts facts;
  EXPECT_EQ(std::get<std::int64_t>(delay_fact(engines, engines.query(false), facts)->value), 77);
}

// A profile that lets others' prompts go first delays them less.
TEST(DelayFact, IsThatOfTheProfile) {
  SharedEngines engines;
  const auto chat = engines.at_work("cpu", true);  // its prompt is computed
  Query query = engines.query(false);
  query.prompt = std::make_shared<const PromptPrint>(PromptPrint{.bytes = 250, .tokens = 50});
  const std::vector<ProfileTarget> profiles{{"cpu", "night", {{}, config::QueuePlace::behind}}};
  query.profiles = profiles;
  policy::Facts facts;
  const policy::Fact* const fact = delay_fact(engines, query, facts);
  ASSERT_NE(fact, nullptr);
  const policy::Fact* const night =
      facts.get(*policy::find_fact("backend.cpu.expected_delay_to_others"), "night");
  ASSERT_NE(night, nullptr);
  EXPECT_LT(std::get<std::int64_t>(night->value), 0.7 * std::get<std::int64_t>(fact->value));
}

}  // namespace
}  // namespace flyball::predict
