// The parts of the predictor, each by itself: the fit, ratios, tokens of prompts, lengths of answers,
// prefixes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "config/json_reader.hpp"
#include "daemon/predict/accuracy.hpp"
#include "daemon/predict/answer_length.hpp"
#include "daemon/predict/arrivals.hpp"
#include "daemon/predict/prefix_blocks.hpp"
#include "daemon/predict/prompt_tokens.hpp"
#include "daemon/predict/statistics/change_point.hpp"
#include "daemon/predict/statistics/ratio_window.hpp"
#include "daemon/predict/statistics/robust_fit.hpp"
#include "daemon/predict/statistics/window.hpp"

namespace flyball::predict {
namespace {

TEST(Arrivals, CountThoseWhoFindOthers) {
  Arrivals arrivals;
  EXPECT_EQ(arrivals.per_second(), 0);
  EXPECT_EQ(arrivals.below(1e9).tokens, 0);
  for (int i = 0; i < 10; ++i) {  // one after the other
    arrivals.came(100, false);
    arrivals.passed(1, true);
  }
  EXPECT_EQ(arrivals.per_second(), 0);
  for (int i = 0; i < 600; ++i) {
    arrivals.came(i % 4 == 0 ? 1000 : 100, true);
    arrivals.passed(0.5, true);
  }
  EXPECT_NEAR(arrivals.per_second(), 2, 0.2);
  EXPECT_EQ(arrivals.below(500).share, 0.75);
  EXPECT_EQ(arrivals.below(500).tokens, 100);
  EXPECT_EQ(arrivals.below(1e9).tokens, 325);
  EXPECT_EQ(arrivals.below(1e9).pairs, (3 * 5050.0 + 500500) / 4);
  arrivals.passed(12 * 3600, false);
  EXPECT_LT(arrivals.per_second(), 1e-6) << "nobody came all night";
}

TEST(Arrivals, TwoAtOnceAreNoRate) {
  Arrivals arrivals;
  arrivals.came(100, false);
  arrivals.passed(0.001, true);
  arrivals.came(100, true);
  EXPECT_LT(arrivals.per_second(), 0.5);
}

// Exact medians, by sums of the distribution's terms.
TEST(Arrivals, TheMedianOfPoissonsDistribution) {
  EXPECT_EQ(Arrivals::median_of(0), 0);
  for (double mean = 0.05; mean < 20; mean += 0.05) {
    double term = std::exp(-mean), sum = term;
    int median = 0;
    while (sum < 0.5) {
      term *= mean / ++median;
      sum += term;
    }
    if (std::abs(sum - 0.5) > 0.01 && std::abs(sum - term - 0.5) > 0.01) {
      EXPECT_EQ(Arrivals::median_of(mean), median) << mean;
    }
  }
}

TEST(Window, KeepsTheLatest) {
  Window<int, 3> window;
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.mean(), 0);
  for (const int value : {9, 1, 3, 2}) window.add(value);
  EXPECT_EQ(window.size(), 3U);
  EXPECT_EQ(window.latest(), 2);
  EXPECT_EQ(window.latest(2), 1);
  EXPECT_EQ(window.mean(), 2);
  window.keep_latest(1);
  window.add(7);
  EXPECT_EQ(window.size(), 2U);
  EXPECT_EQ(window.latest(1), 2);
  EXPECT_EQ(window.mean(), 4.5);
}

TEST(Window, TellsOrderStatistics) {
  Window<double, 32> window;
  for (int i = 1; i <= 40; ++i) window.add(i * 7 % 41);
  const auto sorted = window.sorted([](double value) { return -value; });
  EXPECT_EQ(sorted.values().size(), 32U);
  EXPECT_TRUE(std::ranges::is_sorted(sorted.values()));
  const std::array<double, 4> four{1, 2, 4, 8};
  EXPECT_EQ(median(std::span<const double>(four)), 3);
  EXPECT_EQ(median(std::span<const double>(four).first(3)), 2);
  EXPECT_EQ(quantile(std::span<const double>(four), 0.9), 8) << "too few to say";
  EXPECT_EQ(quantile(std::span<const double>(four), 0.5), 4);
  std::array<double, 19> nineteen{};
  std::iota(nineteen.begin(), nineteen.end(), 1);
  EXPECT_EQ(quantile(std::span<const double>(nineteen), 0.9), 18);
}

// The reference: sorts.
double plain_weighted_median(std::vector<Weighted> values) {
  std::ranges::sort(values, {}, &Weighted::value);
  double total = 0, below = 0;
  for (const Weighted& one : values) total += one.weight;
  for (const Weighted& one : values)
    if ((below += one.weight) * 2 >= total) return one.value;
  return 0;
}

TEST(WeightedMedian, IsThatOfSortedValues) {
  std::mt19937_64 draw(11);
  std::array<Weighted, 49> values{};
  EXPECT_EQ(weighted_median(values, 0), 0);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t n = 1 + draw() % values.size();
    const std::uint64_t different = 1 + draw() % 60;  // few: many are equal
    for (std::size_t i = 0; i < n; ++i)
      values[i] = {static_cast<double>(draw() % different), static_cast<double>(1 + draw() % 16)};
    const double expected = plain_weighted_median({values.begin(), values.begin() + static_cast<long>(n)});
    ASSERT_EQ(weighted_median(values, n), expected) << round;
  }
}

