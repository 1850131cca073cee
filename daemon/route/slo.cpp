#include "daemon/route/slo.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>

#include "policy/fastest.hpp"

namespace flyball::route {
namespace {

using policy::Facts;
using policy::TargetFact;

struct Figure {
  std::string_view slo;  // the fact that has it
  TargetFact expected;
  std::string_view what;
};
constexpr std::array kFigures{
    Figure{"app.slo.ttft", TargetFact::expected_ttft, "to the first token"},
    Figure{"app.slo.tpot", TargetFact::expected_tpot, "for each further token"},
    Figure{"app.slo.deadline", TargetFact::expected_total, "to the end of the answer"},
};

// Exact to a tenth of a millisecond: it stands beside a limit.
std::string milliseconds_text(double us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", us / 1e3);
  return text;
}

// The figure by which a target misses the SLO most; the ratio says by how much.
struct Miss {
  double ratio = std::numeric_limits<double>::infinity();
  const policy::Target* target = nullptr;
  const Figure* figure = nullptr;
};

const policy::Fact* predicted(const Facts& facts, const policy::Target& target, TargetFact which) {
  return facts.get(facts.targets()->fact_of(target.backend, which));
}

Miss worst_miss(const Facts& facts, const policy::Target& target) {
  Miss out{0, &target, nullptr};
  for (const Figure& figure : kFigures) {
    const policy::Fact* const slo = facts.get(figure.slo);
    const policy::Fact* const expected = predicted(facts, target, figure.expected);
    if (slo == nullptr || expected == nullptr) continue;
    const auto wanted_us = 1e3 * static_cast<double>(std::get<std::int64_t>(slo->value));
    const double ratio =
        static_cast<double>(std::get<std::int64_t>(expected->value)) / std::max(1.0, wanted_us);
    if (out.figure == nullptr || ratio > out.ratio) out = {ratio, &target, &figure};
  }
  return out;
}

std::string miss_text(const Miss& miss, const Facts& facts) {
  const policy::Fact& expected = *predicted(facts, *miss.target, miss.figure->expected);
  std::string out = to_string(*miss.target) + " comes nearest, with " +
                    milliseconds_text(static_cast<double>(std::get<std::int64_t>(expected.value))) +
                    " expected " + std::string(miss.figure->what) + " where " +
                    std::string(miss.figure->slo) + " is " +
                    std::to_string(std::get<std::int64_t>(facts.get(miss.figure->slo)->value)) + " ms";
  return policy::is_predicted(expected) ? out + " (" + expected.source + ")" : out;
}

}  // namespace

std::optional<Error> slo_refusal(const policy::Decision& decision, const Facts& facts) {
  Miss best;
  std::string usable;
  for (const policy::TargetTrace& trace : decision.targets) {
    if (trace.verdict != policy::Verdict::chosen && trace.verdict != policy::Verdict::available) continue;
    const policy::Fact* const meets = predicted(facts, *trace.target, TargetFact::meets_slo);
    if (meets == nullptr || std::get<bool>(meets->value)) return std::nullopt;
    const Miss miss = worst_miss(facts, *trace.target);
    if (miss.figure != nullptr && miss.ratio < best.ratio) best = miss;
    usable += (usable.empty() ? "" : ", ") + to_string(*trace.target);
  }
  if (usable.empty()) return std::nullopt;
  return Error{ErrorCode::slo_unattainable,
               "No usable engine is predicted to hold the SLO: " +
                   (best.target != nullptr ? miss_text(best, facts) : usable) + ".",
               {},
               {}};
}

}  // namespace flyball::route
