// How `flyball tune` looks for a better tuning: pure, neither device nor clock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "backends/opencl/tuning.hpp"

namespace flyball::opencl {

// Coordinate descent: from the best so far one parameter is doubled or halved, or two that share a bound are
// traded, and a step that helped is taken again. Ends where no step is left that has not been tried.
class TuningSearch {
 public:
  // fingerprint: what a tuning compiles to; those that compile to the same are one candidate.
  TuningSearch(const MatmulTuning& start, std::function<bool(const MatmulTuning&)> allowed,
               std::function<std::string(const MatmulTuning&)> fingerprint);

  std::optional<MatmulTuning> next();
  void accept() { best_ = last_, idle_ = 0; }  // the last candidate is the best now
  const MatmulTuning& best() const noexcept { return best_; }

 private:
  MatmulTuning best_, last_;
  std::function<bool(const MatmulTuning&)> allowed_;
  std::function<std::string(const MatmulTuning&)> fingerprint_;
  std::set<std::string> seen_;
  std::size_t at_ = 0, idle_ = 0;  // the step; steps from the best that gave no candidate
};

// Seconds of a candidate and of the best so far, one after the other.
struct Duel {
  double candidate = 0, incumbent = 0;
};
enum class Verdict : std::uint8_t { undecided, better, not_better };
// A shared machine's noise only ever makes a run longer, and lasts longer than a run: so the shortest runs
// are compared, of runs that took turns. Better is who wins all of kDuels but one, and is shorter by 2 %.
inline constexpr std::size_t kDuels = 5;
Verdict judge(std::span<const Duel> duels) noexcept;

}  // namespace flyball::opencl
