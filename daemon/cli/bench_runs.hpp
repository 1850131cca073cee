// How fast one engine prefills and decodes: requests of random tokens, new for each round, so that no cached
// prefix flatters the figures.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backends/backend.hpp"

namespace flyball::cli {

struct BenchLoad {
  std::uint32_t prompt_tokens = 512, generate = 128;  // a request
  std::uint32_t streams = 1;                          // requests at once
};
// Tokens of context that a request of it takes.
std::uint32_t bench_context(const BenchLoad& load) noexcept;

struct BenchRound {
  // Tokens per second over all streams; of the slowest stream.
  double prefill = 0, decode = 0, ttft_ms = 0;
};
struct BenchFigures {
  std::vector<BenchRound> rounds;
  BenchRound median;  // each of its figures by itself
  // GB of weights that decoding reads in a second. Streams share the read, but for experts: there it is a
  // lower bound.
  double weight_rate = 0;
};

// A round that warms up, then `repeat` rounds, each told of as it ends. context_length_exceeded; what the
// requests end with.
Result<BenchFigures> bench_rounds(Backend& backend, const BenchLoad& load, std::uint32_t repeat,
                                  const std::function<void(const BenchRound&)>& after_each = {});

}  // namespace flyball::cli
