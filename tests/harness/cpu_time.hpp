// Time for tests that bound work: a loaded machine stretches the clock on the wall, not this one.
#pragma once

#include <ctime>

#include <chrono>

namespace flyball::test {

// The processor time that the calling thread has used. Other programs and threads have no part in it.
inline std::chrono::nanoseconds cpu_time() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace flyball::test
