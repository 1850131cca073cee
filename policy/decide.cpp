// The walk over the tree. Kleene logic: unknown is neither true nor false, and a rule whose condition is
// unknown does not decide; a constraint whose condition is unknown denies.
#include "policy/decide.hpp"

#include <algorithm>

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

class Walk {
 public:
  Walk(const Tree& tree, const Facts& facts, Decision& decision)
      : tree_(tree), facts_(facts), out_(decision) {}

  void run() {
    constexpr std::size_t kUsual = 64;  // one allocation each for trees of the shipped one's size
    out_.tree = &tree_;
    out_.rules.reserve(kUsual);
    out_.conditions.reserve(kUsual);
    out_.targets.reserve(kUsual / 2);
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
    TargetTrace trace{&target, &rule, Verdict::available, nullptr, {}};
    for (const ConstraintTrace& constraint : out_.constraints)
      if (constraint.outcome != Truth::no && denies(*constraint.constraint, target.backend)) {
        trace.verdict = Verdict::denied;
        trace.denied_by = constraint.constraint;
        trace.reason = (constraint.outcome == Truth::unknown ? "it is not known whether this holds: " : "") +
                       constraint.constraint->because;
        break;
      }
    if (trace.verdict != Verdict::denied) {
      const AvailabilityFacts ids = availability_facts(target.backend);
      const Fact* available = facts_.get(ids.available);
      if (available && std::get<bool>(available->value)) {
        if (may_choose) trace.verdict = Verdict::chosen;
      } else {
        trace.verdict = Verdict::unavailable;
        const Fact* reason = facts_.get(ids.reason);
        trace.reason = reason      ? std::get<std::string>(reason->value)
                       : available ? "not available"
                                   : "it is not known whether it is available";
      }
    }
    out_.targets.push_back(std::move(trace));
    return out_.targets.back().verdict;
  }

  bool traced(const Target& target) const {
    return std::ranges::any_of(out_.targets, [&](const TargetTrace& trace) {
      return trace.target->backend == target.backend && trace.target->profile == target.profile;
    });
  }

  const Tree& tree_;
  const Facts& facts_;
  Decision& out_;
};

}  // namespace

Decision decide(const Tree& tree, const Facts& facts) {
  Decision decision;
  Walk(tree, facts, decision).run();
  return decision;
}

}  // namespace flyball::policy
