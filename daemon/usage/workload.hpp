// What an app's requests were like beside what its manifest declares, and the manifest that would have said
// so. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/app_manifest.hpp"
#include "daemon/usage/daily_usage.hpp"

namespace flyball::usage {

// Fewer requests say nothing about a workload.
inline constexpr std::uint64_t kEnoughRequests = 20;
// What is declared drifts where it is off by more: the lengths are known to a fifth.
inline constexpr double kDriftFactor = 1.5;

struct Compared {
  std::string_view key;    // of the manifest's workload
  double declared = -1;    // -1: nothing
  double observed = 0;     // tokens, requests, or 1 for yes
  std::string_view basis;  // "median", "95th percentile"
  // declared, and off: factor() over kDriftFactor, or yes against no.
  bool drifts = false;
  // Observed over declared or the reverse, whichever is more than 1, each taken for at least 1.
  double factor() const noexcept;
};

// Empty where there were too few requests.
std::vector<Compared> compare(const config::Workload& declared, const DayUsage& observed);

// The manifest's text with another workload: declared values stay where they hold, the others become what was
// observed; what compare() knows nothing of stays as it is. yaml: the file that `app` was read from.
std::string corrected_manifest(std::string_view yaml, const config::AppManifest& app,
                               const std::vector<Compared>& compared);

}  // namespace flyball::usage
