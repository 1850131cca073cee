// A time beside a limit: exact to a tenth of a millisecond ("840.0 ms"). Pure.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace flyball::route {

inline std::string exact_text(std::chrono::microseconds time) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1f ms", static_cast<double>(time.count()) / 1e3);
  return out;
}

}  // namespace flyball::route
