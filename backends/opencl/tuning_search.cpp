#include "backends/opencl/tuning_search.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace flyball::opencl {
namespace {

constexpr double kGain = 0.02;

struct Step {
  const TuningParameter* doubled = nullptr;
  const TuningParameter* halved = nullptr;
};

// A work-group's size, a register file and a row group bound these together.
constexpr std::pair<std::string_view, std::string_view> kTrades[] = {
    {"matvec.lanes", "matvec.slices"}, {"vector", "matvec.vectors"}, {"vector", "panel.vectors"},
    {"panel.vectors", "panel.tokens"}, {"tile.rows", "tile.tokens"}, {"tile.item_rows", "tile.item_tokens"}};

std::vector<Step> make_steps() {
  std::vector<Step> steps;
  const auto parameters = tuning_parameters();
  for (const TuningParameter& p : parameters) {
    steps.push_back({.halved = &p});
    steps.push_back({.doubled = &p});
  }
  const auto named = [&](std::string_view name) {
    return &*std::ranges::find(parameters, name, &TuningParameter::name);
  };
  for (const auto& [a, b] : kTrades) {
    steps.push_back({named(a), named(b)});
    steps.push_back({named(b), named(a)});
  }
  return steps;
}

std::optional<MatmulTuning> taken(const Step& step, MatmulTuning tuning) {
  if (step.doubled != nullptr) step.doubled->of(tuning) *= 2;
  if (step.halved != nullptr) {
    if (step.halved->of(tuning) % 2 != 0) return std::nullopt;
    step.halved->of(tuning) /= 2;
  }
  return tuning;
}

}  // namespace

TuningSearch::TuningSearch(const MatmulTuning& start, std::function<bool(const MatmulTuning&)> allowed,
                           std::function<std::string(const MatmulTuning&)> fingerprint)
    : best_(start), last_(start), allowed_(std::move(allowed)), fingerprint_(std::move(fingerprint)) {
  seen_.insert(fingerprint_(start));
}

std::optional<MatmulTuning> TuningSearch::next() {
  static const std::vector<Step> kSteps = make_steps();
  for (; idle_ < kSteps.size(); ++idle_, at_ = (at_ + 1) % kSteps.size()) {
    const auto candidate = taken(kSteps[at_], best_);
    if (!candidate || !allowed_(*candidate) || !seen_.insert(fingerprint_(*candidate)).second) continue;
    last_ = *candidate;
    return candidate;
  }
  return std::nullopt;
}

Verdict judge(std::span<const Duel> duels) noexcept {
  std::size_t lost = 0;
  Duel best{.candidate = 1e300, .incumbent = 1e300};
  for (const Duel& d : duels) {
    lost += !(d.candidate < d.incumbent);
    best.candidate = std::min(best.candidate, d.candidate);
    best.incumbent = std::min(best.incumbent, d.incumbent);
  }
  if (lost > 1) return Verdict::not_better;
  if (duels.size() < kDuels) return Verdict::undecided;
  return best.candidate < (1 - kGain) * best.incumbent ? Verdict::better : Verdict::not_better;
}

}  // namespace flyball::opencl