// y = 3 + 0.5 x, with noise.
struct Line {
  std::mt19937_64 draw{7};
  double times = 1;
  void teach(RobustFit<2>& fit, int n, double noise) {
    for (int i = 0; i < n; ++i) {
      const double x = std::uniform_real_distribution<double>(1, 200)(draw);
      fit.add({1, x}, times * (3 + 0.5 * x) * std::exp(std::normal_distribution<double>(0, noise)(draw)));
    }
  }
};

TEST(RobustFit, FindsTheLineBehindNoise) {
  RobustFit<2> fit({1, 1});
  Line line;
  line.teach(fit, 50, 0.1);
  EXPECT_NEAR(fit({1, 10}), 8, 0.1 * 8);
  EXPECT_NEAR(fit({1, 150}), 78, 0.08 * 78);
}

TEST(RobustFit, OneOutlierMovesItLittle) {
  RobustFit<2> fit({1, 1});
  Line line;
  line.teach(fit, 30, 0.03);
  const double before = fit({1, 100});
  fit.add({1, 100}, 50 * 53);
  EXPECT_NEAR(fit({1, 100}), before, 0.05 * before);
}

TEST(ChangePoint, IsALevelThatLiesWhollyApartFromTheOneBefore) {
  const auto changed = [](std::array<double, 2 * kLevel> latest_first) { return has_changed(latest_first); };
  EXPECT_TRUE(changed({1, 1.2, 1, 2.4, 5, 9}));
  EXPECT_TRUE(changed({8, 9, 2, 1, 0.9, 1}));
  EXPECT_FALSE(changed({1, 1.2, 1, 2.3, 5, 9}));
  EXPECT_FALSE(changed({1, 1, 1, 9, 9, 1})) << "two outliers are no level";
  EXPECT_FALSE(changed({9, 9, 1, 1, 1, 1}));
}

TEST(RobustFit, FollowsAChangeOfLevelAfterThree) {
  for (const double times : {0.1, 10.0}) {
    RobustFit<2> fit({1, 1});
    Line line;
    line.teach(fit, 48, 0.05);
    line.times = times;
    line.teach(fit, 3, 0.05);
    EXPECT_NEAR(fit({1, 100}), times * 53, 0.3 * times * 53);
    EXPECT_EQ(fit.seen(), 3U);
  }
}

TEST(RobustFit, ForgetsNothingWhileLevelsAlternate) {
  RobustFit<2> fit({1, 1});
  Line line;
  line.teach(fit, 20, 0.05);
  for (int burst = 0; burst < 12; ++burst) {
    line.times = burst % 2 == 0 ? 4 : 1;
    line.teach(fit, 5, 0.05);
  }
  EXPECT_GE(fit.seen(), 40U);
}

TEST(RobustFit, FollowsAMachineThatBecameTwiceAsSlow) {
  RobustFit<2> fit({1, 1});
  Line line;
  line.teach(fit, 48, 0.05);
  line.times = 2;
  line.teach(fit, 20, 0.05);
  EXPECT_NEAR(fit({1, 100}), 106, 0.1 * 106);
}

TEST(RobustFit, KeepsThePriorsProportionsWhereNothingWasSeen) {
  RobustFit<2> fit({1, 0.1}, true);
  EXPECT_DOUBLE_EQ(fit({1, 10}), 2) << "the prior";
  for (int i = 0; i < 10; ++i) fit.add({1, 10}, 8);
  EXPECT_NEAR(fit({1, 10}), 8, 0.1);
  EXPECT_NEAR(fit({1, 30}), 16, 1) << "four times the prior everywhere";
}

