// Sampling: distributions against expectation (chi-square, fixed seeds), order of the filters, penalties,
// logprobs.
#include "backends/decode/sampler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "backends/decode/logprobs.hpp"
#include "backends/decode/softmax.hpp"

namespace flyball::decode {
namespace {

constexpr int kDraws = 20'000;

std::vector<double> softmax(std::vector<double> x) {
  const double max = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - max);
  for (double& v : x) v /= sum;
  return x;
}

std::vector<int> draw_counts(const SamplingParams& params, const std::vector<float>& logits) {
  const auto n = static_cast<std::uint32_t>(logits.size());
  Sampler sampler(params, n);
  SamplerScratch scratch;
  std::vector<int> counts(n);
  for (int i = 0; i < kDraws; ++i) {
    const Token t = sampler.sample(logits, scratch);
    ++counts[static_cast<std::size_t>(t)];
    sampler.accept(t);
  }
  return counts;
}

double chi_square(const std::vector<int>& counts, const std::vector<double>& p) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) {
      if (counts[i] != 0) return std::numeric_limits<double>::infinity();
      continue;
    }
    const double expected = p[i] * kDraws;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

const std::vector<float> kLogits = {1.0F, 2.5F, -0.5F, 2.0F, 0.0F, 1.5F, -2.0F, 0.5F};
constexpr double kChi7 = 24.3;  // 99.9th percentile, 7 degrees of freedom; fewer degrees lie below

std::vector<double> expected(double temperature, const std::vector<int>& kept) {
  std::vector<double> x(kLogits.size(), -1e30);
  for (const int i : kept)
    x[static_cast<std::size_t>(i)] = kLogits[static_cast<std::size_t>(i)] / temperature;
  auto p = softmax(x);
  for (double& v : p)
    if (v < 1e-12) v = 0;
  return p;
}

