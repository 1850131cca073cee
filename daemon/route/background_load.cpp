#include "daemon/route/background_load.hpp"

#include <algorithm>

namespace flyball::route {
namespace {

using policy::Facts;
using policy::Picked;
using policy::TargetFact;

bool is(const Facts& facts, const std::string& backend, TargetFact which) {
  return facts.is_true(facts.targets()->fact_of(backend, which));
}

bool another_holds_slo(const std::string& backend, const Facts& facts) {
  return std::ranges::any_of(facts.targets()->instances(), [&](const policy::TargetInstance& target) {
    return target.id != backend && facts.is_true(fact_of(target, TargetFact::available)) &&
           facts.is_true(fact_of(target, TargetFact::meets_slo));
  });
}

std::string gain_of(Picked::By by, bool slo_missed) {
  switch (by) {
    case Picked::By::meets_slo:
      return "would have met the SLO";
    case Picked::By::fastest:
    case Picked::By::loaded:
    case Picked::By::near:
      return slo_missed ? "would have missed the SLO by less" : "would have been faster";
    case Picked::By::least_delay:
    case Picked::By::near_delay:
      return "would have delayed others less";
    case Picked::By::trial:
      return "would have been tried";
    case Picked::By::nothing:
    case Picked::By::first:
    case Picked::By::unpredicted:
      break;
  }
  return "would have been chosen";
}

}  // namespace

std::vector<std::string> cold_engines(const policy::Decision& decision, const Facts& facts) {
  std::vector<std::string> out;
  if (decision.target == nullptr) return out;
  const std::string& chosen = decision.target->backend;
  if (!decision.tree->targets->is_remote(chosen) && !is(facts, chosen, TargetFact::loaded)) return out;
  for (const policy::TargetTrace& row : decision.targets) {
    if (row.target == nullptr || row.verdict != policy::Verdict::available) continue;
    const std::string& backend = row.target->backend;
    if (backend == chosen || decision.tree->targets->is_remote(backend)) continue;
    if (is(facts, backend, TargetFact::loaded) || !is(facts, backend, TargetFact::fits_now)) continue;
    if (std::ranges::find(out, backend) == out.end()) out.push_back(backend);
  }
  return out;
}

bool stands_still(std::span<const fleet::WorkerStatus> workers, const config::ModelEntry& model,
                  std::string_view backend) {
  return std::ranges::none_of(workers, [&](const fleet::WorkerStatus& worker) {
    if (worker.spare) return true;  // its memory counts as free, and is not free for another such load
    if (worker.model != model.id)
      return !model.group.empty() && worker.group == model.group && worker.pid != 0;
    return worker.backend == backend &&
           (worker.state != fleet::WorkerState::stopped || worker.unloaded || worker.invalid);
  });
}

std::optional<std::string> gain_if_loaded(const policy::Tree& tree, const std::string& backend,
                                          const Facts& if_loaded) {
  const policy::Decision decision = policy::decide(tree, if_loaded);
  if (decision.target == nullptr || decision.target->backend != backend) return std::nullopt;
  for (const policy::PickTrace& pick : decision.picks) {
    if (pick.rule != decision.rule) continue;
    if (pick.picked.by == Picked::By::trial && another_holds_slo(backend, if_loaded)) return std::nullopt;
    return gain_of(pick.picked.by, pick.picked.slo_missed);
  }
  return gain_of(Picked::By::first, false);
}

std::string background_load_text(const BackgroundLoad& load, bool begins) {
  return load.backend + (begins ? ": loading in the background, " : ": would be loaded in the background, ") +
         load.gain;
}

bool BackgroundPace::may_search(std::string_view app, std::string_view model, TimePoint now) const {
  if (loads_) return false;
  std::size_t recent = 0;
  for (const Search& search : searches_) {
    if (now - search.at >= kSearch) continue;
    if (search.app == app && search.model == model) return false;
    ++recent;
  }
  return recent < kMostSearches;
}

void BackgroundPace::searched(std::string_view app, std::string_view model, TimePoint now) {
  std::erase_if(searches_, [&](const Search& search) { return now - search.at >= kSearch; });
  searches_.push_back({std::string(app), std::string(model), now});
}

std::chrono::seconds BackgroundPace::rest_after(std::uint32_t fruitless) noexcept {
  constexpr std::uint32_t kMostDoublings = 16;  // far beyond kMostRest
  const std::chrono::seconds rest = kRest * (1 << std::min(std::max(fruitless, 1U) - 1, kMostDoublings));
  return std::min<std::chrono::seconds>(rest, kMostRest);
}

bool BackgroundPace::rested(std::string_view model, std::string_view backend, TimePoint now) const {
  return std::ranges::none_of(engines_, [&](const Engine& engine) {
    return engine.model == model && engine.backend == backend &&
           now - engine.began < rest_after(engine.fruitless);
  });
}

void BackgroundPace::begin(std::string_view model, std::string_view backend, TimePoint now) {
  loads_ = true;
  std::erase_if(engines_, [&](const Engine& engine) { return now - engine.began > 2 * kMostRest; });
  auto engine = std::ranges::find_if(
      engines_, [&](const Engine& one) { return one.model == model && one.backend == backend; });
  if (engine == engines_.end())
    engine = engines_.insert(engines_.end(), {std::string(model), std::string(backend), {}, 0});
  engine->began = now;
  ++engine->fruitless;
}

void BackgroundPace::served(std::string_view model, std::string_view backend) noexcept {
  for (Engine& engine : engines_)
    if (engine.model == model && engine.backend == backend) engine.fruitless = 0;
}

}  // namespace flyball::route
