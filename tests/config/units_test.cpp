// Sizes and times as text for people.
#include "config/units.hpp"

#include <gtest/gtest.h>

namespace flyball::config {
namespace {

constexpr std::uint64_t kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024, kTiB = kGiB * 1024;

TEST(SizeText, TakesTheUnitThatTheNumberIsReadIn) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(1), "1 byte");
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(1024), "1 KiB");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(148'393'984), "142 MiB");
  EXPECT_EQ(size_text(4'724'464'025), "4.4 GiB");
  EXPECT_EQ(size_text(24 * kGiB), "24 GiB");
  EXPECT_EQ(size_text(3 * kTiB), "3 TiB");
}

TEST(SizeText, RoundsHalfUpAndIntoTheNextUnit) {
  EXPECT_EQ(size_text(kGiB - kMiB / 25), "1 GiB");  // 1023.96 MiB
  EXPECT_EQ(size_text(kGiB - kMiB / 2), "1 GiB");   // 1023.5 MiB
  EXPECT_EQ(size_text(kGiB - kMiB / 2 - 1), "1023 MiB");
  EXPECT_EQ(size_text(kMiB - 1), "1 MiB");
  EXPECT_EQ(size_text(100 * kKiB - kKiB / 20), "100 KiB");  // 99.95 KiB
  EXPECT_EQ(size_text(100 * kKiB - kKiB / 20 - 1), "99.9 KiB");
  EXPECT_EQ(size_text(100 * kKiB + kKiB / 2), "101 KiB");
  EXPECT_EQ(size_text(kKiB + 51), "1 KiB");  // 1.0498
  EXPECT_EQ(size_text(kKiB + 52), "1.1 KiB");
}

TEST(SizeText, HoldsTheLargestNumbers) {
  EXPECT_EQ(size_text(INT64_MAX), "8388608 TiB");
  EXPECT_EQ(size_text(UINT64_MAX), "16777216 TiB");
}

TEST(SizeText, ExactFormShowsBytesWhereItHadToRound) {
  EXPECT_EQ(exact_size_text(24 * kGiB), "24 GiB");
  EXPECT_EQ(exact_size_text(kGiB + kGiB / 2), "1.5 GiB");
  EXPECT_EQ(exact_size_text(24 * kGiB - 1), "25769803775 bytes");
  EXPECT_EQ(exact_size_text(1000), "1000 bytes");
  EXPECT_EQ(exact_size_text(UINT64_MAX), "18446744073709551615 bytes");
}

TEST(SizeText, DifferentSizesNeverLookAlikeBesideEachOther) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(sizes_to_compare({142 * kMiB, 96 * kMiB}), (Texts{"142 MiB", "96 MiB"}));
  EXPECT_EQ(sizes_to_compare({142 * kMiB + 1, 142 * kMiB}), (Texts{"148897793 bytes", "142 MiB"}));
  EXPECT_EQ(sizes_to_compare({142 * kMiB + 1, 142 * kMiB + 1}), (Texts{"142 MiB", "142 MiB"}));
  EXPECT_EQ(sizes_to_compare({142 * kMiB + 1, 96 * kMiB + 1, 142 * kMiB + 2}),
            (Texts{"148897793 bytes", "96 MiB", "148897794 bytes"}));
}

TEST(TimeText, TakesTheUnitThatTheNumberIsReadIn) {
  EXPECT_EQ(time_text(0), "0 ms");
  EXPECT_EQ(time_text(1), "0.001 ms");
  EXPECT_EQ(time_text(40), "0.04 ms");
  EXPECT_EQ(time_text(840), "0.84 ms");
  EXPECT_EQ(time_text(12'000), "12 ms");
  EXPECT_EQ(time_text(12'340), "12.3 ms");
  EXPECT_EQ(time_text(412'345), "412 ms");
  EXPECT_EQ(time_text(1'813'078), "1.8 s");
  EXPECT_EQ(time_text(90'000'000), "90 s");
  EXPECT_EQ(time_text(180'000'000), "3 min");
  EXPECT_EQ(time_text(7'200'000'000), "2 h");
  EXPECT_EQ(time_text(129'600'000'000), "36 h");
}

TEST(TimeText, RoundsHalfUpAndIntoTheNextUnit) {
  EXPECT_EQ(time_text(99), "0.099 ms");
  EXPECT_EQ(time_text(104), "0.1 ms");
  EXPECT_EQ(time_text(994), "0.99 ms");
  EXPECT_EQ(time_text(995), "1 ms");
  EXPECT_EQ(time_text(99'949), "99.9 ms");
  EXPECT_EQ(time_text(99'950), "100 ms");
  EXPECT_EQ(time_text(999'499), "999 ms");
  EXPECT_EQ(time_text(999'500), "1 s");
  EXPECT_EQ(time_text(999'960), "1 s");
  EXPECT_EQ(time_text(119'499'999), "119 s");
  EXPECT_EQ(time_text(119'500'000), "2 min");
  EXPECT_EQ(time_text(7'169'999'999), "119 min");
  EXPECT_EQ(time_text(7'170'000'000), "2 h");
}

TEST(TimeText, HoldsNegativeTimesAndTheLargestNumbers) {
  EXPECT_EQ(time_text(-1), "-0.001 ms");
  EXPECT_EQ(time_text(-1'813'078), "-1.8 s");
  EXPECT_EQ(time_text(INT64_MAX), "2562047788 h");
  EXPECT_EQ(time_text(INT64_MIN), "-2562047788 h");
  EXPECT_EQ(milliseconds_text(INT64_MAX), "9223372036854776 ms");
  EXPECT_EQ(milliseconds_text(INT64_MIN), "-9223372036854776 ms");
  EXPECT_EQ(exact_time_text(INT64_MIN), "-9223372036854775.808 ms");
}

TEST(TimeText, ExactFormShowsMillisecondsWhereItHadToRound) {
  EXPECT_EQ(exact_time_text(1'800'000), "1.8 s");
  EXPECT_EQ(exact_time_text(1'813'000), "1813 ms");
  EXPECT_EQ(exact_time_text(1'813'250), "1813.25 ms");
  EXPECT_EQ(exact_time_text(500'000), "500 ms");
}

TEST(TimeText, MillisecondsStayMilliseconds) {
  EXPECT_EQ(milliseconds_text(0), "0 ms");
  EXPECT_EQ(milliseconds_text(42), "0.042 ms");
  EXPECT_EQ(milliseconds_text(840), "0.84 ms");
  EXPECT_EQ(milliseconds_text(9'000), "9 ms");
  EXPECT_EQ(milliseconds_text(999'960), "1000 ms");
  EXPECT_EQ(milliseconds_text(1'813'078), "1813 ms");
  EXPECT_EQ(milliseconds_text(-1'813'078), "-1813 ms");
}

}  // namespace
}  // namespace flyball::config