TEST(Uniform, IsUniformAndAPureFunction) {
  double sum = 0;
  std::vector<int> bins(16);
  for (std::uint64_t i = 0; i < 16'000; ++i) {
    const double u = uniform(42, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ASSERT_EQ(u, uniform(42, i));
    sum += u;
    ++bins[static_cast<std::size_t>(u * 16)];
  }
  EXPECT_NEAR(sum / 16'000, 0.5, 0.01);
  double chi = 0;
  for (const int b : bins) chi += (b - 1000.0) * (b - 1000.0) / 1000.0;
  EXPECT_LT(chi, 37.7);  // 99.9th percentile, 15 degrees
  EXPECT_NE(uniform(42, 0), uniform(43, 0));
  EXPECT_NE(uniform(0, 1), uniform(1, 0));
}

TEST(Sampler, TemperatureFollowsTheSoftmax) {
  for (const float temperature : {0.5F, 1.0F, 1.7F}) {
    SamplingParams params;
    params.temperature = temperature;
    params.seed = 11;
    EXPECT_LT(chi_square(draw_counts(params, kLogits), expected(temperature, {0, 1, 2, 3, 4, 5, 6, 7})),
              kChi7);
  }
}

TEST(Softmax, WeighsAsExpDoes) {
  for (const float temperature : {0.01F, 0.7F, 1.0F, 2.0F})
    for (float below = 0; below < 45.0F; below += 0.0371F) {
      const float best = 3.0F, logit = best - below * temperature;
      const double x = (static_cast<double>(logit) - best) / temperature, expected = std::exp(x);
      const float got = Softmax{best, temperature}.weight(logit);
      if (x > -kNegligible + 1e-3) {
        ASSERT_NEAR(got, expected, expected * (1e-6 - x * 2.4e-7));  // x itself is rounded to f32
      } else if (x < -kNegligible - 1e-3) {
        ASSERT_EQ(got, 0.0F);
      }
    }
  EXPECT_EQ((Softmax{5.0F, 1e-45F}.weight(5.0F)), 1.0F);  // the smallest temperature there is
  EXPECT_EQ((Softmax{5.0F, 1e-45F}.weight(4.9F)), 0.0F);
}

// Whole rows, of one block of sums and of many, against the sums in double precision.
TEST(Softmax, DrawsWhatLiesAtTheShare) {
  std::vector<double> sums;
  for (const std::size_t n : {1U, 2U, 15U, 511U, 512U, 513U, 5000U}) {
    std::vector<float> logits(n);
    for (std::size_t i = 0; i < n; ++i) logits[i] = static_cast<float>(5 * std::sin(static_cast<double>(i)));
    if (n > 600) std::fill(logits.begin() + 512, logits.begin() + 600, -100.0F);  // nobody draws these
    const Softmax softmax{*std::max_element(logits.begin(), logits.end()), 0.9F};
    std::vector<double> until;
    double total = 0;
    for (const float x : logits) {
      const double y = (static_cast<double>(x) - softmax.best) / softmax.temperature;
      until.push_back(total += y > -40 ? std::exp(y) : 0);
    }
    EXPECT_NEAR(softmax.sum(logits), total, 1e-6 * total);
    for (int i = 0; i < 2000; ++i) {
      const double share = uniform(9, static_cast<std::uint64_t>(i));
      const auto at = static_cast<std::size_t>(softmax.at(share, logits, sums));
      ASSERT_GE(share * total, (at == 0 ? 0 : until[at - 1]) - 1e-6 * total);
      ASSERT_LE(share * total, until[at] + 1e-6 * total);
      ASSERT_GT(logits[at], -100.0F);
    }
    for (const double share : {0.0, std::nextafter(1.0, 0.0)}) {
      const auto at = static_cast<std::size_t>(softmax.at(share, logits, sums));
      EXPECT_EQ(at, share == 0 ? 0 : n - 1) << n;
    }
  }
  const std::vector<float> far = {-200.0F, 0.0F, -200.0F};  // the ends weigh nothing
  EXPECT_EQ((Softmax{0.0F, 1.0F}.at(0.0, far, sums)), 1);
  EXPECT_EQ((Softmax{0.0F, 1.0F}.at(std::nextafter(1.0, 0.0), far, sums)), 1);
}

TEST(Sampler, TopKKeepsTheLikeliest) {
  SamplingParams params;
  params.top_k = 3;
  params.seed = 3;
  EXPECT_LT(chi_square(draw_counts(params, kLogits), expected(1, {1, 3, 5})), kChi7);
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  // Sorted probabilities: token 1 0.42, 3 0.26, 5 0.16, 0 0.09, ...: 0.7 needs three.
  SamplingParams params;
  params.top_p = 0.7F;
  params.seed = 4;
  EXPECT_LT(chi_square(draw_counts(params, kLogits), expected(1, {1, 3, 5})), kChi7);
}

TEST(Sampler, TopPIsDecidedBeforeTemperature) {
  SamplingParams params;
  params.top_p = 0.7F;
  params.temperature = 2.0F;  // would flatten so that more reach 0.7
  params.seed = 5;
  EXPECT_LT(chi_square(draw_counts(params, kLogits), expected(2, {1, 3, 5})), kChi7);
}

TEST(Sampler, MinPIsRelativeToTheLikeliest) {
  SamplingParams params;
  params.min_p = 0.3F;  // e^-1 = 0.37 stays, e^-1.5 = 0.22 goes
  params.seed = 6;
  EXPECT_LT(chi_square(draw_counts(params, kLogits), expected(1, {1, 3, 5})), kChi7);
}

TEST(Sampler, TypicalKeepsThoseNearestTheEntropy) {
  const auto p = softmax({kLogits.begin(), kLogits.end()});
  double entropy = 0;
  for (const double v : p) entropy -= v * std::log(v);
  std::vector<int> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  const auto shift = [&](int i) { return std::abs(-std::log(p[static_cast<std::size_t>(i)]) - entropy); };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return shift(a) < shift(b); });
  std::vector<int> kept;
  double sum = 0;
  for (const int i : order) {
    if (sum >= 0.5) break;
    kept.push_back(i);
    sum += p[static_cast<std::size_t>(i)];
  }
  SamplingParams params;
  params.typical_p = 0.5F;
  params.seed = 7;
  EXPECT_LT(chi_square(draw_counts(params, kLogits), expected(1, kept)), kChi7);
}

