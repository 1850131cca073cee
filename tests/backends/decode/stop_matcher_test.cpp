// Stop strings, however the text is cut.
#include "backends/decode/stop_matcher.hpp"

#include <gtest/gtest.h>

#include <random>

namespace flyball::decode {
namespace {

struct Fed {
  std::string text, stop;
};

Fed feed(std::vector<std::string> stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(std::move(stops));
  Fed run;
  for (const std::string& piece : pieces) {
    const auto released = matcher.push(piece);
    run.text += released.text;
    if (released.stop != nullptr) {
      run.stop = *released.stop;
      return run;
    }
  }
  run.text += matcher.finish();
  return run;
}

TEST(StopMatcher, FindsAStopAcrossPieces) {
  const Fed run = feed({"\n\nUser:"}, {"Hello\n", "\nUs", "er: next"});
  EXPECT_EQ(run.text, "Hello");
  EXPECT_EQ(run.stop, "\n\nUser:");
}

TEST(StopMatcher, HoldsBackOnlyAPossiblePrefix) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.push("the E").text, "the ");
  EXPECT_EQ(matcher.push("N").text, "");
  EXPECT_EQ(matcher.push("trance").text, "ENtrance");
  EXPECT_EQ(matcher.push("E").text, "");
  EXPECT_EQ(matcher.finish(), "E");
}

TEST(StopMatcher, RepeatedPrefixesDoNotHideAMatch) {
  EXPECT_EQ(feed({"aab"}, {"a", "a", "a", "b"}).text, "a");
  EXPECT_EQ(feed({"abab"}, {"ab", "xabab"}).text, "abx");
}

TEST(StopMatcher, TheOneThatCompletesFirstWins) {
  const Fed whole = feed({"abcd", "bc"}, {"xabcd"});
  const Fed pieces = feed({"abcd", "bc"}, {"x", "a", "b", "c", "d"});
  EXPECT_EQ(whole.text, "xa");
  EXPECT_EQ(whole.stop, "bc");
  EXPECT_EQ(whole.text, pieces.text);
  EXPECT_EQ(whole.stop, pieces.stop);
}

TEST(StopMatcher, OfThoseThatCompleteTogetherTheLongest) {
  EXPECT_EQ(feed({"c", "abc"}, {"xabc"}).text, "x");
}

TEST(StopMatcher, NoStopsNothingHeld) {
  StopMatcher matcher;
  EXPECT_EQ(matcher.push("anything").text, "anything");
  EXPECT_EQ(matcher.finish(), "");
}

// Any cutting of any text gives what byte by byte gives.
TEST(StopMatcher, ResultDoesNotDependOnTheCuts) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](std::size_t n) {
      std::string s;
      for (std::size_t i = 0; i < n; ++i) s += static_cast<char>('a' + random() % 3);
      return s;
    };
    std::vector<std::string> stops;
    for (unsigned i = 0; i <= random() % 3; ++i) stops.push_back(word(1 + random() % 4));
    const std::string text = word(random() % 24);
    std::vector<std::string> bytes, pieces;
    for (const char c : text) bytes.emplace_back(1, c);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + random() % 6;
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    const Fed a = feed(stops, bytes);
    const Fed b = feed(stops, pieces);
    ASSERT_EQ(a.text, b.text) << text;
    ASSERT_EQ(a.stop, b.stop) << text;
  }
}

}  // namespace
}  // namespace flyball::decode
