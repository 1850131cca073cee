// What the benchmark programs share: a clock, and an end with a sentence.
#pragma once

#include <errno.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>

#include "config/error.hpp"

namespace flyball::bench {

inline constexpr int kSkipped = 77;  // what exit code says that the device to measure is not there

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Ends the program with a status that no floor has: a program whose floor fails ends with 1.
[[noreturn]] inline void die(const std::string& what, int code = 2) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  std::exit(code);
}

template <class T>
T expect(Result<T> result) {
  if (!result) die(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace flyball::bench