TEST(Sampler, GreedyTakesTheFirstOfTheLargest) {
  SamplingParams params;
  params.temperature = 0;
  SamplerScratch scratch;
  std::vector<float> logits(1000, -1.0F);
  logits[700] = logits[333] = 2.0F;
  EXPECT_EQ(Sampler(params, 1000).sample(logits, scratch), 333);
}

TEST(Sampler, DrawsAreAFunctionOfSeedAndIndexAlone) {
  SamplingParams params;
  params.seed = 99;
  SamplerScratch scratch;
  Sampler whole(params, 8);
  std::vector<Token> tokens;
  for (int i = 0; i < 40; ++i) {
    tokens.push_back(whole.sample(kLogits, scratch));
    whole.accept(tokens.back());
  }
  Sampler resumed(params, 8);
  for (int i = 0; i < 17; ++i) resumed.accept(tokens[static_cast<std::size_t>(i)]);
  for (std::size_t i = 17; i < tokens.size(); ++i) {
    ASSERT_EQ(resumed.sample(kLogits, scratch), tokens[i]);
    resumed.accept(tokens[i]);
  }
}

TEST(Sampler, LogitBiasForcesAndBans) {
  SamplingParams params;
  params.temperature = 0;
  SamplerScratch scratch;
  params.logit_bias = {{6, 100.0F}};
  EXPECT_EQ(Sampler(params, 8).sample(kLogits, scratch), 6);
  params.logit_bias = {{1, -100.0F}};
  EXPECT_EQ(Sampler(params, 8).sample(kLogits, scratch), 3);
  params.logit_bias = {{-5, 100.0F}, {8, 100.0F}};  // not in the vocabulary
  EXPECT_EQ(Sampler(params, 8).sample(kLogits, scratch), 1);
}

TEST(Sampler, RepetitionPenaltySeesThePrompt) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 1.5F;  // 2.5 / 1.5 = 1.67 < 2
  SamplerScratch scratch;
  Sampler sampler(params, 8);
  const Token prompt[] = {1};
  sampler.accept_prompt(prompt);
  EXPECT_EQ(sampler.sample(kLogits, scratch), 3);
  // A negative logit moves away from zero, not towards it.
  const std::vector<float> negative = {-9.0F, -1.0F, -1.2F};
  EXPECT_EQ(sampler.sample(negative, scratch), 2);
}

TEST(Sampler, FrequencyCountsAndPresenceDoesNot) {
  SamplingParams params;
  params.temperature = 0;
  params.frequency_penalty = 0.3F;
  SamplerScratch scratch;
  Sampler frequency(params, 8);
  const Token prompt[] = {1, 1, 1};
  frequency.accept_prompt(prompt);  // the prompt does not count
  frequency.accept(1);              // 2.5 - 0.3
  EXPECT_EQ(frequency.sample(kLogits, scratch), 1);
  frequency.accept(1);  // 2.5 - 0.6
  EXPECT_EQ(frequency.sample(kLogits, scratch), 3);

  params.frequency_penalty = 0;
  params.presence_penalty = 0.4F;
  Sampler presence(params, 8);
  for (int i = 0; i < 5; ++i) presence.accept(1);
  EXPECT_EQ(presence.sample(kLogits, scratch), 1);  // 2.5 - 0.4 once
}

