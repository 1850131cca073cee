// The walk over the tree. Kleene logic: unknown is neither true nor false, and a rule whose condition is
// unknown does not decide; a constraint whose condition is unknown denies.
#include "policy/decide.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "policy/pick.hpp"

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
      : tree_(tree), program_(tree.program), facts_(facts), out_(decision) {}

  void run() {
    const auto& use = tree_.fallback.use;
    const Rule* first_rule = program_.steps.empty() ? nullptr : program_.steps.front().rule;
    if (program_.fallback.use != use.data() || program_.fallback.n_targets != use.size() ||
        first_rule != (tree_.rules.empty() ? nullptr : tree_.rules.data()) ||
        program_.bans.size() != tree_.constraints.size())
      std::abort();  // changed since it was compiled
    out_.tree = &tree_;
    out_.rule = out_.advice = nullptr;
    out_.target = nullptr;
    out_.queue = false;
    // Whatever is asked, it is asked once: this is as long as a path can be.
    rule_ = out_.rules.start(program_.steps.size());
    first_condition_ = condition_ = out_.conditions.start(program_.nodes.size());
    target_ = first_target_ = out_.targets.start(program_.numbers.size());
    pick_ = out_.picks.start(program_.n_picks);
    answers_ = out_.answers.start(program_.questions.size());
    std::fill_n(answers_, program_.questions.size(), Truth::unasked);
    std::fill_n(standings_.begin(), program_.first_fact.size(), Standing{nullptr, Verdict::chosen, true});
    ConstraintTrace* constraint = out_.constraints.start(tree_.constraints.size());
    for (std::size_t i = 0; i < tree_.constraints.size(); ++i) {
      const std::uint32_t first = asked();
      const Truth outcome = evaluate(program_.bans[i].when);
      *constraint++ = {&tree_.constraints[i], outcome, first, asked() - first};
    }
    out_.constraints.end_at(constraint);
    const Program::Step& fallback = program_.fallback;
    if (!ask_rules()) decides(tree_.fallback, fallback);
    if (!out_.rule || out_.rule->on_unavailable == OnUnavailable::next)  // or nothing stands behind it
      for (std::uint32_t i = 0; i < fallback.n_targets; ++i)
        if (const std::uint8_t number = program_.numbers[fallback.numbers + i];
            standings_[number].verdict == Verdict::chosen)
          consider(tree_.fallback, fallback.use[i], number, target_);
    out_.rules.end_at(rule_);
    out_.conditions.end_at(condition_);
    out_.targets.end_at(target_);
    out_.picks.end_at(pick_);
  }

 private:
  // True when the search ended here. Where a rule is true that has rules, they are the steps behind it.
  bool ask_rules() {
    for (std::uint32_t at = 0; at < program_.steps.size();) {
      const Program::Step& step = program_.steps[at];
      const std::uint32_t first = asked();
      const Truth outcome = evaluate(step.when);
      *rule_++ = {step.rule, step.depth, outcome, first, asked() - first};
      at = outcome == Truth::yes ? at + 1 : step.end;
      if (outcome == Truth::yes && !step.has_rules && decides(*step.rule, step)) return true;
    }
    return false;
  }

  std::uint32_t asked() const { return static_cast<std::uint32_t>(condition_ - first_condition_); }

  Truth evaluate(std::uint32_t at) {
    const Program::Node& node = program_.nodes[at];
    switch (node.kind) {
      case Condition::Kind::always:
        return Truth::yes;
      case Condition::Kind::negation: {
        const Truth inner = evaluate(at + 1);
        return inner == Truth::unknown ? inner : truth(inner == Truth::no);
      }
      case Condition::Kind::compare:
        return several(at, node.end, Truth::no);  // all of one
      case Condition::Kind::all:
        return several(at + 1, node.end, Truth::no);
      case Condition::Kind::any:
        return several(at + 1, node.end, Truth::yes);
    }
    return Truth::unknown;
  }

  // all: one `no` settles it; any: one `yes`. Unsettled: unknown if one was, the opposite otherwise. A
  // decision is mostly this loop, over comparisons: what it needs of the walk is held in variables of its
  // own.
  Truth several(std::uint32_t at, std::uint32_t end, Truth settling) {
    const Program::Node* const nodes = program_.nodes.data();
    Truth* const answers = answers_;
    ConditionTrace* condition = condition_;
    Truth outcome = truth(settling == Truth::no);
    while (at != end) {
      Truth one;
      if (nodes[at].kind == Condition::Kind::compare) {
        Truth& known = answers[nodes[at].question];
        if (known == Truth::unasked) [[unlikely]]
          known = answer(program_.questions[nodes[at].question]);
        one = known;
        *condition++ = {at++, one};
      } else {
        condition_ = condition;
        one = evaluate(at);
        condition = condition_;
        at = nodes[at].end;
      }
      if (one == settling) {
        outcome = settling;
        break;
      }
      if (one == Truth::unknown) outcome = Truth::unknown;
    }
    condition_ = condition;
    return outcome;
  }

  // As compare(), without a look at the tree where the question says enough.
  [[gnu::noinline]] Truth answer(const Program::Question& question) const {
    const Fact* fact = facts_.get(question.fact);
    if (question.op == Op::exists) return truth((fact != nullptr) == (question.operand != 0));
    if (!fact) return Truth::unknown;
    if (const auto* integer = std::get_if<std::int64_t>(&fact->value))
      return ordered(*integer, question.op, question.operand);
    if (const auto* flag = std::get_if<bool>(&fact->value))
      return ordered(std::int64_t{*flag}, question.op, question.operand);
    return compare(*question.comparison, fact);
  }

  // The rule is true: its targets in order. True when the search ends with it.
  bool decides(const Rule& rule, const Program::Step& step) {
    bool waitable = false, denied = step.n_targets != 0;
    const std::uint8_t* const numbers = program_.numbers.data() + step.numbers;
    TargetTrace* row = target_;
    TargetTrace* first = nullptr;  // available
    for (std::uint32_t i = 0; i < step.n_targets; ++i) {
      const Verdict verdict = consider(rule, step.use[i], numbers[i], row);
      waitable |= verdict == Verdict::unavailable;
      denied &= verdict == Verdict::denied;
      if (verdict == Verdict::available && first == nullptr) first = row - 1;
    }
    TargetTrace* const considered = std::exchange(target_, row);
    if (!out_.advice && step.names_engine && !denied) out_.advice = &rule;
    if (first != nullptr) {
      TargetTrace* const chosen = step.pick == Pick::first ? first : take(rule, considered);
      if (chosen == nullptr) return false;
      chosen->verdict = Verdict::chosen;
      out_.rule = &rule;
      out_.target = chosen->target;
      return true;
    }
    if (step.on_unavailable == OnUnavailable::next) return false;
    out_.rule = &rule;
    out_.queue =
        step.on_unavailable == OnUnavailable::queue && waitable;  // what is denied will not come free
    return true;
  }

  // The target that `pick` takes of the rows of a rule, which end at target_; nullptr: none.
  [[gnu::noinline]] TargetTrace* take(const Rule& rule, TargetTrace* considered) {
    const Picked picked = pick(rule, {considered, target_}, facts_);
    *pick_++ = {&rule, static_cast<std::uint32_t>(considered - first_target_),
                static_cast<std::uint32_t>(target_ - considered), picked};
    return picked.by == Picked::By::nothing ? nullptr : considered + picked.at;
  }

  // What holds of a target wherever it is named; found out when it is named first.
  struct Standing {
    const Constraint* denied_by;
    Verdict verdict;  // chosen: it is not yet known
    bool certain;
  };

  [[gnu::always_inline]] Verdict consider(const Rule& rule, const Target& target, std::uint8_t number,
                                          TargetTrace*& row) {
    Standing& standing = standings_[number];
    if (standing.verdict == Verdict::chosen) [[unlikely]]
      standing = find_out(number);
    *row++ = {
        &target, &rule, standing.denied_by, standing.verdict, standing.certain, program_.first_fact[number]};
    return standing.verdict;
  }

  [[gnu::noinline]] Standing find_out(std::uint8_t number) const {
    for (std::size_t i = 0; i < program_.bans.size(); ++i)
      if (const ConstraintTrace& ban = out_.constraints[i];
          ban.outcome != Truth::no && (program_.bans[i].numbers >> number & 1U) != 0)
        return {ban.constraint, Verdict::denied, ban.outcome == Truth::yes};
    const Fact* available = facts_.get(program_.first_fact[number]);
    if (available && std::get<bool>(available->value)) return {nullptr, Verdict::available, true};
    return {nullptr, Verdict::unavailable, true};
  }

  const Tree& tree_;
  const Program& program_;
  const Facts& facts_;
  Decision& out_;
  RuleTrace* rule_ = nullptr;
  ConditionTrace *condition_ = nullptr, *first_condition_ = nullptr;
  TargetTrace *target_ = nullptr, *first_target_ = nullptr;
  PickTrace* pick_ = nullptr;
  Truth* answers_ = nullptr;
  std::array<Standing, kMaxTargets> standings_;  // by number
};

}  // namespace

void decide(const Tree& tree, const Facts& facts, Decision& decision) {
  if (!facts.targets()->same_as(*tree.targets)) std::abort();  // ids of facts mean something else in each
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
  const auto id = [&](TargetFact fact) { return facts.targets()->fact_of(trace.target->backend, fact); };
  if (const Fact* why = facts.get(id(TargetFact::reason))) return std::get<std::string>(why->value);
  return facts.get(id(TargetFact::available)) ? "not available" : "it is not known whether it is available";
}

}  // namespace flyball::policy