TEST(RobustFit, NoCoefficientIsNegative) {
  RobustFit<2> fit({1, 1});
  for (int i = 1; i <= 40; ++i) fit.add({1, static_cast<double>(i)}, 100.0 - i);
  EXPECT_GE(fit.coefficients()[0], 0);
  EXPECT_GE(fit.coefficients()[1], 0);
}

TEST(RobustFit, IgnoresTimesThatAreNone) {
  RobustFit<2> fit({1, 1});
  for (const double y : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    fit.add({1, 1}, y);
  EXPECT_EQ(fit.seen(), 0U);
}

TEST(RatioWindow, TellsTheMiddleAndNineInTen) {
  RatioWindow window;
  window.add(3, 1);
  EXPECT_EQ(window.median(), 1) << "too few to say";
  EXPECT_EQ(window.p90(), RatioWindow::kFirstP90);
  std::mt19937_64 draw(3);
  std::normal_distribution<double> normal(0, 0.2);
  for (int i = 0; i < 64; ++i) window.add(std::exp(normal(draw)), 1);
  EXPECT_NEAR(window.median(), 1, 0.08);
  int below = 0;
  for (int i = 0; i < 1000; ++i) below += std::exp(normal(draw)) <= window.p90() ? 1 : 0;
  EXPECT_GE(below, 850);
  EXPECT_LE(below, 960);
}

TEST(RatioWindow, OfAFitCorrectsNothingThatTheFitHasLearned) {
  double error = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 draw(seed);
    RobustFit<2> fit({1, 0.2}, true);
    RatioWindow window;
    for (int i = 0; i < 8; ++i) {
      const double x = std::uniform_real_distribution<double>(20, 800)(draw);
      const double y = 4 * (1 + 0.2 * x) * std::exp(std::normal_distribution<double>(0, 0.05)(draw));
      if (i >= 3) error += std::abs(fit({1, x}) * window.median() - y) / y / (50 * 5);
      window.add(y, fit({1, x}));
      fit.add({1, x}, y);
    }
  }
  EXPECT_LT(error, 0.1);
}

TEST(RatioWindow, ForgetsALevelThatIsOver) {
  RatioWindow window;
  for (int i = 0; i < 50; ++i) window.add(1 + 0.01 * (i % 7), 1);
  for (int i = 0; i < 6; ++i) window.add(6, 1);
  for (int i = 0; i < 2; ++i) window.add(1, 1);
  window.add(1.1, 1);
  EXPECT_EQ(window.median(), 1);
  EXPECT_LE(window.p90(), RatioWindow::kFirstP90);
  for (int i = 0; i < 80; ++i) window.add(1, 1);
  EXPECT_EQ(window.seen(), RatioWindow::kKept);
  EXPECT_EQ(window.p90(), 1);
}

TEST(RatioWindow, KeepsTheLevelBeforeAChangeForTheWorse) {
  RatioWindow window;
  for (int i = 0; i < 20; ++i) window.add(1, 1);
  for (int i = 0; i < 3; ++i) window.add(6, 1);
  EXPECT_EQ(window.seen(), 23U);
  EXPECT_EQ(window.p90(), 6);
}

TEST(RatioWindow, OfANewLevelCountAtOnce) {
  RatioWindow window;
  for (int i = 0; i < 20; ++i) window.add(1, 1);
  for (int i = 0; i < 3; ++i) window.add(0.2, 1);
  EXPECT_TRUE(window.counts());
  EXPECT_DOUBLE_EQ(window.median(), 0.2);
  EXPECT_DOUBLE_EQ(window.p90(), 0.3);
  window.refitted(0.2);
  EXPECT_DOUBLE_EQ(window.median(), 1) << "over values that are as low";
  window.add(4, 1);
  EXPECT_EQ(window.p90(), 4) << "too few to leave the worst out";
}

TEST(RatioWindow, KeepsOneInTenThatIsFarOff) {
  RatioWindow window;
  for (int i = 0; i < 60; ++i) window.add(i % 8 == 0 ? 5 : 1, 1);
  EXPECT_EQ(window.seen(), 60U);
  EXPECT_EQ(window.p90(), 5);
}

TEST(Accuracy, IsTheMedianErrorAndTheShareBelowP90) {
  Accuracy accuracy;
  EXPECT_EQ(accuracy.error(), 0);
  for (int i = 0; i < 9; ++i) accuracy.add(100, 90, 120);
  accuracy.add(1000, 90, 120);
  EXPECT_DOUBLE_EQ(accuracy.error(), 0.1);
  EXPECT_DOUBLE_EQ(accuracy.coverage(), 0.9);
}

