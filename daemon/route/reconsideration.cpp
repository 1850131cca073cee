#include "daemon/route/reconsideration.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "daemon/route/exact_time.hpp"
#include "policy/pick.hpp"

namespace flyball::route {
namespace {

using policy::TargetFact;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Smaller differences are within the error of a prediction, and do not pay for a move.
constexpr int kClearPercent = 25;
constexpr microseconds kClearTime = milliseconds(100);

// A look gathers the facts of a decision, some 100 us, and forecasts the request's turn in each line of its
// model: 5 us with a few apps in line, 40 us with fifty (FairQueue::kFollowed bounds it). At 100 us, 256
// requests that wait cost a tenth of a core at the shortest gap, which they leave after two seconds, and a
// two-hundredth at the longest.
constexpr microseconds kShortestGap = milliseconds(250);
constexpr microseconds kLongestGap = std::chrono::seconds(5);
// A gap is this part of the time waited or of the time still to wait; near the SLO, of the SLO.
constexpr int kLooksInAWait = 8;
// Bounds the cost of looks near an SLO of a few milliseconds.
constexpr microseconds kShortestGapAtSlo = milliseconds(50);

struct SloTime {
  std::optional<milliseconds> config::Slo::*limit;
  std::optional<microseconds> Expectation::*expected;
  bool runs;  // from the admission on
  std::string_view what;

