#include "daemon/measure/prediction_ledger.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

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

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
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
    kept_.erase(std::ranges::min_element(kept_, {}, [](const auto& book) { return book.second.back().at; }));
  auto& outcomes = kept_[key];
  outcomes.push_back(outcome);
  if (outcomes.size() > kKept) outcomes.pop_front();
  return true;
}

// model: nullptr for all of them.
std::vector<double> PredictionLedger::ratios(const std::string& backend, Quantity quantity, Basis basis,
                                             const std::string* model) const {
  std::vector<double> out;
  for (auto it = kept_.lower_bound({backend, quantity, basis, model ? *model : std::string()});
       it != kept_.end(); ++it) {
    const auto& [its_backend, its_quantity, its_basis, its_model] = it->first;
    if (its_backend != backend || its_quantity != quantity || its_basis != basis ||
        (model && its_model != *model))
      break;
    for (const Outcome& o : it->second) out.push_back(o.actual / o.predicted);
  }
  return out;
}

double PredictionLedger::correction(const std::string& model, const std::string& backend, Quantity quantity,
                                    Basis basis) const {
  std::vector<double> seen = ratios(backend, quantity, basis, &model);
  if (seen.size() < kEnough) seen = ratios(backend, quantity, basis, nullptr);
  if (seen.size() < kEnough) return 1;
  return std::clamp(median(std::move(seen)), 1 / kMaxCorrection, kMaxCorrection);
}

double PredictionLedger::margin(const std::string& backend) const {
  const std::vector<double> seen = ratios(backend, Quantity::bytes, Basis::file, nullptr);
  if (seen.empty()) return 0;
  const double mean = mean_of(seen);
  return std::clamp(mean + 2 * spread_of(seen, mean) - 1, 0.0, kMaxMargin);
}

std::vector<PredictionLedger::Summary> PredictionLedger::summaries() const {
  std::vector<Summary> out;
  for (const auto& [key, outcomes] : kept_) {
    const auto& [backend, quantity, basis, model] = key;
    if (out.empty() || out.back().backend != backend || out.back().quantity != quantity ||
        out.back().basis != basis) {
      const std::vector<double> seen = ratios(backend, quantity, basis, nullptr);
      const double mean = mean_of(seen);
      out.push_back({backend, quantity, basis, mean, spread_of(seen, mean), seen.size(), outcomes.back()});
    } else if (outcomes.back().at >= out.back().latest.at) {
      out.back().latest = outcomes.back();
    }
  }
  return out;
}

}  // namespace flyball::measure