TEST(PromptTokens, BeginAtFourBytesAToken) {
  EXPECT_EQ(PromptTokens().expected(4000), 1004U);
}

TEST(PromptTokens, LearnTheTemplatesTokens) {
  PromptTokens tokens;
  for (const std::uint64_t bytes : {60, 900, 100, 2500, 300, 5000, 40, 1200, 80, 700})
    tokens.counted(bytes, static_cast<std::uint32_t>(30 + bytes / 5));
  EXPECT_NEAR(tokens.expected(50), 40, 4);
  EXPECT_NEAR(tokens.expected(3000), 630, 20);
  EXPECT_NEAR(tokens.bytes_per_token(), 5, 0.3);
}

TEST(AnswerLength, IsDeclaredUntilAnswersAreSeen) {
  AnswerLength lengths;
  EXPECT_EQ(lengths.expected(0, 0).median, AnswerLength::kDefault);
  EXPECT_EQ(lengths.expected(40, 0).median, 40U);
  EXPECT_EQ(lengths.expected(40, 16).median, 16U);
  for (std::uint32_t i = 1; i <= 40; ++i) lengths.answered(i * 10);
  EXPECT_NEAR(lengths.expected(40, 0).median, 205, 10);
  EXPECT_NEAR(lengths.expected(40, 0).p90, 360, 15);
  EXPECT_EQ(lengths.expected(40, 100).p90, 100U) << "max_tokens";
}

TEST(AnswerLength, OfAnAnswerUnderWayComesFromLongerOnes) {
  AnswerLength lengths;
  for (int i = 0; i < 20; ++i) lengths.answered(i % 2 == 0 ? 10 : 500);
  EXPECT_EQ(lengths.expected(0, 0, 50).median, 500U);
  EXPECT_GT(lengths.expected(0, 0, 600).median, 600U) << "longer than any";
}

TEST(AnswerLength, ForgetsOldAnswers) {
  AnswerLength lengths;
  for (int i = 0; i < 200; ++i) lengths.answered(10);
  for (std::size_t i = 0; i < AnswerLength::kKept; ++i) lengths.answered(99);
  EXPECT_EQ(lengths.expected(0, 0).median, 99U);
}

const KeyedHash kHash(1, 2);

PromptPrint print(std::size_t bytes, char first = 'a', const char* app = "app") {
  std::string text(bytes, 'x');
  text[0] = first;
  return print_of(TextPrompt{text}, app, kHash);
}

TEST(PrefixBlocks, HoldPromptsComputedForTheSameApp) {
  PrefixBlocks blocks;
  PrefixBlocks::Holder engine, other;
  blocks.forget(engine);
  blocks.forget(other);
  EXPECT_EQ(blocks.held(engine, print(1000)), 0U);
  blocks.computed(engine, print(1000));
  EXPECT_EQ(blocks.held(engine, print(1000)), 3 * kBlockBytes);
  EXPECT_EQ(blocks.held(engine, print(5000)), 3 * kBlockBytes) << "it goes on";
  EXPECT_EQ(blocks.held(engine, print(5000, 'b')), 0U) << "it begins otherwise";
  EXPECT_EQ(blocks.held(engine, print(1000, 'a', "another")), 0U);
  EXPECT_EQ(blocks.held(other, print(1000)), 0U);
  blocks.forget(engine);
  EXPECT_EQ(blocks.held(engine, print(1000)), 0U) << "another process";
}

