#include "policy/pick.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "config/units.hpp"

namespace flyball::policy {
namespace {

using By = Picked::By;

constexpr const char* kNoOther = "no other is available";

const Fact* known(const TargetTrace& row, TargetFact which, const Facts& facts) {
  return facts.get(static_cast<FactId>(row.first_fact + static_cast<FactId>(which)), row.target->profile);
}

// nullopt: not predicted, or by somebody who wrote a time below 0.
std::optional<std::int64_t> microseconds(const TargetTrace& row, TargetFact which, const Facts& facts) {
  const Fact* const fact = known(row, which, facts);
  if (fact == nullptr || std::get<std::int64_t>(fact->value) < 0) return std::nullopt;
  return std::get<std::int64_t>(fact->value);
}

Truth meets_slo(const TargetTrace& row, const Facts& facts) {
  const Fact* const fact = known(row, TargetFact::meets_slo, facts);
  if (fact == nullptr) return Truth::unknown;
  return std::get<bool>(fact->value) ? Truth::yes : Truth::no;
}

bool is_loaded(const TargetTrace& row, const Facts& facts) {
  const Fact* const fact = known(row, TargetFact::loaded, facts);
  return fact != nullptr && std::get<bool>(fact->value);
}

// Of those within a rule; before the decision is made none of them is chosen.
bool can_be_used(const TargetTrace& row) {
  return row.verdict == Verdict::available || row.verdict == Verdict::chosen;
}

bool is_near(std::int64_t total, std::int64_t least) {
  return total - least <= least / 100 * kNearPercent + least % 100 * kNearPercent / 100;
}

std::uint32_t first_available(std::span<const TargetTrace> considered) {
  return static_cast<std::uint32_t>(std::ranges::find_if(considered, can_be_used) - considered.begin());
}

// The least expected total; nullopt: no available target has one.
std::optional<std::int64_t> least_total(std::span<const TargetTrace> considered, const Facts& facts) {
  std::optional<std::int64_t> out;
  for (const TargetTrace& row : considered)
    if (const auto total = microseconds(row, TargetFact::expected_total, facts); total && can_be_used(row))
      out = std::min(*total, out.value_or(*total));
  return out;
}

Picked pick_fastest(std::span<const TargetTrace> considered, const Facts& facts) {
  const auto least = least_total(considered, facts);
  if (!least) return {first_available(considered), By::unpredicted};
  std::optional<std::uint32_t> taken;
  bool loaded = false;
  for (std::uint32_t i = 0; i < considered.size() && !loaded; ++i) {
    const auto total = microseconds(considered[i], TargetFact::expected_total, facts);
    if (!can_be_used(considered[i]) || !total || !is_near(*total, *least)) continue;
    loaded = is_loaded(considered[i], facts);
    if (loaded || !taken) taken = i;
  }
  const bool is_least = *microseconds(considered[*taken], TargetFact::expected_total, facts) == *least;
  return {*taken, is_least ? By::fastest : loaded ? By::loaded : By::near};
}

Picked pick_by_slo(const Rule& rule, std::span<const TargetTrace> considered, const Facts& facts) {
  bool is_known = false;
  for (std::uint32_t i = 0; i < considered.size(); ++i) {
    if (!can_be_used(considered[i])) continue;
    const Truth meets = meets_slo(considered[i], facts);
    if (meets == Truth::yes) return {i, By::meets_slo};
    is_known |= meets == Truth::no;
  }
  if (!is_known && rule.on_slo_miss == OnSloMiss::fastest && !has_slo(facts))
    return pick_fastest(considered, facts);
  if (!is_known) return {first_available(considered), By::unpredicted};
  Picked out;
  if (rule.on_slo_miss == OnSloMiss::fastest) out = pick_fastest(considered, facts);
  if (rule.on_slo_miss == OnSloMiss::first) out = {first_available(considered), By::first};
  out.slo_missed = true;
  return out;
}

// Compares targets for `considerate`: those that hold the deadline, or all where none is known to.
class Consideration {
 public:
  Consideration(std::span<const TargetTrace> considered, const Facts& facts) : facts_(facts) {
    static const FactId kDeadline = *find_fact("app.slo.deadline");
    if (const Fact* const fact = facts.get(kDeadline)) {
      constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 1000;
      deadline_us_ = std::min(std::get<std::int64_t>(fact->value), kMost) * 1000;
    }
    for (const TargetTrace& row : considered) {
      const auto total = microseconds(row, TargetFact::expected_total, facts);
      one_holds_deadline_ |= deadline_us_ && total && *total <= *deadline_us_ && can_be_used(row);
    }
    for (const TargetTrace& row : considered)
      if (const auto delay = delay_of(row); delay && counts(row))
        least_ = std::min(*delay, least_.value_or(*delay));
  }

