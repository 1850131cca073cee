// The walk over the tree. Kleene logic: unknown is neither true nor false, and a rule whose condition is
// unknown does not decide; a constraint whose condition is unknown denies.
#include "policy/decide.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace flyball::policy {
namespace {

Truth truth(bool value) {
  return value ? Truth::yes : Truth::no;
}

template <class T>
Truth ordered(const T& value, Op op, const T& operand) {
  switch (op) {
    case Op::eq:
      return truth(value == operand);
    case Op::ne:
      return truth(value != operand);
    case Op::gt:
      return truth(value > operand);
    case Op::gte:
      return truth(value >= operand);
    case Op::lt:
      return truth(value < operand);
    case Op::lte:
      return truth(value <= operand);
    default:
      return Truth::unknown;
  }
}

bool contains(const std::vector<std::string>& members, const std::string& value) {
  return std::ranges::find(members, value) != members.end();
}

}  // namespace

Truth compare(const Condition& condition, const Fact* fact) {
  if (condition.op == Op::exists) return truth((fact != nullptr) == std::get<bool>(condition.operand));
  if (!fact) return Truth::unknown;
  if (condition.op == Op::in) {
    const auto& members = std::get<std::vector<std::string>>(condition.operand);
    if (const auto* text = std::get_if<std::string>(&fact->value)) return truth(contains(members, *text));
    const auto& list = std::get<std::vector<std::string>>(fact->value);
    return truth(
        std::ranges::any_of(list, [&](const std::string& member) { return contains(members, member); }));
  }
  // The parser gave the operand the fact's type.
  if (const auto* value = std::get_if<std::int64_t>(&fact->value))
    return ordered(*value, condition.op, std::get<std::int64_t>(condition.operand));
  if (const auto* value = std::get_if<double>(&fact->value))
    return ordered(*value, condition.op, std::get<double>(condition.operand));
  const bool equal = fact->value == condition.operand;
  return truth(condition.op == Op::eq ? equal : !equal);
}

namespace {

constexpr std::size_t kMaxBackends = 16;

class Walk {
 public:
  Walk(const Tree& tree, const Facts& facts, Decision& decision)
      : tree_(tree), facts_(facts), out_(decision) {}

  void run() {
    out_.tree = &tree_;
    // Whatever is asked, it is asked once: this is as long as a path can be.
    out_.rules.reserve(tree_.size.rules);
    out_.conditions.reserve(tree_.size.comparisons);
    out_.targets.reserve(tree_.size.targets);
    out_.constraints.reserve(tree_.constraints.size());
    for (const Constraint& constraint : tree_.constraints) {
      const auto first = static_cast<std::uint32_t>(out_.conditions.size());
      const Truth outcome = evaluate(constraint.when);
      out_.constraints.push_back(
          {&constraint, outcome, first, static_cast<std::uint32_t>(out_.conditions.size()) - first});
    }
    if (!visit(tree_.rules, 0)) decides(tree_.fallback);
    if (out_.rule && out_.rule->on_unavailable != OnUnavailable::next) return;  // nothing stands behind it
    for (const Target& target : tree_.fallback.use)
      if (!traced(target)) consider(tree_.fallback, target, false);
  }

 private:
  Truth evaluate(const Condition& condition) {
    switch (condition.kind) {
      case Condition::Kind::always:
        return Truth::yes;
      case Condition::Kind::compare: {
        const Truth outcome = compare(condition, facts_.get(condition.fact));
        out_.conditions.push_back({&condition, outcome});
        return outcome;
      }
      case Condition::Kind::negation: {
        const Truth inner = evaluate(condition.children.front());
        return inner == Truth::unknown ? inner : truth(inner == Truth::no);
      }
      case Condition::Kind::all:
        return several(condition, Truth::no);
      case Condition::Kind::any:
        return several(condition, Truth::yes);
    }
    return Truth::unknown;
  }

  // all: one `no` settles it; any: one `yes`. Unsettled: unknown if one was, the opposite otherwise.
  Truth several(const Condition& condition, Truth settling) {
    bool any_unknown = false;
    for (const Condition& child : condition.children) {
      const Truth outcome = evaluate(child);
      if (outcome == settling) return settling;
      any_unknown |= outcome == Truth::unknown;
    }
    return any_unknown ? Truth::unknown : truth(settling == Truth::no);
  }

