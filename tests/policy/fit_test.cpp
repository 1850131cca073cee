// Sizes against memories, in numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/fit.hpp"

namespace flyball::policy {
namespace {

using testing::HasSubstr;

Fit fit(std::string_view words) {
  Facts facts;
  const auto reading = read_scenario(words, facts);
  EXPECT_TRUE(reading && complete_scenario(facts));
  return reading ? fit_of(*reading, facts) : Fit{};
}

TEST(Fit, CountsWeightsByTheirBitsAndKvAtTheContext) {
  const ModelNeed need = model_need(8'000'000'000, 4.5, 8192);
  EXPECT_EQ(need.weights, 4'500'000'000);
  EXPECT_EQ(need.kv, 1LL << 30);  // 32 layers, 8 KV heads of 128, keys and values of 2 bytes
  EXPECT_EQ(model_need(70'000'000'000, 4.5, 8192).kv, (5LL << 30) / 2);
  EXPECT_EQ(model_need(8'000'000'000, 8.5, 4096).weights, 8'500'000'000);
  EXPECT_EQ(model_need(8'000'000'000, 8.5, 4096).kv, 1LL << 29);
}

TEST(Fit, SaysSoWithNumbers) {
  EXPECT_EQ(fit("RTX 3090, 70B").fits, Fits::no);
  EXPECT_THAT(fit("RTX 3090, 70B").sentence,
              HasSubstr("70B needs 39.2 GiB, 36.7 GiB of weights at 4.5 bits and 2.5 GiB of KV at 8K tokens, "
                        "which does not fit into 24.0 GiB of the GPUs: 15.2 GiB are missing"));
  EXPECT_EQ(fit("two RTX 3090, 70B").fits, Fits::yes);
  EXPECT_EQ(fit("RTX 3090, 64 GB ram, 70B").fits, Fits::partly);
  EXPECT_EQ(fit("laptop 16 GB, 8B").fits, Fits::yes);
  EXPECT_EQ(fit("laptop 8 GB, 70B").fits, Fits::no);
  EXPECT_EQ(fit("RTX 3080, 8B").fits, Fits::unknown);  // 10 or 12 GB
  EXPECT_EQ(fit("RTX 3090").fits, Fits::unknown);
  EXPECT_EQ(fit("RTX 3090").sentence, "");
}

TEST(Fit, TheContextAndOtherModelsCount) {
  EXPECT_EQ(fit("RTX 4090, 32B, 8K").fits, Fits::yes);
  EXPECT_EQ(fit("RTX 4090, 32B, 64K").fits, Fits::no);  // 16 GiB of KV beside 16.8
  EXPECT_EQ(fit("RTX 4090, two 32B models").fits, Fits::partly);
  EXPECT_EQ(fit("RTX 4090, 14B and 8B").fits, Fits::yes);
  EXPECT_EQ(fit("two macs, 192 GB ram, 405B").fits, Fits::yes);  // both machines together
  EXPECT_EQ(fit("mac, 192 GB ram, 405B").fits, Fits::no);
}

TEST(Fit, MachinesTogetherHoldWhatOneDoesNot) {
  const Fit both = fit("2 servers with 2x H100 each, 405B");
  EXPECT_EQ(both.fits, Fits::yes);
  EXPECT_THAT(both.sentence, HasSubstr("fits into 320.0 GiB of the 2 GPUs in each of 2 machines"));
  EXPECT_FALSE(both.one_machine);
  EXPECT_TRUE(fit("2 servers with 4x H100 each, 405B").one_machine);
  EXPECT_EQ(fit("one server with 2x H100, 405B").fits, Fits::no);
  EXPECT_EQ(fit("2 servers with 2x H100 and 256 GB ram each, 1000B").fits, Fits::partly);
  EXPECT_FALSE(fit("four mac studios with 64gb each, 405B").one_machine);
}

}  // namespace
}  // namespace flyball::policy