TEST(Sampler, ALargeVocabularyKeepsItsTail) {
  // 128k equal logits: every token must be reachable.
  SamplingParams params;
  params.seed = 1;
  const std::vector<float> logits(131'072, 0.25F);
  Sampler sampler(params, 131'072);
  SamplerScratch scratch;
  double mean = 0;
  for (int i = 0; i < 200; ++i) {
    const Token t = sampler.sample(logits, scratch);
    sampler.accept(t);
    mean += t;
  }
  EXPECT_NEAR(mean / 200, 65'536, 12'000);
}

// Token t of kLogits is allowed where bit t is set.
std::vector<int> masked_counts(const SamplingParams& params, std::uint64_t allowed) {
  const auto n = static_cast<std::uint32_t>(kLogits.size());
  Sampler sampler(params, n);
  SamplerScratch scratch;
  std::vector<int> counts(n);
  for (int i = 0; i < kDraws; ++i) {
    const Token t = sampler.sample(kLogits, std::span(&allowed, 1), scratch);
    ++counts[static_cast<std::size_t>(t)];
    sampler.accept(t);
  }
  return counts;
}

TEST(SamplerMask, TheAllowedTokensFollowTheirOwnSoftmax) {
  EXPECT_LT(chi_square(masked_counts({}, 0b01110100), expected(1, {2, 4, 5, 6})), kChi7);
  SamplingParams sharp;
  sharp.temperature = 0.5F;
  EXPECT_LT(chi_square(masked_counts(sharp, 0b01110100), expected(0.5, {2, 4, 5, 6})), kChi7);
  EXPECT_LT(chi_square(masked_counts({}, 0xFF), expected(1, {0, 1, 2, 3, 4, 5, 6, 7})), kChi7);
}

TEST(SamplerMask, FiltersSeeTheAllowedTokensAlone) {
  SamplingParams params;
  params.top_k = 2;
  EXPECT_LT(chi_square(masked_counts(params, 0b01110101), expected(1, {0, 5})), kChi7);
  params = {};
  params.min_p = 0.5F;  // of 1.5, the best of them: 0.81 and more
  EXPECT_LT(chi_square(masked_counts(params, 0b01110101), expected(1, {0, 5})), kChi7);
  params = {};
  params.temperature = 0;
  EXPECT_EQ(masked_counts(params, 0b11010101)[0], kDraws);
}

TEST(SamplerMask, BiasAndPenaltiesLieBehindTheMask) {
  SamplingParams params;
  params.temperature = 0;
  params.logit_bias = {{6, 100.0F}, {1, 100.0F}};
  EXPECT_EQ(masked_counts(params, 0b01000001)[6], kDraws);
  params.logit_bias = {};
  params.frequency_penalty = 2;
  EXPECT_GT(masked_counts(params, 0b01000001)[6], 0) << "at last the other one is better";
}

TEST(SamplerMask, ASingleTokenIsTakenWhateverItsLogit) {
  std::vector<float> logits(200, 10.0F);
  logits[130] = -1e30F;
  std::vector<std::uint64_t> allowed(4);
  allowed[2] = std::uint64_t{1} << 2U;
  SamplerScratch scratch;
  EXPECT_EQ(Sampler({}, 200).sample(logits, allowed, scratch), 130);
  SamplingParams greedy;
  greedy.temperature = 0;
  EXPECT_EQ(Sampler(greedy, 200).sample(logits, allowed, scratch), 130);
}

// A row as long as a vocabulary reads masks of many tokens and of few in different ways.
TEST(SamplerMask, LongRowsGiveWhatTheyGiveWithoutTheOtherTokens) {
  constexpr std::uint32_t kTokens = 20'003;
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 3);
  SamplerScratch scratch;
  for (const std::uint32_t one_in : {1U, 2U, 9U, 11U, 400U}) {
    std::vector<float> logits(kTokens);
    std::vector<std::uint64_t> allowed((kTokens + 63) / 64);
    std::vector<float> without(kTokens);
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      logits[t] = normal(random);
      const bool is_allowed = random() % one_in == 0;
      if (is_allowed) allowed[t / 64] |= std::uint64_t{1} << t % 64;
      without[t] = is_allowed ? logits[t] : -1e30F;
    }
    SamplingParams params[4];
    params[0].temperature = 0;
    params[1].top_k = 40;
    params[2].top_p = 0.9F;
    for (SamplingParams& each : params) {
      each.frequency_penalty = &each == params + 1 ? 0.5F : 0.0F;
      Sampler sampler(each, kTokens);
      for (int i = 0; i < 20; ++i) {
        const Token t = sampler.sample(logits, allowed, scratch);
        const auto at = static_cast<std::size_t>(t);
        ASSERT_TRUE((allowed[at / 64] >> at % 64 & 1U) != 0) << "one in " << one_in;
        EXPECT_EQ(t, sampler.sample(without, scratch)) << "one in " << one_in;
        sampler.accept(t);
      }
    }
  }
}

TEST(AllFinite, FindsASingleBadValueAnywhere) {
  for (const std::size_t n : {1UL, 15UL, 16UL, 17UL, 1000UL}) {
    std::vector<float> x(n, 1.0F);
    EXPECT_TRUE(all_finite(x));
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
        x[at] = bad;
        EXPECT_FALSE(all_finite(x)) << n << " " << at;
        x[at] = 3.4e38F;
        EXPECT_TRUE(all_finite(x));
      }
    }
  }
}

