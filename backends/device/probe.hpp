// How the GPU engines' probes go: each device runs one small kernel, and counts only where the answer is
// right.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/device_report.hpp"
#include "config/error.hpp"

namespace flyball::device {

// The kernel of every probe: element i becomes i * kProbeFactor + data[i].
inline constexpr std::uint32_t kProbeElements = 4096;
inline constexpr std::uint32_t kProbeFactor = 2654435761U;

inline void fill_probe(std::span<std::uint32_t> data) noexcept {
  for (std::uint32_t i = 0; i < data.size(); ++i) data[i] = ~i;
}

// After the kernel. device_lost: names the first wrong element.
inline Result<void> check_probe(std::span<const std::uint32_t> data) {
  for (std::uint32_t i = 0; i < data.size(); ++i)
    if (data[i] != ~i + i * kProbeFactor)
      return fail(ErrorCode::device_lost, "the kernel's answer is wrong at element " + std::to_string(i));
  return {};
}

// GPUs first; hands on each report as soon as it is known. asked: when the drivers were first asked.
// run_kernel takes a place in `reports` and the milliseconds that the device may take, and gives a
// Result<void>: one that hangs leaves the others their share, and the probe's parent the time to be told.
template <class RunKernel>
void probe_each(const ProbeRun& run, std::chrono::steady_clock::time_point asked,
                std::vector<DeviceReport> reports, RunKernel&& run_kernel) {
  using std::chrono::milliseconds;
  std::vector<std::size_t> order(reports.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_partition(order, [&](std::size_t i) { return !reports[i].software(); });
  for (auto left = static_cast<std::int64_t>(order.size()); const std::size_t i : order) {
    const auto spent = std::chrono::floor<milliseconds>(std::chrono::steady_clock::now() - asked);
    Result<void> ran = run_kernel(i, std::max((run.patience * 4 / 5 - spent) / left--, milliseconds(1)));
    reports[i].dispatched = ran.has_value();
    if (!ran) reports[i].error = std::move(ran.error().message);
    run.on_device(reports[i]);
  }
}

}  // namespace flyball::device