  // True when the search ended here.
  bool visit(const std::vector<Rule>& rules, std::uint32_t depth) {
    for (const Rule& rule : rules) {
      const auto first = static_cast<std::uint32_t>(out_.conditions.size());
      const Truth outcome = evaluate(rule.when);
      out_.rules.push_back(
          {&rule, depth, outcome, first, static_cast<std::uint32_t>(out_.conditions.size()) - first});
      if (outcome != Truth::yes) continue;
      if (rule.rules.empty() ? decides(rule) : visit(rule.rules, depth + 1)) return true;
    }
    return false;
  }

  // The rule is true: its targets in order. True when the search ends with it.
  bool decides(const Rule& rule) {
    bool waitable = false, denied = !rule.use.empty();
    for (const Target& target : rule.use) {
      const Verdict verdict = consider(rule, target, out_.target == nullptr);
      waitable |= verdict == Verdict::unavailable;
      denied &= verdict == Verdict::denied;
      if (verdict != Verdict::chosen) continue;
      out_.rule = &rule;
      out_.target = &target;
    }
    if (!out_.advice && !rule.engine.empty() && !denied) out_.advice = &rule;
    if (out_.target) return true;
    if (rule.on_unavailable == OnUnavailable::next) return false;
    out_.rule = &rule;
    out_.queue =
        rule.on_unavailable == OnUnavailable::queue && waitable;  // what is denied will not come free
    return true;
  }

  Verdict consider(const Rule& rule, const Target& target, bool may_choose) {
    const Standing& engine = standing(target);
    const Verdict verdict =
        engine.verdict == Verdict::available && may_choose ? Verdict::chosen : engine.verdict;
    out_.targets.push_back({&target, &rule, verdict, engine.denied_by, engine.certain});
    return verdict;
  }

  // What holds of an engine wherever it is named; found out when it is named first.
  struct Standing {
    bool known = false;
    Verdict verdict = Verdict::available;
    const Constraint* denied_by = nullptr;
    bool certain = true;
  };

  const Standing& standing(const Target& target) {
    if (target.engine >= kMaxBackends) std::abort();  // the parser knows every target
    Standing& out = standings_[target.engine];
    if (out.known) return out;
    const std::string_view backend = target.backend;
    out.known = true;
    for (const ConstraintTrace& constraint : out_.constraints)
      if (constraint.outcome != Truth::no && denies(*constraint.constraint, backend)) {
        out.verdict = Verdict::denied;
        out.denied_by = constraint.constraint;
        out.certain = constraint.outcome == Truth::yes;
        return out;
      }
    const Fact* available = facts_.get(availability_facts(backend).available);
    if (!available || !std::get<bool>(available->value)) out.verdict = Verdict::unavailable;
    return out;
  }

  bool traced(const Target& target) const {
    return std::ranges::any_of(out_.targets, [&](const TargetTrace& trace) {
      return trace.target->engine == target.engine && trace.target->profile == target.profile;
    });
  }

  const Tree& tree_;
  const Facts& facts_;
  Decision& out_;
  std::array<Standing, kMaxBackends> standings_;  // in the order of known_backends()
};

}  // namespace

void decide(const Tree& tree, const Facts& facts, Decision& decision) {
  decision.rule = decision.advice = nullptr;
  decision.target = nullptr;
  decision.queue = false;
  decision.constraints.clear();
  decision.rules.clear();
  decision.conditions.clear();
  decision.targets.clear();
  Walk(tree, facts, decision).run();
}

Decision decide(const Tree& tree, const Facts& facts) {
  Decision decision;
  decide(tree, facts, decision);
  return decision;
}

std::string reason(const TargetTrace& trace, const Facts& facts) {
  switch (trace.verdict) {
    case Verdict::chosen:
    case Verdict::available:
      return {};
    case Verdict::denied:
      return (trace.certain ? "" : "it is not known whether this holds: ") + trace.denied_by->because;
    case Verdict::unavailable:
      break;
  }
  const AvailabilityFacts ids = availability_facts(trace.target->backend);
  if (const Fact* why = facts.get(ids.reason)) return std::get<std::string>(why->value);
  return facts.get(ids.available) ? "not available" : "it is not known whether it is available";
}

}  // namespace flyball::policy
