// From loads and answers to rows of the ledger, and what the store gives back of them.
#include "daemon/measure/outcomes.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/daemon/store/support.hpp"

namespace flyball::measure {
namespace {

constexpr std::int64_t kThen = 1'800'000'000;
// 20 GB/s and 200 GFLOP/s under a model of 1 GB and 2 GFLOP a token.
Book predicted_book() {
  config::ModelEntry model;
  model.id = "m";
  model.embedded = true;
  const Engine engine{"cpu", "a processor", "v1", {20, 200, 0, kThen}};
  return Book({}, {&engine, 1}, {&model, 1},
              {{{"m", {1'000'000'000, 1'000'000'000, 1'000'000'000, false, false}}}});
}
AnswerSeen answer(std::uint32_t prompt, std::uint32_t cached, std::uint32_t written) {
  return {"m", "cpu", {prompt, written, cached}, {0, 3'000'000, 1'500'000}};
}

TEST(OutcomesOf, ALoad) {
  const auto rows = outcomes_of(predicted_book(), LoadSeen{"m", "cpu", 1000, 1010, 450}, kThen);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].quantity, Quantity::bytes);
  EXPECT_EQ(rows[0].basis, Basis::file);
  EXPECT_EQ(rows[0].predicted, 1000);
  EXPECT_EQ(rows[0].actual, 1010);
  EXPECT_EQ(rows[1].quantity, Quantity::load_ms);
  EXPECT_EQ(rows[1].basis, Basis::roofline);
  EXPECT_EQ(rows[1].predicted, 300);
  EXPECT_EQ(rows[1].actual, 450);
  EXPECT_EQ(outcomes_of(Book(), LoadSeen{"m", "cpu", 1000, 1010, 450}, kThen).size(), 1U)
      << "no time was predicted";
  EXPECT_TRUE(outcomes_of(Book(), LoadSeen{"m", "cpu", 0, 1010, 450}, kThen).empty());
}

TEST(OutcomesOf, AnAnswer) {
  const auto rows = outcomes_of(predicted_book(), answer(276, 20, 31), kThen);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].quantity, Quantity::ttft_ms);
  EXPECT_DOUBLE_EQ(rows[0].predicted, 2560) << "of the 256 tokens that were computed";
  EXPECT_EQ(rows[0].actual, 3000);
  EXPECT_EQ(rows[1].quantity, Quantity::decode_tps);
  EXPECT_DOUBLE_EQ(rows[1].predicted, 20);
  EXPECT_DOUBLE_EQ(rows[1].actual, 20) << "30 tokens behind the first in 1.5 s";
  EXPECT_EQ(outcomes_of(predicted_book(), answer(276, 276, 31), kThen).size(), 1U)
      << "no prompt was computed";
  EXPECT_EQ(outcomes_of(predicted_book(), answer(276, 0, kLeastDecoded), kThen).size(), 1U)
      << "too short an answer";
  EXPECT_TRUE(outcomes_of(Book(), answer(276, 0, 31), kThen).empty());
}

TEST(OutcomesOf, AnEngineIsIdleWhereItSaidSo) {
  policy::Facts facts;
  EXPECT_FALSE(engine_was_idle(facts, "cpu")) << "not known";
  facts.set("backend.cpu.running", std::int64_t{0}, "supervisor");
  facts.set("backend.cpu.queue_waiting", std::int64_t{0}, "supervisor");
  EXPECT_TRUE(engine_was_idle(facts, "cpu"));
  EXPECT_FALSE(engine_was_idle(facts, "vulkan"));
  EXPECT_FALSE(engine_was_idle(facts, "none"));
  facts.set("backend.cpu.running", std::int64_t{1}, "supervisor");
  EXPECT_FALSE(engine_was_idle(facts, "cpu"));
}

class OutcomeStore : public test::StoreDirectory {};

TEST_F(OutcomeStore, WhatWasLearnedSurvivesARestart) {
  {
    store::Writer writer(open());
    Outcomes outcomes(std::make_shared<PredictionLedger>(), &writer);
    for (int i = 0; i < 3; ++i) outcomes.loaded(predicted_book(), {"m", "cpu", 1000, 1030, 600}, kThen);
    outcomes.loaded(predicted_book(), {"m", "cpu", 1000, 0, 0}, kThen);  // says nothing
  }
  auto database = open();
  const auto ledger = load_ledger(database);
  ASSERT_TRUE(ledger) << ledger.error().message;
  EXPECT_EQ(ledger->correction("m", "cpu", Quantity::load_ms), 2);
  EXPECT_NEAR(ledger->margin("cpu"), 0.03, 1e-12);
  ASSERT_EQ(ledger->summaries().size(), 2U);
  EXPECT_EQ(ledger->summaries()[0].kept, 3U);
  EXPECT_EQ(ledger->summaries()[0].latest.at, kThen);
}

TEST_F(OutcomeStore, OfAnswersASampleIsKept) {
  Outcomes outcomes(std::make_shared<PredictionLedger>(), nullptr);
  const auto kept = [&] { return outcomes.ledger().summaries().at(0).kept; };
  const Book book = predicted_book();
  outcomes.answered(book, answer(100, 0, 1), kThen);
  outcomes.answered(book, answer(100, 0, 1), kThen + Outcomes::kSampleSeconds - 1);
  EXPECT_EQ(kept(), 1U);
  outcomes.answered(book, answer(100, 0, 1), kThen + Outcomes::kSampleSeconds);
  EXPECT_EQ(kept(), 2U);
  outcomes.answered(book, answer(100, 0, 1), kThen - 1'000'000);
  EXPECT_EQ(kept(), 3U) << "a clock that was set back is no reason to wait";
}

TEST_F(OutcomeStore, TheFileIsBounded) {
  auto database = open();
  const std::vector<Outcome> some(100, {"m", "cpu", Quantity::bytes, Basis::file, 1, 1, kThen});
  ASSERT_TRUE(database.transaction([&]() -> Result<void> {
    for (int i = 0; i < 60; ++i)
      if (auto ok = save(database, some); !ok) return ok;
    return {};
  }));
  std::int64_t rows = 0, last = 0;
  ASSERT_TRUE(database.query("SELECT count(*), max(id) FROM prediction_outcomes", {}, [&](store::Row row) {
    rows = store::integer(row[0]);
    last = store::integer(row[1]);
    return true;
  }));
  EXPECT_LE(rows, kMaxStored + kForgetEvery);
  EXPECT_GE(rows, kMaxStored);
  EXPECT_EQ(last, 6000);
}

TEST_F(OutcomeStore, PassesOverWhatANewerProgramWrote) {
  auto database = open();
  for (const char* row : {"'m', 'cpu', 'joules', 'file', 1, 1", "'m', 'cpu', 'bytes', 'a guess', 1, 1",
                          "'m', 'cpu', 'bytes', 'file', 'much', 1", "'m', 'cpu', 'bytes', 'file', -1, 1"})
    ASSERT_TRUE(
        database.run(std::string("INSERT INTO prediction_outcomes "
                                 "(at, model, backend, quantity, basis, predicted, actual) VALUES (1, ") +
                     row + ")"));
  const auto ledger = load_ledger(database);
  ASSERT_TRUE(ledger) << ledger.error().message;
  EXPECT_TRUE(ledger->summaries().empty());
}

}  // namespace
}  // namespace flyball::measure