TEST(PrefixBlocks, ForgetPromptsThatTheKvHasNoRoomFor) {
  PrefixBlocks blocks;
  PrefixBlocks::Holder engine{1, 0, 10'000};
  blocks.computed(engine, print(1000));
  engine.written += 9'000;
  EXPECT_GT(blocks.held(engine, print(1000)), 0U);
  engine.written += 2'000;
  EXPECT_EQ(blocks.held(engine, print(1000)), 0U);
}

TEST(PrefixBlocks, AreBounded) {
  PrefixBlocks blocks;
  PrefixBlocks::Holder engine{1, 0, 0};
  const std::size_t prompts = 3 * PrefixBlocks::kEntries / 64;
  const auto nth = [](std::size_t i) {
    return print_of(TextPrompt{std::to_string(i) + std::string(64 * kBlockBytes, 'x')}, "app", kHash);
  };
  for (std::size_t i = 0; i < prompts; ++i) blocks.computed(engine, nth(i));
  EXPECT_EQ(blocks.held(engine, nth(0)), 0U) << "used longest ago";
  EXPECT_GT(blocks.held(engine, nth(prompts - 1)), 60 * kBlockBytes);
}

// One app fills the table many times over at one engine.
void flood(PrefixBlocks& blocks, PrefixBlocks::Holder& engine, const char* app) {
  for (std::size_t i = 0; i < 3 * PrefixBlocks::kEntries / 64; ++i)
    blocks.computed(engine,
                    print_of(TextPrompt{std::to_string(i) + std::string(64 * kBlockBytes, 'x')}, app, kHash));
}

TEST(PrefixBlocks, OfAnAppStayWhateverAnotherOneComputes) {
  PrefixBlocks blocks;
  PrefixBlocks::Holder engine, other;
  blocks.forget(engine);
  blocks.forget(other);
  blocks.computed(engine, print(40'000));
  blocks.computed(other, print(40'000));
  flood(blocks, other, "flood");
  EXPECT_EQ(blocks.held(engine, print(40'000)), 156 * kBlockBytes);
  EXPECT_EQ(blocks.held(other, print(40'000)), 156 * kBlockBytes) << "at the flooded engine, too";
}

TEST(PrefixBlocks, OfProcessesThatEndedTakeNobodysRoom) {
  PrefixBlocks blocks;
  PrefixBlocks::Holder ended, engine;
  blocks.forget(ended);
  blocks.forget(engine);
  flood(blocks, ended, "app");
  blocks.forget(ended);
  blocks.computed(engine, print(40'000, 'a', "another"));
  flood(blocks, engine, "app");
  EXPECT_EQ(blocks.held(engine, print(40'000, 'a', "another")), 156 * kBlockBytes);
  const std::string last = std::to_string(3 * PrefixBlocks::kEntries / 64 - 1);
  EXPECT_GT(
      blocks.held(engine, print_of(TextPrompt{last + std::string(64 * kBlockBytes, 'x')}, "app", kHash)),
      60 * kBlockBytes);
}

TEST(PrefixBlocks, AreOfAPromptsFirstMebibyte) {
  const PromptPrint large = print(3 * kMostHashed);
  EXPECT_EQ(large.bytes, 3 * kMostHashed);
  EXPECT_EQ(large.blocks.size(), kMostHashed / kBlockBytes);
}

PromptPrint chat(const std::string& messages) {
  auto packed = read_packed(messages);
  EXPECT_TRUE(packed);
  return print_of(ChatPrompt{std::move(*packed), {}, {}}, "app", kHash);
}

TEST(PrefixBlocks, OfAChatThatGoesOnBeginAsBefore) {
  const std::string turn = R"({"role":"user","content":")" + std::string(1000, 'x') + R"("})";
  const PromptPrint one = chat("[" + turn + "]"), two = chat("[" + turn + "," + turn + "]");
  ASSERT_GE(one.blocks.size(), 3U);
  for (std::size_t i = 0; i < one.blocks.size(); ++i) EXPECT_EQ(one.blocks[i], two.blocks[i]) << i;
}

TEST(PrefixBlocks, OfAChatWhoseLastMessageGoesOnBeginAsBefore) {
  const std::string begin = R"([{"role":"user","content":")" + std::string(1000, 'x');
  const PromptPrint one = chat(begin + R"("}])"), more = chat(begin + R"( and more"}])");
  EXPECT_EQ(common_bytes(one, more), one.blocks.size() * kBlockBytes);
  EXPECT_GE(one.blocks.size(), 3U);
  const PromptPrint other = chat(R"([{"role":"system","content":")" + std::string(1000, 'x') + R"("}])");
  EXPECT_EQ(common_bytes(one, other), 0U);
}

TEST(PrefixBlocks, OfADocumentWithAGapBeginWithTheTextBeforeIt) {
  const std::string before(3 * kBlockBytes, 'x');
  const auto with_gap = [&](const std::string& more, const char* after) {
    return print_of(InfillPrompt{before + more, std::make_shared<const std::string>(after)}, "app", kHash);
  };
  const PromptPrint one = with_gap("", "end"), typed = with_gap("typed", "other end");
  EXPECT_EQ(one.bytes, before.size() + 4) << "the gap is a byte";
  EXPECT_EQ(common_bytes(one, typed), before.size());
  const PromptPrint moved =
      print_of(InfillPrompt{before.substr(kBlockBytes),
                            std::make_shared<const std::string>(before.substr(2 * kBlockBytes) + "end")},
               "app", kHash);
  EXPECT_LT(common_bytes(one, moved), before.size()) << "one document, and another gap";
}

}  // namespace
}  // namespace flyball::predict
