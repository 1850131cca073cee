// Facts to decision, with the path that led there. Pure: same inputs, same bytes; no I/O, no clock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "policy/facts.hpp"
#include "policy/path.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {

enum class Truth : std::uint8_t { no, yes, unknown, unasked };  // unasked: in no trace

struct ConditionTrace {    // one comparison that was evaluated; Decision::condition() is it
  std::uint32_t node = 0;  // of the tree's program
  Truth outcome = Truth::unknown;
};

struct RuleTrace {  // one rule that was visited, in order
  const Rule* rule = nullptr;
  std::uint32_t depth = 0;
  Truth outcome = Truth::unknown;
  std::uint32_t first_condition = 0, n_conditions = 0;  // into Decision::conditions
};

struct ConstraintTrace {  // every constraint, in order; no: it does not apply
  const Constraint* constraint = nullptr;
  Truth outcome = Truth::unknown;
  std::uint32_t first_condition = 0, n_conditions = 0;  // into Decision::conditions
};

enum class Verdict : std::uint8_t { chosen, available, unavailable, denied };

struct TargetTrace {  // one target considered, in order
  const Target* target = nullptr;
  const Rule* rule = nullptr;
  const Constraint* denied_by = nullptr;
  Verdict verdict = Verdict::unavailable;
  bool certain = true;    // denied: the constraint's condition is true, and not merely unknown
  FactId first_fact = 0;  // the backend's facts, in the order of TargetFact
};

// The target that a rule's `pick` took.
struct Picked {
  enum class By : std::uint8_t {
    nothing,      // none: the search goes on behind the rule
    first,        // the first listed
    unpredicted,  // the first listed, since nothing is predicted of any
    fastest,      // the least expected total
    loaded,       // within kNearPercent of the least, and loaded
    near,         // the first listed within kNearPercent of the least
    meets_slo,    // the first that should hold the SLO
    trial,        // listed before the one that predictions pick, and its trial is due
    least_delay,  // the least expected delay to others
    near_delay,   // the least expected total of those about as considerate as the least
  };
  std::uint32_t at = 0;  // among the rule's targets; not for `nothing`
  By by = By::nothing;
  bool slo_missed = false;  // none should hold the SLO: what on_slo_miss says
};

struct PickTrace {  // one rule that picks by prediction and had an available target, in order
  const Rule* rule = nullptr;
  std::uint32_t first_target = 0, n_targets = 0;  // into Decision::targets
  Picked picked;
};

// Views into the tree: the tree outlives the decision (the daemon keeps both behind one shared_ptr). May be
// used again for other decisions; its paths keep their storage.
struct Decision {
  const Tree* tree = nullptr;
  const Rule* rule = nullptr;      // whose target was chosen, or whose on_unavailable ended the search
  const Target* target = nullptr;  // nullptr: nothing is available
  const Rule* advice = nullptr;  // the first true rule that names an engine and is not denied all its targets
  bool queue = false;            // on_unavailable: queue; wait and decide again (target is nullptr)
  Path<ConstraintTrace> constraints;
  Path<RuleTrace> rules;
  Path<ConditionTrace> conditions;
  // The chosen one and its alternatives: what else its rule names, what rules before it name that missed the
  // SLO and, where its rule says `next`, the default.
  Path<TargetTrace> targets;
  Path<PickTrace> picks;

  Path<Truth> answers;  // of the program's questions, while the walk is on; never part of a copy

  const Condition& condition(const ConditionTrace& trace) const {
    return *tree->program.conditions[trace.node];
  }
};

// One comparison; nullptr: the fact is unknown.
Truth compare(const Condition& comparison, const Fact* fact);

// `backend.<id>.available` in the facts says what can be used; unknown counts as unavailable. Precondition:
// tree and facts go by the same catalogue of targets.
Decision decide(const Tree& tree, const Facts& facts);
// The same in storage of the caller's. Allocates nothing where `decision` has held one of this tree, or of a
// tree as large.
void decide(const Tree& tree, const Facts& facts, Decision& decision);
// Why a target that was considered cannot be used: "private", "not built into this release", "no device
// found"; "" where it can. `facts` are those the decision was taken on.
std::string reason(const TargetTrace& trace, const Facts& facts);

// The outcome of a decision as a whole.
enum class Outcome : std::uint8_t { chosen, queued, no_target };
Outcome outcome_of(const Decision& decision) noexcept;

std::string_view to_string(Truth truth) noexcept;      // "unknown"
std::string_view to_string(Verdict verdict) noexcept;  // "denied"
std::string_view to_string(Outcome outcome) noexcept;  // "no_target"
std::string_view to_string(Picked::By by) noexcept;    // "fastest"

// The receipt: rule, because, facts with value, source and age, alternatives with why not. `facts` are those
// the decision was taken on.
nlohmann::json receipt(const Decision& decision, const Facts& facts);
// The same for a terminal. Any JSON is accepted (a receipt may come from another daemon); what it lacks is
// left out.
std::string explain_text(const nlohmann::json& receipt);

}  // namespace flyball::policy
