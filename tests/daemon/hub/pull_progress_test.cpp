#include "daemon/cli/pull_progress.hpp"

#include <gtest/gtest.h>

namespace flyball::cli {
namespace {

using std::chrono::milliseconds;
constexpr std::uint64_t kMiB = 1U << 20;

TEST(PullProgress, SaysShareRateAndTimeLeft) {
  EXPECT_EQ(progress_line(300 * kMiB, 400 * kMiB, 100 * kMiB, milliseconds(10'000)),
            " 75 %  300 MiB of 400 MiB  10 MiB/s  10 s left");
  EXPECT_EQ(progress_line(400 * kMiB, 400 * kMiB, 400 * kMiB, milliseconds(4'000)),
            "100 %  400 MiB of 400 MiB  100 MiB/s");
}

TEST(PullProgress, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(progress_line(5 * kMiB, 0, 5 * kMiB, milliseconds(1'000)), "5 MiB  5 MiB/s");
  EXPECT_EQ(progress_line(0, 400 * kMiB, 0, milliseconds(9'000)), "  0 %  0 bytes of 400 MiB");
  EXPECT_EQ(progress_line(kMiB, 2 * kMiB, kMiB, milliseconds(100)), " 50 %  1 MiB of 2 MiB");
}

TEST(PullProgress, ALineIsCutBetweenCharacters) {
  EXPECT_EQ(cut_to("Größe", 10), "Größe");
  EXPECT_EQ(cut_to("Größe", 3), "Grö");
  EXPECT_EQ(cut_to("Größe", 0), "");
}

}  // namespace
}  // namespace flyball::cli
