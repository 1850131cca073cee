// Ids of requests, which count up from a random start.
#pragma once

#include <sys/random.h>

#include <cstdint>
#include <random>
#include <string>

#include <spdlog/fmt/fmt.h>

namespace flyball::api {

inline std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) == sizeof bits) return bits;
  std::random_device source;
  return std::uint64_t{source()} << 32U | source();
}

class RequestIds {
 public:
  std::string next() { return fmt::format("req-{:016x}", ++last_); }

 private:
  std::uint64_t last_ = random_bits();
};

}  // namespace flyball::api
