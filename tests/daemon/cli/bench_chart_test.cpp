// The chart of `flyball bench --backends`: bars as long as what they show, in a document that parses.
#include "daemon/cli/bench_chart.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace flyball::cli {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<double> bars(const std::string& svg) {
  std::vector<double> out;
  const std::regex bar(R"(<rect x="150" y="\d+" width="([0-9.]+)\")");
  for (std::sregex_iterator it(svg.begin(), svg.end(), bar), end; it != end; ++it)
    out.push_back(std::stod((*it)[1]));
  return out;
}

TEST(BenchChart, BarsAreToScale) {
  const std::vector<BenchResult> results{
      {"cpu", 1, 100, 40}, {"vulkan", 1, 400, 20}, {"cpu", 8, 200, 80}, {"vulkan", 8, 50, 10}};
  const auto longest = bars(bench_svg("m", {}, results));
  // Decode, then prefill; each panel's longest bar is 500 wide.
  EXPECT_THAT(longest, ElementsAre(DoubleNear(250, 0.01), DoubleNear(125, 0.01), DoubleNear(500, 0.01),
                                   DoubleNear(62.5, 0.01), DoubleNear(125, 0.01), DoubleNear(500, 0.01),
                                   DoubleNear(250, 0.01), DoubleNear(62.5, 0.01)));
}

TEST(BenchChart, GroupsByStreamsWithFigures) {
  const std::string svg =
      bench_svg("m", {}, std::vector<BenchResult>{{"cpu", 1, 100, 40}, {"cpu", 32, 7, 1234.5}});
  EXPECT_THAT(svg, HasSubstr(">1 stream<"));
  EXPECT_THAT(svg, HasSubstr(">32 streams<"));
  EXPECT_THAT(svg, HasSubstr(">1234.5<"));
}

TEST(BenchChart, TextsCannotLeaveTheirPlace) {
  const std::string svg =
      bench_svg("<script>&\"", std::vector<std::string>{"a\nb"}, std::vector<BenchResult>{{"cpu", 1, 1, 1}});
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;&quot;"));
  EXPECT_THAT(svg, HasSubstr(">a b<"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST(BenchChart, NothingMeasuredIsNoBar) {
  EXPECT_THAT(bars(bench_svg("m", {}, std::vector<BenchResult>{{"cpu", 1, 0, 0}})), ElementsAre(0, 0));
  EXPECT_THAT(bench_svg("m", {}, {}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace flyball::cli
