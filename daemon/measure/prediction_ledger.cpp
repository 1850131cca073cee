#include "daemon/measure/prediction_ledger.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace flyball::measure {
namespace {

constexpr std::array<std::string_view, kQuantities> kQuantityNames = {
    "bytes", "load_ms", "ttft_ms", "decode_tps", "request_ttft_ms", "request_tpot_ms"};
constexpr std::array<std::string_view, kBases> kBasisNames = {"file", "roofline", "measured", "requests",
                                                              "assumed"};

template <class Enum>
std::optional<Enum> named(std::span<const std::string_view> names, std::string_view name) {
  const auto it = std::ranges::find(names, name);
  if (it == names.end()) return std::nullopt;
  return static_cast<Enum>(it - names.begin());
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double spread_of(const std::vector<double>& values, double mean) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

bool positive(double value) {
  return std::isfinite(value) && value > 0;
}

// A window of ratios takes larger ones for worse: speeds go in as times.
bool is_speed(Quantity quantity) {
  return quantity == Quantity::decode_tps;
}

}  // namespace

std::string_view to_string(Quantity quantity) noexcept {
  return kQuantityNames[static_cast<std::size_t>(quantity)];
}
std::optional<Quantity> quantity_named(std::string_view name) noexcept {
  return named<Quantity>(kQuantityNames, name);
}
std::string_view to_string(Basis basis) noexcept {
  return kBasisNames[static_cast<std::size_t>(basis)];
}
std::optional<Basis> basis_named(std::string_view name) noexcept {
  return named<Basis>(kBasisNames, name);
}

bool PredictionLedger::add(const Outcome& outcome) {
  if (!positive(outcome.predicted) || !positive(outcome.actual)) return false;
  const Key key{outcome.backend, outcome.quantity, outcome.basis, outcome.model};
  if (!kept_.contains(key) && kept_.size() >= kMaxBooks)
    kept_.erase(std::ranges::min_element(kept_, {}, [](const auto& kept) { return kept.second.latest.at; }));
  Kept& kept = kept_[key];
  kept.latest = outcome;
  kept.ratios.add(outcome.actual / outcome.predicted);
  if (outcome.quantity == Quantity::load_ms) {
    const std::pair pair{outcome.backend, outcome.model};
    if (loads_.size() >= kMaxBooks && !loads_.contains(pair))
      loads_.erase(std::ranges::min_element(loads_, {}, [](const auto& loads) { return loads.second.at; }));
    Loads& loads = loads_[pair];
    loads.latest.add({outcome.predicted, outcome.actual});
    loads.at = outcome.at;
  }
  double actual = outcome.actual, predicted = outcome.predicted;
  if (is_speed(outcome.quantity)) std::swap(actual, predicted);
  kept.correction.add(actual, predicted);
  of_all_models_
      .try_emplace({outcome.backend, outcome.quantity, outcome.basis}, predict::RatioWindow::kEnoughAlone)
      .first->second.add(actual, predicted);
  return true;
}

std::vector<double> PredictionLedger::ratios(const std::string& backend, Quantity quantity,
                                             Basis basis) const {
  std::vector<double> out;
  for (auto it = kept_.lower_bound({backend, quantity, basis, ""}); it != kept_.end(); ++it) {
    const auto& [its_backend, its_quantity, its_basis, its_model] = it->first;
    if (its_backend != backend || its_quantity != quantity || its_basis != basis) break;
    const auto& ratios = it->second.ratios;
    for (std::size_t age = 0; age < ratios.size(); ++age) out.push_back(ratios.latest(age));
  }
  return out;
}

double PredictionLedger::correction(const std::string& model, const std::string& backend, Quantity quantity,
                                    Basis basis) const {
  const auto of_model = kept_.find({backend, quantity, basis, model});
  const auto of_all = of_all_models_.find({backend, quantity, basis});
  const predict::RatioWindow* seen = nullptr;
  if (of_model != kept_.end() && of_model->second.correction.counts())
    seen = &of_model->second.correction;
  else if (of_all != of_all_models_.end() && of_all->second.counts())
    seen = &of_all->second;
  if (seen == nullptr) return 1;
  return is_speed(quantity) ? 1 / seen->median() : seen->median();
}

std::optional<double> PredictionLedger::load_ms(const std::string& model, const std::string& backend,
                                                double predicted) const {
  const auto seen = loads_.find({backend, model});
  if (seen == loads_.end()) return std::nullopt;
  std::vector<double> same;
  for (std::size_t age = 0; age < seen->second.latest.size(); ++age) {
    const Load& load = seen->second.latest.latest(age);
    if (load.predicted <= kSameLoad * predicted && predicted <= kSameLoad * load.predicted)
      same.push_back(load.actual);
  }
  if (same.empty()) return std::nullopt;
  std::ranges::sort(same);
  return predict::median(std::span<const double>(same));
}

double PredictionLedger::margin(const std::string& backend) const {
  const std::vector<double> seen = ratios(backend, Quantity::bytes, Basis::file);
  if (seen.empty()) return 0;
  const double mean = mean_of(seen);
  return std::clamp(mean + 2 * spread_of(seen, mean) - 1, 0.0, kMaxMargin);
}

std::vector<PredictionLedger::Summary> PredictionLedger::summaries() const {
  std::vector<Summary> out;
  for (const auto& [key, kept] : kept_) {
    const auto& [backend, quantity, basis, model] = key;
    if (out.empty() || out.back().backend != backend || out.back().quantity != quantity ||
        out.back().basis != basis) {
      const std::vector<double> seen = ratios(backend, quantity, basis);
      const double mean = mean_of(seen);
      out.push_back({backend, quantity, basis, mean, spread_of(seen, mean), seen.size(), kept.latest});
    } else if (kept.latest.at >= out.back().latest.at) {
      out.back().latest = kept.latest;
    }
  }
  return out;
}

}  // namespace flyball::measure
