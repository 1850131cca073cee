// What engines reached on the same machine and model, drawn: bars to scale. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace flyball::cli {

struct BenchResult {
  std::string engine;              // its kind
  std::uint32_t streams = 1;       // requests at once
  double prefill = 0, decode = 0;  // tokens per second over all streams
};

// An SVG document: decode and prefill each in a panel, in it a group of bars for each number of streams, in
// order of `results`; a panel's longest bar is as wide as the panel. Each note is a line above. Texts may
// hold anything.
std::string bench_svg(const std::string& title, std::span<const std::string> notes,
                      std::span<const BenchResult> results);

}  // namespace flyball::cli
