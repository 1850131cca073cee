#include "daemon/route/background_load.hpp"

#include <algorithm>

namespace flyball::route {
namespace {

using policy::Facts;
using policy::Picked;
using policy::TargetFact;

constexpr std::string_view kBegins = "loading in the background, ",
                           kExplained = "would be loaded in the background, ";

bool is(const Facts& facts, const std::string& backend, TargetFact which) {
  return facts.is_true(facts.targets()->fact_of(backend, which));
}

std::string gain_of(Picked::By by, bool slo_missed) {
  switch (by) {
    case Picked::By::meets_slo:
      return "would have met the SLO";
    case Picked::By::fastest:
    case Picked::By::loaded:
    case Picked::By::near:
      return slo_missed ? "would have missed the SLO by less" : "would have been faster";
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

std::optional<std::string> gain_if_loaded(const policy::Tree& tree, const std::string& backend,
                                          const Facts& if_loaded) {
  const policy::Decision decision = policy::decide(tree, if_loaded);
  if (decision.target == nullptr || decision.target->backend != backend) return std::nullopt;
  for (const policy::PickTrace& pick : decision.picks)
    if (pick.rule == decision.rule) return gain_of(pick.picked.by, pick.picked.slo_missed);
  return gain_of(Picked::By::first, false);
}

void set_background_load(const BackgroundLoad& load, Facts& facts) {
  const policy::FactId fits = facts.targets()->fact_of(load.backend, TargetFact::fits_now);
  const policy::Fact before = *facts.get(fits);
  facts.set(fits, before.value, std::string(load.begins ? kBegins : kExplained) + load.gain, before.age);
}

std::string background_load_text(const Facts& facts) {
  for (const policy::TargetInstance& target : facts.targets()->instances()) {
    const policy::Fact* const fits = facts.get(fact_of(target, TargetFact::fits_now));
    if (fits != nullptr && (fits->source.starts_with(kBegins) || fits->source.starts_with(kExplained)))
      return target.id + ": " + fits->source;
  }
  return {};
}

bool BackgroundPace::may_search(std::string_view model, TimePoint now) {
  if (loads_) return false;
  std::erase_if(searches_, [&](const Search& search) { return now - search.at >= kSearch; });
  if (std::ranges::find(searches_, model, &Search::model) != searches_.end()) return false;
  searches_.push_back({std::string(model), now});
  return true;
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
