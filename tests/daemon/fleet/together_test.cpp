// Which models fit together, and who would end for whom.
#include "daemon/fleet/together.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace flyball::fleet {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kUnit = 1ULL << 30;

PlannedModel planned(const char* name, std::uint64_t gib, bool pinned = false, std::size_t pool = 0) {
  PlannedModel out{name, pool == 0 ? "cpu" : "opencl", pool, {}, pinned, ""};
  out.need.weight_bytes = (gib - 1) * kUnit;
  out.need.least_kv_bytes = kUnit;
  out.need.kv_bytes = 100 * kUnit;  // those it would like
  return out;
}

std::vector<MemoryPool> rooms(std::uint64_t machine, std::uint64_t cards) {
  return {{"machine", machine * kUnit, true}, {"cards", cards * kUnit, false}};
}

TEST(FitTogether, NobodyEndsWhereAllHaveRoom) {
  const std::vector<PlannedModel> models{planned("a", 6), planned("b", 10), planned("c", 24, false, 1)};
  for (const FitBeside& fit : fit_together(rooms(16, 24), models).fits) {
    EXPECT_EQ(fit.missing, 0U);
    EXPECT_THAT(fit.may_end, IsEmpty());
    EXPECT_FALSE(fit.never);
  }
}

TEST(FitTogether, OthersOfThePoolEndForWhatIsMissing) {
  const std::vector<PlannedModel> models{planned("a", 6), planned("b", 10), planned("c", 4, false, 1)};
  const auto fits = fit_together(rooms(15, 3), models).fits;
  EXPECT_EQ(fits[0].missing, kUnit);
  EXPECT_THAT(fits[0].may_end, ElementsAre(1));
  EXPECT_THAT(fits[1].may_end, ElementsAre(0));
  EXPECT_TRUE(fits[2].never) << "too large even alone";
  EXPECT_EQ(fits[2].missing, kUnit);
  EXPECT_THAT(fits[2].may_end, IsEmpty());
}

TEST(FitTogether, PinnedOnesEndForNobody) {
  const std::vector<PlannedModel> models{planned("a", 6, true), planned("b", 8), planned("c", 8)};
  const auto fits = fit_together(rooms(15, 0), models).fits;
  EXPECT_THAT(fits[1].may_end, ElementsAre(2)) << "the pinned one stays";
  EXPECT_FALSE(fits[1].never);
  EXPECT_THAT(fits[0].may_end, ElementsAre(1, 2));
  const auto scarce = fit_together(rooms(13, 0), models).fits;
  EXPECT_TRUE(scarce[1].never) << "6 are pinned, and 8 needed";
  EXPECT_EQ(scarce[1].missing, kUnit);
  EXPECT_EQ(scarce[0].missing, 0U) << "the others are never loaded";
}

TEST(FitTogether, APinnedModelThatIsNeverLoadedKeepsNobodyOut) {
  const std::vector<PlannedModel> models{planned("b", 8), planned("a", 20, true)};
  const auto fits = fit_together(rooms(15, 0), models).fits;
  EXPECT_TRUE(fits[1].never);
  EXPECT_FALSE(fits[0].never);
  EXPECT_EQ(fits[0].missing, 0U);
}

TEST(FitTogether, AnEngineHasNoMoreThanItsOwnDevices) {
  std::vector<PlannedModel> models{planned("a", 30, false, 1)};
  EXPECT_FALSE(fit_together(rooms(1, 48), models).fits[0].never);
  models[0].most = 24 * kUnit;
  EXPECT_TRUE(fit_together(rooms(1, 48), models).fits[0].never);
}

TEST(FitTogether, OneOfAGroupIsLoaded) {
  std::vector<PlannedModel> models{planned("a", 8), planned("b", 6), planned("c", 3)};
  EXPECT_EQ(fit_together(rooms(12, 0), models).fits[2].missing, 3 * kUnit) << "all that it needs";
  for (const std::size_t i : {0U, 1U}) models[i].group = "either";
  const Together together = fit_together(rooms(12, 0), models);
  EXPECT_EQ(together.at_least[0], 11 * kUnit) << "the larger one of the two";
  EXPECT_EQ(together.fits[2].missing, 0U);
  EXPECT_THAT(together.fits[0].group_ends, ElementsAre(1));
  EXPECT_THAT(together.fits[0].may_end, IsEmpty());
  models[1].pinned = true;
  EXPECT_TRUE(fit_together(rooms(12, 0), models).fits[0].never) << "the other one never ends";
  models[1].pinned = false;
  models[1].model = "a";  // on another engine
  EXPECT_THAT(fit_together(rooms(20, 0), models).fits[0].group_ends, IsEmpty());
}

}  // namespace
}  // namespace flyball::fleet