TEST(Logprobs, AreTheLogSoftmaxOverTheWholeVocabulary) {
  const auto p = softmax({kLogits.begin(), kLogits.end()});
  const auto all = logprobs(kLogits, 2, 8);
  EXPECT_NEAR(all.chosen, std::log(p[2]), 1e-5);
  ASSERT_EQ(all.top.size(), 8U);
  double sum = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    sum += std::exp(all.top[i].value);
    EXPECT_NEAR(all.top[i].value, std::log(p[static_cast<std::size_t>(all.top[i].token)]), 1e-5);
    if (i > 0) {
      EXPECT_LE(all.top[i].value, all.top[i - 1].value);
    }
  }
  EXPECT_NEAR(sum, 1.0, 1e-5);
  const auto two = logprobs(kLogits, 1, 2);
  ASSERT_EQ(two.top.size(), 2U);
  EXPECT_EQ(two.top[0].token, 1);
  EXPECT_EQ(two.top[1].token, 3);
  EXPECT_EQ(two.top[0].value, two.chosen);
  EXPECT_TRUE(logprobs(kLogits, 1, 0).top.empty());
}

TEST(CheckParams, RefusesWhatIsOutOfRangeAndNamesIt) {
  EXPECT_TRUE(check(SamplingParams{}).has_value());
  const auto refused = [](auto change) -> std::string {
    SamplingParams params;
    change(params);
    const auto result = check(params);
    if (result) return "accepted";
    EXPECT_EQ(result.error().code, ErrorCode::invalid_value);
    return result.error().param;
  };
  EXPECT_EQ(refused([](auto& p) { p.temperature = 2.1F; }), "temperature");
  EXPECT_EQ(refused([](auto& p) { p.temperature = NAN; }), "temperature");
  EXPECT_EQ(refused([](auto& p) { p.top_k = -1; }), "top_k");
  EXPECT_EQ(refused([](auto& p) { p.top_p = 0.0F; }), "top_p");
  EXPECT_EQ(refused([](auto& p) { p.min_p = 1.5F; }), "min_p");
  EXPECT_EQ(refused([](auto& p) { p.typical_p = 0.0F; }), "typical_p");
  EXPECT_EQ(refused([](auto& p) { p.repetition_penalty = 0.0F; }), "repetition_penalty");
  EXPECT_EQ(refused([](auto& p) { p.frequency_penalty = -2.5F; }), "frequency_penalty");
  EXPECT_EQ(refused([](auto& p) { p.presence_penalty = INFINITY; }), "presence_penalty");
  EXPECT_EQ(refused([](auto& p) { p.top_logprobs = 21; }), "top_logprobs");
  EXPECT_EQ(refused([](auto& p) { p.logit_bias[3] = 101.0F; }), "logit_bias");
  EXPECT_EQ(refused([](auto& p) { p.logit_bias[-3] = 1.0F; }), "logit_bias");
}

// A penalty this small makes a value of the prompt's token infinite; no filter may be left without
// candidates.
TEST(Sampler, TheSmallestRepetitionPenaltyIsFinite) {
  for (const float penalty : {1e-38F, std::numeric_limits<float>::denorm_min()}) {
    SamplingParams params;
    params.repetition_penalty = penalty;
    params.top_p = 0.9F;
    params.typical_p = 0.9F;
    params.min_p = 0.1F;
    Sampler sampler(params, static_cast<std::uint32_t>(kLogits.size()));
    sampler.accept_prompt(std::vector<Token>{1, 6});
    SamplerScratch scratch;
    EXPECT_EQ(sampler.sample(std::vector<float>(8, 3.5F), scratch) % 5, 1);
    params.typical_p = 1.0F;
    Sampler top_p(params, static_cast<std::uint32_t>(kLogits.size()));
    top_p.accept_prompt(std::vector<Token>{1});
    EXPECT_EQ(top_p.sample(std::vector<float>(8, 3.5F), scratch), 1);
  }
}

}  // namespace
}  // namespace flyball::decode
