// The ratios of one engine's requests by their settings: a profile may be slower than its settings explain.
// Pure; bounded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "config/request_settings.hpp"
#include "daemon/predict/statistics/ratio_window.hpp"

namespace flyball::predict {

struct Ratios {
  RatioWindow alone, queued, per_token;  // of times to a first token, without and with others; of TPOT
};

class ProfileRatios {
 public:
  // Policies know few profiles: of more settings the ones seen longest ago are forgotten.
  static constexpr std::size_t kMost = 8;

  // nullptr: none of these settings was seen.
  const Ratios* of(const config::RequestSettings& settings) const noexcept {
    const auto it = std::ranges::find(kept_, settings, &Kept::settings);
    return it == kept_.end() ? nullptr : &it->ratios;
  }
  // Valid until the next call.
  Ratios& seen(const config::RequestSettings& settings) {
    const auto it = std::ranges::find(kept_, settings, &Kept::settings);
    if (it == kept_.end()) {
      if (kept_.size() == kMost) kept_.erase(kept_.begin());
      kept_.push_back({settings, {}});
    } else {
      std::rotate(it, it + 1, kept_.end());
    }
    return kept_.back().ratios;
  }
  std::size_t size() const noexcept { return kept_.size(); }

  // RatioWindow::refitted() of `all`, the window of all requests, for each of these. Once that has begun a
  // level, ratios that have not are over times that nobody expects any more.
  void refitted(RatioWindow Ratios::*window, double factor, const Ratios& all) {
    const bool all_begin = (all.*window).begins_level();
    for (Kept& one : kept_) {
      RatioWindow& own = one.ratios.*window;
      if (all_begin && !own.begins_level()) own = {};
      own.refitted(factor);
    }
  }

 private:
  struct Kept {
    config::RequestSettings settings;
    Ratios ratios;
  };
  std::vector<Kept> kept_;  // seen longest ago first
};

}  // namespace flyball::predict
