// Which idle engine ends for another one's load.
#include "daemon/fleet/victim.hpp"

#include <gtest/gtest.h>

namespace flyball::fleet {
namespace {

TimePoint at(int second) {
  return TimePoint(std::chrono::seconds(second));
}
constexpr std::optional<std::size_t> kNobody;

TEST(Victim, IsTheOneIdleLongest) {
  EXPECT_EQ(choose_victim({}, Memory::machine, at(9)), kNobody);
  const Idle idle[] = {{.since = at(3)}, {.since = at(1)}, {.since = at(2)}};
  EXPECT_EQ(choose_victim(idle, Memory::machine, at(9)), 1U);
}

TEST(Victim, IsNeverPreloaded) {
  const Idle idle[] = {{.preloaded = true, .since = at(1)}, {.since = at(2)}};
  EXPECT_EQ(choose_victim(idle, Memory::machine, at(9)), 1U);
  EXPECT_EQ(choose_victim(std::span(idle, 1), Memory::machine, at(9)), kNobody);
}

TEST(Victim, LiesInTheMemoryThatIsShort) {
  const Idle idle[] = {{.memory = Memory::device, .since = at(1)},
                       {.memory = Memory::machine, .since = at(2)}};
  EXPECT_EQ(choose_victim(idle, Memory::machine, at(9)), 1U);
  EXPECT_EQ(choose_victim(idle, Memory::device, at(9)), 0U);
  EXPECT_EQ(choose_victim(std::span(idle, 1), Memory::machine, at(9)), kNobody);
}

TEST(Victim, HasNotWorkedSinceItsMemoryWasWanted) {
  const Idle idle[] = {{.since = at(5)}};
  EXPECT_EQ(choose_victim(idle, Memory::machine, at(4)), kNobody);
  EXPECT_EQ(choose_victim(idle, Memory::machine, at(5)), 0U);
}

}  // namespace
}  // namespace flyball::fleet