  // The time that the limit bounds.
  std::optional<microseconds> time(const Outlook& outlook) const {
    const auto& rest = outlook.own.*expected;
    if (!rest) return std::nullopt;
    return runs ? outlook.waited + *rest : *rest;
  }
};
constexpr std::array kSloTimes{
    SloTime{&config::Slo::ttft, &Expectation::ttft, true, "to the first token"},
    SloTime{&config::Slo::tpot, &Expectation::tpot, false, "for each further token"},
    SloTime{&config::Slo::deadline, &Expectation::total, true, "to the end of the answer"},
};

bool clearly_more(microseconds one, microseconds other, microseconds least = kClearTime) {
  return one > other + std::max(other * kClearPercent / 100, least);
}

std::string name_of(const Expectation& at) {
  return to_string(*at.target);
}

Expectation expectation_of(const policy::TargetTrace& row, const policy::Facts& facts) {
  const auto fact = [&](TargetFact which) {
    return facts.get(static_cast<policy::FactId>(row.first_fact + static_cast<policy::FactId>(which)),
                     row.target->profile);
  };
  const auto time = [&](TargetFact which) {
    const policy::Fact* const known = fact(which);
    return known == nullptr ? std::nullopt
                            : std::optional(microseconds(std::get<std::int64_t>(known->value)));
  };
  const policy::Fact* const meets = fact(TargetFact::meets_slo);
  return {row.target,
          row.rule,
          time(TargetFact::expected_ttft),
          time(TargetFact::expected_tpot),
          time(TargetFact::expected_total),
          meets == nullptr ? std::nullopt : std::optional(std::get<bool>(meets->value)),
          time(TargetFact::expected_delay_to_others)};
}

SloLeft slo_of(const policy::Facts& facts) {
  static const policy::FactId kDeadline = *policy::find_fact("app.slo.deadline");
  SloLeft out{policy::has_slo(facts), std::nullopt};
  if (const policy::Fact* const fact = facts.get(kDeadline))
    out.deadline = milliseconds(std::get<std::int64_t>(fact->value));
  return out;
}

bool is_available(const policy::TargetTrace& row, const policy::Facts& facts) {
  return row.verdict != policy::Verdict::denied &&
         facts.is_true(static_cast<policy::FactId>(row.first_fact +
                                                   static_cast<policy::FactId>(TargetFact::available)));
}

// The lead of a target over the request's own, by the way in which its rule picks (policy/pick).
enum class Lead : std::uint8_t { none, faster, holds_slo, considerate };
Lead lead_of(const Expectation& other, const Expectation& own, const SloLeft& slo) {
  if (other.rule->pick == policy::Pick::meets_slo) {
    if (own.meets_slo == true) return Lead::none;
    if (other.meets_slo == true) return Lead::holds_slo;
    const bool known = own.meets_slo || other.meets_slo || !slo.declared;
    if (!known || other.rule->on_slo_miss != policy::OnSloMiss::fastest) return Lead::none;
  }
  if (other.rule->pick == policy::Pick::considerate) {
    const auto passes = [&](const Expectation& at) {
      return slo.deadline && at.total && *at.total > *slo.deadline;
    };
    const auto holds = [&](const Expectation& at) {
      return slo.deadline && at.total && *at.total <= *slo.deadline;
    };
    if (passes(own) && holds(other)) return Lead::holds_slo;
    if (passes(other) && holds(own)) return Lead::none;
    if (!own.delay_to_others || !other.delay_to_others) return Lead::none;
    if (clearly_more(*own.delay_to_others, *other.delay_to_others)) return Lead::considerate;
    if (clearly_more(*other.delay_to_others, *own.delay_to_others)) return Lead::none;
  }
  return own.total && other.total && clearly_more(*own.total, *other.total) ? Lead::faster : Lead::none;
}

}  // namespace

Outlook outlook_of(const policy::Decision& decision, const policy::Facts& facts, microseconds waited) {
  Outlook out;
  out.waited = waited;
  out.slo = slo_of(facts);
  for (const policy::TargetTrace& row : decision.targets)
    if (row.verdict == policy::Verdict::chosen) out.own = expectation_of(row, facts);
  bool deciding = false;
  for (const policy::TargetTrace& row : decision.targets) {
    if (deciding && row.rule != out.own.rule) break;  // behind the deciding rule: they only stand in for it
    deciding = row.rule == out.own.rule;
    const std::string& backend = row.target->backend;
    if (row.rule->pick == policy::Pick::first || backend == out.own.target->backend ||
        !is_available(row, facts))
      continue;
    if (std::ranges::none_of(out.others, [&](const Expectation& e) { return e.target->backend == backend; }))
      out.others.push_back(expectation_of(row, facts));
  }
  return out;
}

bool stays_against(const policy::Decision& again, const policy::Facts& facts, const std::string& backend) {
  if (again.target->backend == backend || again.rule->pick == policy::Pick::first) return false;
  std::optional<Expectation> own, chosen;
  for (const policy::TargetTrace& row : again.targets) {
    if (row.verdict == policy::Verdict::chosen) chosen = expectation_of(row, facts);
    if (row.verdict == policy::Verdict::available && row.rule == again.rule && row.target->backend == backend)
      own = expectation_of(row, facts);
  }
  return own && lead_of(*chosen, *own, slo_of(facts)) == Lead::none;
}

void Reconsideration::decided(Outlook outlook) {
  if (then_.own.target != nullptr && then_.own.target->backend != outlook.own.target->backend)
    left_.push_back(then_.own.target->backend);
  then_ = std::move(outlook);
}

std::optional<microseconds> Reconsideration::until_look(const Outlook& now) const {
  const bool by_prediction = now.own.rule->pick != policy::Pick::first || !now.others.empty();
  if (left_.size() >= kMostMoves || (!declares_slo() && !by_prediction)) return std::nullopt;
  microseconds gap = kLongestGap;
  if (now.own.ttft)
    gap = std::clamp(std::max(now.waited, *now.own.ttft) / kLooksInAWait, kShortestGap, kLongestGap);
  // The next look comes no later than the moment at which the SLO is passed if the prediction stays.
  for (const SloTime& slo_time : kSloTimes) {
    const auto& limit = slo_.*slo_time.limit;
    const auto time = slo_time.time(now);
    if (slo_time.runs && limit && time && *time <= *limit)
      gap = std::min(gap, std::max({microseconds(*limit) - *time, microseconds(*limit) / kLooksInAWait,
                                    kShortestGapAtSlo}));
  }
  return gap;
}

std::optional<std::string> Reconsideration::reason(const Outlook& now) const {
  if (auto why = slo_at_stake(now)) return why;
  if (auto why = another_is_better(now)) return why;
  return declares_slo() ? std::nullopt : own_is_worse(now);
}

std::optional<std::string> Reconsideration::slo_at_stake(const Outlook& now) const {
  for (const SloTime& slo_time : kSloTimes) {
    const auto& limit = slo_.*slo_time.limit;
    const auto time = slo_time.time(now), before = slo_time.time(then_);
    if (!limit || !time || *time <= *limit) continue;
    const bool was_past = before && *before > *limit;
    if (was_past && !clearly_more(*time, *before, slo_time.runs ? kClearTime : microseconds(0))) continue;
    return (slo_time.runs ? exact_text(now.waited) + " waited and " : "") +
           exact_text(*(now.own.*slo_time.expected)) + " expected at " + name_of(now.own) + " pass the " +
           exact_text(*limit) + " " + std::string(slo_time.what);
  }
  return std::nullopt;
}

std::optional<std::string> Reconsideration::another_is_better(const Outlook& now) const {
  for (const Expectation& other : now.others) {
    const Lead lead = lead_of(other, now.own, now.slo);
    if (lead == Lead::none) continue;
    const bool known = std::ranges::any_of(then_.others, [&](const Expectation& before) {
      return before.target->backend == other.target->backend && lead_of(before, then_.own, then_.slo) == lead;
    });
    if (known) continue;
    if (lead == Lead::holds_slo)
      return name_of(other) + " is predicted to hold the SLO, and " + name_of(now.own) + " is not";
    if (lead == Lead::considerate)
      return name_of(other) + " would delay others by " + exact_text(*other.delay_to_others) + ", " +
             name_of(now.own) + " by " + exact_text(*now.own.delay_to_others);
    return exact_text(*other.total) + " to the end of the answer are expected at " + name_of(other) +
           ", and " + exact_text(*now.own.total) + " at " + name_of(now.own);
  }
  return std::nullopt;
}

std::optional<std::string> Reconsideration::own_is_worse(const Outlook& now) const {
  if (now.own.rule->pick == policy::Pick::first || !now.own.total || !then_.own.total) return std::nullopt;
  const microseconds before = then_.waited + *then_.own.total, time = now.waited + *now.own.total;
  if (!clearly_more(time, before)) return std::nullopt;
  return exact_text(now.waited) + " waited and " + exact_text(*now.own.total) +
         " to the end of the answer expected at " + name_of(now.own) + " pass the " + exact_text(before) +
         " that were expected";
}

}  // namespace flyball::route
