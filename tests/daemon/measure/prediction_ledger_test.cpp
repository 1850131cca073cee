// The ledger's books: what it keeps, by what it corrects, and what margin it asks for.
#include "daemon/measure/prediction_ledger.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace flyball::measure {
namespace {

Outcome load_of(double predicted, double actual, const std::string& model = "m", std::int64_t at = 1) {
  return {model, "cpu", Quantity::load_ms, Basis::roofline, predicted, actual, at};
}
Outcome bytes_of(double predicted, double actual) {
  return {"m", "cpu", Quantity::bytes, Basis::file, predicted, actual, 1};
}
double correction(const PredictionLedger& ledger, const char* model = "m") {
  return ledger.correction(model, "cpu", Quantity::load_ms);
}

TEST(PredictionLedger, CorrectsByTheMedianOfEnough) {
  PredictionLedger ledger;
  const auto add = [&](double predicted, double actual) {
    EXPECT_TRUE(ledger.add({"m", "cpu", Quantity::ttft_ms, Basis::roofline, predicted, actual, 1}));
  };
  const auto factor = [&] { return ledger.correction("m", "cpu", Quantity::ttft_ms); };
  EXPECT_EQ(factor(), 1);
  add(100, 200);
  add(100, 1500);
  EXPECT_EQ(factor(), 1) << "too few to say";
  add(100, 210);
  EXPECT_DOUBLE_EQ(factor(), 2.1);
  add(1000, 1900);
  EXPECT_DOUBLE_EQ(factor(), 2.05);
  EXPECT_EQ(ledger.correction("m", "vulkan", Quantity::ttft_ms), 1);
  EXPECT_EQ(correction(ledger), 1);
}

TEST(PredictionLedger, ALoadLastsAsLongAsTheMedianOfTheLatestThree) {
  PredictionLedger ledger;
  const auto seen = [&](double predicted = 100) { return ledger.load_ms("m", "cpu", predicted); };
  EXPECT_FALSE(seen());
  ledger.add(load_of(100, 1500));  // a cold disk
  EXPECT_EQ(seen(), 1500);
  ledger.add(load_of(70, 200));
  ledger.add({"m", "cpu", Quantity::load_ms, Basis::measured, 190, 210, 1});
  EXPECT_EQ(seen(), 210) << "whatever they were predicted by";
  ledger.add(load_of(100, 190));
  EXPECT_EQ(seen(), 200);
  ledger.add(load_of(100, 400));
  ledger.add(load_of(100, 400));
  EXPECT_EQ(seen(), 400);
  EXPECT_FALSE(ledger.load_ms("other", "cpu", 100));
  EXPECT_FALSE(ledger.load_ms("m", "vulkan", 100));
}

TEST(PredictionLedger, ALoadOfAnotherFileSaysNothing) {
  PredictionLedger ledger;
  ledger.add(load_of(900, 1000));
  EXPECT_EQ(ledger.load_ms("m", "cpu", 1200), 1000);
  EXPECT_FALSE(ledger.load_ms("m", "cpu", 60'000)) << "the model's file is a larger one now";
  ledger.add(load_of(60'000, 80'000));
  EXPECT_EQ(ledger.load_ms("m", "cpu", 60'000), 80'000);
}

TEST(PredictionLedger, AModelThatWasNeverLoadedGoesByTheOthersOfItsEngine) {
  PredictionLedger ledger;
  for (const double actual : {300.0, 300.0, 300.0}) ledger.add(load_of(100, actual, "large"));
  EXPECT_DOUBLE_EQ(correction(ledger, "new"), 3);
  EXPECT_EQ(ledger.correction("new", "cpu", Quantity::load_ms, Basis::measured), 1);
}

TEST(PredictionLedger, ACorrectionIsBounded) {
  PredictionLedger ledger;
  for (int i = 0; i < 3; ++i) ledger.add(load_of(1, 1e9));
  EXPECT_EQ(correction(ledger), predict::RatioWindow::kFurthest);
  for (std::size_t i = 0; i < PredictionLedger::kKept; ++i) ledger.add(load_of(1, 1e-9));
  EXPECT_EQ(correction(ledger), 1 / predict::RatioWindow::kFurthest);
}

TEST(PredictionLedger, AModelSeenTooRarelyGoesByTheLatestOfItsEngine) {
  PredictionLedger ledger;
  for (std::size_t i = 0; i < PredictionLedger::kKept; ++i) ledger.add(load_of(100, 300, "former"));
  for (std::size_t i = 0; i < PredictionLedger::kKept; ++i) ledger.add(load_of(100, 200, "latest"));
  EXPECT_DOUBLE_EQ(correction(ledger, "new"), 2);
}

TEST(PredictionLedger, AnImprovementIsFollowedAfterThree) {
  PredictionLedger ledger;
  const auto speed_of = [](double actual) {
    return Outcome{"m", "cpu", Quantity::decode_tps, Basis::roofline, 100, actual, 1};
  };
  for (int i = 0; i < 20; ++i) {
    ledger.add(load_of(100, 800));
    ledger.add(speed_of(10));
  }
  for (int i = 0; i < 3; ++i) {
    ledger.add(load_of(100, 150));
    ledger.add(speed_of(80));
  }
  EXPECT_DOUBLE_EQ(correction(ledger), 1.5);
  EXPECT_DOUBLE_EQ(ledger.correction("m", "cpu", Quantity::decode_tps), 0.8);
  for (int i = 0; i < 3; ++i) ledger.add(speed_of(10));
  EXPECT_GT(ledger.correction("m", "cpu", Quantity::decode_tps), 0.1) << "slower: the former ones count on";
}

TEST(PredictionLedger, FiguresOfCalibrateCorrectNoRoofline) {
  PredictionLedger ledger;
  for (int i = 0; i < 3; ++i) {
    Outcome one = load_of(100, 200);
    one.basis = Basis::measured;
    ledger.add(one);
  }
  EXPECT_EQ(correction(ledger), 1);
}

TEST(PredictionLedger, TheMarginIsWhatLoadsCameOutLargerWithinBounds) {
  PredictionLedger ledger;
  EXPECT_EQ(ledger.margin("cpu"), 0);
  ledger.add(bytes_of(1000, 1000));
  EXPECT_EQ(ledger.margin("cpu"), 0) << "as predicted";
  ledger.add(bytes_of(1000, 1040));
  EXPECT_NEAR(ledger.margin("cpu"), 0.02 + 2 * 0.02, 1e-12);
  EXPECT_EQ(ledger.margin("vulkan"), 0);
  ledger.add(bytes_of(1000, 5000));
  EXPECT_EQ(ledger.margin("cpu"), PredictionLedger::kMaxMargin);
  for (std::size_t i = 0; i < PredictionLedger::kKept; ++i) ledger.add(bytes_of(1000, 500));
  EXPECT_EQ(ledger.margin("cpu"), 0) << "never less than was predicted";
}

TEST(PredictionLedger, KeepsTheLatest) {
  PredictionLedger ledger;
  for (std::size_t i = 0; i < PredictionLedger::kKept; ++i) ledger.add(load_of(1, 3));
  EXPECT_EQ(correction(ledger), 3);
  for (std::size_t i = 0; i < PredictionLedger::kKept; ++i) ledger.add(load_of(1, 2));
  EXPECT_EQ(correction(ledger), 2);
  ASSERT_EQ(ledger.summaries().size(), 1U);
  EXPECT_EQ(ledger.summaries()[0].kept, PredictionLedger::kKept);
  // And of so many models, however many there were.
  for (std::size_t i = 0; i < 2 * PredictionLedger::kMaxBooks; ++i)
    ledger.add(load_of(1, 2, std::to_string(i), 10 + static_cast<std::int64_t>(i)));
  EXPECT_EQ(ledger.summaries()[0].kept, PredictionLedger::kMaxBooks);
  EXPECT_EQ(ledger.summaries()[0].latest.model, std::to_string(2 * PredictionLedger::kMaxBooks - 1));
}

TEST(PredictionLedger, SumsUpByEngineQuantityAndBasis) {
  PredictionLedger ledger;
  ledger.add(load_of(100, 100, "a", 5));
  ledger.add(load_of(100, 300, "b", 4));
  ledger.add(bytes_of(10, 11));
  ledger.add({"a", "vulkan", Quantity::ttft_ms, Basis::measured, 5, 6, 1});
  const auto all = ledger.summaries();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].quantity, Quantity::bytes);
  EXPECT_EQ(all[0].latest.actual, 11);
  EXPECT_EQ(all[1].quantity, Quantity::load_ms);
  EXPECT_EQ(all[1].kept, 2U);
  EXPECT_EQ(all[1].mean, 2);
  EXPECT_EQ(all[1].spread, 1);
  EXPECT_EQ(all[1].latest.model, "a");
  EXPECT_EQ(all[2].backend, "vulkan");
  EXPECT_EQ(all[2].basis, Basis::measured);
}

TEST(PredictionLedger, TakesNoNonsense) {
  PredictionLedger ledger;
  for (const double wrong : {0.0, -1.0, std::nan(""), double{INFINITY}}) {
    EXPECT_FALSE(ledger.add(load_of(wrong, 1)));
    EXPECT_FALSE(ledger.add(load_of(1, wrong)));
  }
  EXPECT_TRUE(ledger.summaries().empty());
}

TEST(PredictionLedger, EverythingHasAName) {
  for (std::size_t i = 0; i < kQuantities; ++i)
    EXPECT_EQ(quantity_named(to_string(static_cast<Quantity>(i))), static_cast<Quantity>(i));
  EXPECT_EQ(quantity_named("watts"), std::nullopt);
  for (std::size_t i = 0; i < kBases; ++i)
    EXPECT_EQ(basis_named(to_string(static_cast<Basis>(i))), static_cast<Basis>(i));
  EXPECT_EQ(basis_named(""), std::nullopt);
}

}  // namespace
}  // namespace flyball::measure
