#include "daemon/route/slo.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/route/exact_time.hpp"
#include "daemon/route/possible_targets.hpp"
#include "policy/fastest.hpp"

namespace flyball::route {
namespace {

using policy::Facts;
using policy::TargetFact;

struct Figure {
  std::string_view slo;  // the fact that has it
  TargetFact p90, p50;
  std::string_view of_nine, what;
};
constexpr std::array kFigures{
    Figure{"app.slo.ttft", TargetFact::expected_ttft_p90, TargetFact::expected_ttft,
           "nine in ten begin within ", " to the first token"},
    Figure{"app.slo.tpot", TargetFact::expected_tpot_p90, TargetFact::expected_tpot,
           "nine in ten take at most ", " for each further token"},
    Figure{"app.slo.deadline", TargetFact::expected_total_p90, TargetFact::expected_total,
           "nine in ten end within ", " to the end of the answer"},
};

// The source of `meets_slo` of a request that was let through begins so, and goes on with why.
constexpr std::string_view kLetThroughSource = "let through ";

// The figure by which a target misses the SLO most; the ratio says by how much.
struct Miss {
  double ratio = std::numeric_limits<double>::infinity();
  const policy::Target* target = nullptr;
  const Figure* figure = nullptr;
};

const policy::Fact* predicted(const Facts& facts, const policy::Target& target, TargetFact which) {
  return facts.get(facts.targets()->fact_of(target.backend, which), target.profile);
}

policy::FactId meets_slo_of(const std::string& backend, const Facts& facts) {
  return facts.targets()->fact_of(backend, TargetFact::meets_slo);
}

std::int64_t microseconds_of(const policy::Fact& fact) {
  return std::get<std::int64_t>(fact.value);
}

// p90 decides whether a target meets the SLO; facts that people wrote may have p50 alone.
Miss worst_miss(const Facts& facts, const policy::Target& target) {
  Miss out{0, &target, nullptr};
  for (const Figure& figure : kFigures) {
    const policy::Fact* const slo = facts.get(figure.slo);
    const policy::Fact* expected = predicted(facts, target, figure.p90);
    if (expected == nullptr) expected = predicted(facts, target, figure.p50);
    if (slo == nullptr || expected == nullptr) continue;
    const auto wanted_us = 1e3 * static_cast<double>(std::get<std::int64_t>(slo->value));
    const double ratio = static_cast<double>(microseconds_of(*expected)) / std::max(1.0, wanted_us);
    if (out.figure == nullptr || ratio > out.ratio) out = {ratio, &target, &figure};
  }
  return out;
}

// The sum that a prediction is: "queue 1.0 ms + load 0 ms + ...". "": its source does not say.
std::string basis_of(const policy::Fact& fact) {
  const std::size_t colon = fact.source.find(": ");
  return !policy::is_predicted(fact) || colon == std::string::npos ? "" : fact.source.substr(colon + 2);
}

std::string miss_text(const Miss& miss, const Facts& facts) {
  const Figure& figure = *miss.figure;
  const policy::Fact* const p90 = predicted(facts, *miss.target, figure.p90);
  const policy::Fact* const p50 = predicted(facts, *miss.target, figure.p50);
  const auto time_of = [](const policy::Fact& fact) {
    return exact_text(std::chrono::microseconds(microseconds_of(fact)));
  };
  const std::string where = " where " + std::string(figure.slo) + " is " +
                            std::to_string(std::get<std::int64_t>(facts.get(figure.slo)->value)) + " ms";
  const std::string what(figure.what), basis = p50 == nullptr ? "" : basis_of(*p50);
  const std::string nearest = to_string(*miss.target) + " comes nearest";
  if (p90 == nullptr)
    return nearest + ", with " + time_of(*p50) + " expected" + what + where +
           (policy::is_predicted(*p50) ? " (" + p50->source + ")" : "");
  std::string out = nearest + ": " + std::string(figure.of_nine) + time_of(*p90) +
                    (figure.p90 == TargetFact::expected_tpot_p90 ? what : "") + where;
  if (p50 != nullptr) out += " (half within " + time_of(*p50) + (basis.empty() ? "" : ": " + basis) + ")";
  return out;
}

// The targets that count. Those that the request may be sent to; where every rule passed its targets over for
// the SLO and none was chosen, all that are usable.
std::vector<const policy::Target*> usable_targets(const policy::Decision& decision) {
  if (decision.target != nullptr) return possible_targets(decision);
  std::vector<const policy::Target*> out;
  if (decision.queue) return out;  // a target that the request waits for is not predicted
  for (const policy::TargetTrace& trace : decision.targets)
    if (trace.verdict == policy::Verdict::available) out.push_back(trace.target);
  return out;
}

}  // namespace

std::optional<SloMiss> slo_miss(const policy::Decision& decision, const Facts& facts) {
  Miss best;
  const auto targets = usable_targets(decision);
  for (const policy::Target* const target : targets) {
    const policy::Fact* const meets = predicted(facts, *target, TargetFact::meets_slo);
    if (meets == nullptr || std::get<bool>(meets->value)) return std::nullopt;
    const Miss miss = worst_miss(facts, *target);
    if (miss.figure != nullptr && miss.ratio < best.ratio) best = miss;
  }
  if (targets.empty()) return std::nullopt;
  if (best.target != nullptr) return SloMiss{best.target, miss_text(best, facts)};
  std::string usable;
  for (const policy::Target* const target : targets)
    usable += (usable.empty() ? "" : ", ") + to_string(*target);
  return SloMiss{targets.front(), std::move(usable)};
}

double slo_ratio(const policy::Target& target, const Facts& facts) {
  const Miss miss = worst_miss(facts, target);
  return miss.figure == nullptr ? 1 : miss.ratio;
}

Error slo_error(const SloMiss& miss) {
  return {ErrorCode::slo_unattainable,
          "No usable engine is predicted to hold the SLO: " + miss.text + ".",
          {},
          {}};
}

std::optional<Error> slo_refusal(const policy::Decision& decision, const Facts& facts) {
  const auto miss = slo_miss(decision, facts);
  return miss ? std::optional(slo_error(*miss)) : std::nullopt;
}

const policy::Target* target_if_let_through(const policy::Tree& tree, const std::string& nearest,
                                            Facts facts) {
  set_let_through({nearest, ""}, facts);
  return policy::decide(tree, facts).target;
}

void set_let_through(const LetThrough& request, Facts& facts) {
  facts.set(meets_slo_of(request.backend, facts), true, std::string(kLetThroughSource) + request.why);
}

std::string let_through_text(const Facts& facts) {
  for (const policy::TargetInstance& target : facts.targets()->instances()) {
    const policy::Fact* const meets = facts.get(fact_of(target, TargetFact::meets_slo));
    if (meets != nullptr && meets->source.starts_with(kLetThroughSource))
      return meets->source.substr(kLetThroughSource.size());
  }
  return {};
}

}  // namespace flyball::route