  std::optional<std::int64_t> delay_of(const TargetTrace& row) const {
    return microseconds(row, TargetFact::expected_delay_to_others, facts_);
  }
  // Its expected total passes the deadline, which another target holds.
  bool is_late(const TargetTrace& row) const {
    const auto total = microseconds(row, TargetFact::expected_total, facts_);
    return one_holds_deadline_ && total && *total > *deadline_us_;
  }
  bool counts(const TargetTrace& row) const { return can_be_used(row) && !is_late(row); }
  bool is_near_least(const TargetTrace& row) const {
    const auto delay = delay_of(row);
    return delay && least_ && (*delay - *least_ <= kNearDelay || is_near(*delay, *least_));
  }
  // A trial must cost neither the deadline nor, as far as is known, a delay to others.
  bool may_be_tried(const TargetTrace& row) const {
    return counts(row) && (!delay_of(row) || is_near_least(row));
  }
  // nullopt: no target that counts has a prediction of it.
  std::optional<std::int64_t> least() const { return least_; }

 private:
  const Facts& facts_;
  std::optional<std::int64_t> deadline_us_, least_;
  bool one_holds_deadline_ = false;
};

Picked pick_considerate(std::span<const TargetTrace> considered, const Facts& facts) {
  const Consideration among(considered, facts);
  std::optional<std::uint32_t> taken;
  const auto total_of = [&](std::uint32_t i) {
    return microseconds(considered[i], TargetFact::expected_total, facts)
        .value_or(std::numeric_limits<std::int64_t>::max());
  };
  for (std::uint32_t i = 0; i < considered.size(); ++i) {
    if (!among.counts(considered[i]) || (among.least() && !among.is_near_least(considered[i]))) continue;
    if (!taken || (among.least() && total_of(i) < total_of(*taken))) taken = i;
  }
  if (!among.least()) return {*taken, By::unpredicted};
  return {*taken, among.delay_of(considered[*taken]) == among.least() ? By::least_delay : By::near_delay};
}

Picked pick_by_prediction(const Rule& rule, std::span<const TargetTrace> considered, const Facts& facts) {
  switch (rule.pick) {
    case Pick::first:
      break;
    case Pick::fastest:
      return pick_fastest(considered, facts);
    case Pick::meets_slo:
      return pick_by_slo(rule, considered, facts);
    case Pick::considerate:
      return pick_considerate(considered, facts);
  }
  return {first_available(considered), By::first};
}

bool is_to_be_tried(const Rule& rule, std::span<const TargetTrace> considered, const TargetTrace& row,
                    const Facts& facts) {
  const Fact* const due = known(row, TargetFact::trial_due, facts);
  if (!can_be_used(row) || due == nullptr || !std::get<bool>(due->value)) return false;
  return rule.pick != Pick::considerate || Consideration(considered, facts).may_be_tried(row);
}

// ---- in words ---------------------------------------------------------------------------------------------

std::string total_text(const TargetTrace& row, const Facts& facts) {
  const auto total = microseconds(row, TargetFact::expected_total, facts);
  return total ? config::milliseconds_text(*total) : "not predicted";
}

// ", 300 ms to the first token (90 % within 420 ms), 2100 ms in all": what is predicted of both. The SLO is
// met or missed by the 90 %.
std::string expected_text(const TargetTrace& row, const Facts& facts) {
  std::string out;
  const auto add = [&](TargetFact p50, TargetFact p90, const char* what) {
    const auto half = microseconds(row, p50, facts), most = microseconds(row, p90, facts);
    if (!half) return;
    out += ", " + config::milliseconds_text(*half) + what;
    if (most) out += " (90 % within " + config::milliseconds_text(*most) + ")";
  };
  add(TargetFact::expected_ttft, TargetFact::expected_ttft_p90, " to the first token");
  add(TargetFact::expected_total, TargetFact::expected_total_p90, " in all");
  return out;
}

void append(std::string& list, const std::string& one, const char* separator) {
  list += (list.empty() ? "" : separator) + one;
}

std::string fastest_text(std::span<const TargetTrace> considered, const Picked& picked, const Facts& facts) {
  const std::string margin = std::to_string(kNearPercent) + " %";
  const std::int64_t least = *least_total(considered, facts);
  std::string others, near;
  for (std::uint32_t i = 0; i < considered.size(); ++i) {
    if (i == picked.at || !can_be_used(considered[i])) continue;
    const auto total = microseconds(considered[i], TargetFact::expected_total, facts);
    append(others, to_string(*considered[i].target) + " " + total_text(considered[i], facts), ", ");
    if (total && is_near(*total, least)) append(near, to_string(*considered[i].target), ", ");
  }
  return (picked.by == By::fastest  ? "fastest"
          : picked.by == By::loaded ? "loaded, within " + margin + " of the fastest"
                                    : "listed first, within " + margin + " of the fastest") +
         ", " + total_text(considered[picked.at], facts) + " expected in all (" +
         (others.empty() ? kNoOther
                         : others + "; within " + margin + " " + (near.empty() ? "nothing else" : near)) +
         ")";
}

// "vulkan does not, 1900 ms to the first token; opencl not known": all but the one that was taken.
std::string slo_text(std::span<const TargetTrace> considered, std::optional<std::uint32_t> taken,
                     const Facts& facts) {
  std::string out;
  for (std::uint32_t i = 0; i < considered.size(); ++i) {
    if (i == taken || !can_be_used(considered[i])) continue;
    const Truth meets = meets_slo(considered[i], facts);
    append(out,
           to_string(*considered[i].target) +
               (meets == Truth::yes  ? " does, too"
                : meets == Truth::no ? " does not"
                                     : " not known") +
               expected_text(considered[i], facts),
           "; ");
  }
  return out;
}

std::string considerate_text(std::span<const TargetTrace> considered, const Picked& picked,
                             const Facts& facts) {
  const Consideration among(considered, facts);
  const auto delay_text = [&](const TargetTrace& row) {
    const auto delay = among.delay_of(row);
    return delay ? config::milliseconds_text(*delay) : "delay not predicted";
  };
  std::string others;
  for (std::uint32_t i = 0; i < considered.size(); ++i) {
    if (i == picked.at || !can_be_used(considered[i])) continue;
    append(others,
           to_string(*considered[i].target) + ": " + delay_text(considered[i]) + ", " +
               total_text(considered[i], facts) + (among.is_late(considered[i]) ? ", past the deadline" : ""),
           "; ");
  }
  const std::string others_text = " (" + (others.empty() ? kNoOther : others) + ")";
  if (picked.by == By::unpredicted) return "first listed, no delay to others is predicted" + others_text;
  return (picked.by == By::least_delay
              ? "delays others least, by "
              : "fastest within " + std::to_string(kNearPercent) + " % or " +
                    config::milliseconds_text(kNearDelay) + " of the least delay to others, by ") +
         delay_text(considered[picked.at]) + ", " + total_text(considered[picked.at], facts) + " in all" +
         others_text;
}

std::string whole_text(const Rule& rule, std::span<const TargetTrace> considered, const Picked& picked,
                       const Facts& facts);

std::string trial_text(const Rule& rule, std::span<const TargetTrace> considered, const Facts& facts) {
  const Picked otherwise = pick_by_prediction(rule, considered, facts);
  const std::string before =
      otherwise.by == By::nothing ? "" : ", listed before " + to_string(*considered[otherwise.at].target);
  return "tried" + before + (before.empty() ? "," : " and") + " not yet seen with this model (" +
         whole_text(rule, considered, otherwise, facts) + ")";
}

std::string by_text(const Rule& rule, std::span<const TargetTrace> considered, const Picked& picked,
                    const Facts& facts) {
  switch (picked.by) {
    case By::trial:
      return trial_text(rule, considered, facts);
    case By::nothing:
      return "on to the next rule";
    case By::first:
      return "first listed";
    case By::unpredicted:
      if (rule.pick == Pick::considerate) return considerate_text(considered, picked, facts);
      return rule.pick == Pick::meets_slo && !picked.slo_missed &&
                     (has_slo(facts) || rule.on_slo_miss != OnSloMiss::fastest)
                 ? "first listed, of none it is known whether it meets the SLO"
                 : "first listed, the time of none is predicted";
    case By::meets_slo: {
      const std::string others = slo_text(considered, picked.at, facts);
      return "first that meets the SLO" + expected_text(considered[picked.at], facts) + " (" +
             (others.empty() ? kNoOther : others) + ")";
    }
    case By::least_delay:
    case By::near_delay:
      return considerate_text(considered, picked, facts);
    case By::fastest:
    case By::loaded:
    case By::near:
      break;
  }
  return fastest_text(considered, picked, facts);
}

std::string whole_text(const Rule& rule, std::span<const TargetTrace> considered, const Picked& picked,
                       const Facts& facts) {
  const bool none = picked.by == By::nothing;
  return (none ? "nothing" : to_string(*considered[picked.at].target)) + ": " +
         (picked.slo_missed ? "no target meets the SLO (" + slo_text(considered, std::nullopt, facts) + "), "
                            : "") +
         by_text(rule, considered, picked, facts);
}

}  // namespace

bool has_slo(const Facts& facts) {
  static const std::array kSlo{*find_fact("app.slo.ttft"), *find_fact("app.slo.tpot"),
                               *find_fact("app.slo.deadline")};
  return std::ranges::any_of(kSlo, [&](FactId id) { return facts.get(id) != nullptr; });
}

Picked pick(const Rule& rule, std::span<const TargetTrace> considered, const Facts& facts) {
  const Picked picked = pick_by_prediction(rule, considered, facts);
  const auto end = picked.by == By::nothing ? static_cast<std::uint32_t>(considered.size()) : picked.at;
  if (rule.pick != Pick::first)
    for (std::uint32_t i = 0; i < end; ++i)
      if (is_to_be_tried(rule, considered, considered[i], facts)) return {i, By::trial};
  return picked;
}

std::string pick_text(const PickTrace& trace, const Decision& decision, const Facts& facts) {
  const std::span considered(decision.targets.begin() + trace.first_target, trace.n_targets);
  return whole_text(*trace.rule, considered, trace.picked, facts);
}

}  // namespace flyball::policy
