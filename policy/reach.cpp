#include "policy/reach.hpp"

#include <algorithm>
#include <bitset>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "policy/decide.hpp"
#include "policy/fact_text.hpp"

namespace flyball::policy {
namespace {

constexpr std::size_t kMaxClasses = 256;    // of one fact's values; more are not searched
constexpr std::size_t kMaxSteps = 200'000;  // goals looked at in one search
constexpr std::size_t kMaxMembers = 6;      // of a text list whose subsets are searched

using Domain = std::bitset<kMaxClasses>;
using Domains = std::map<FactId, Domain>;

// Sets of truth values.
constexpr std::uint8_t kNo = 1, kYes = 2, kUnknown = 4, kAny = 7;
constexpr std::uint8_t bit(Truth truth) {
  return truth == Truth::no ? kNo : truth == Truth::yes ? kYes : kUnknown;
}
constexpr std::uint8_t negated(std::uint8_t truths) {
  return static_cast<std::uint8_t>((truths & kUnknown) | ((truths & kNo) ? kYes : 0) |
                                   ((truths & kYes) ? kNo : 0));
}

// ---- classes of values: one representative for all that no comparison of the tree tells apart. Class 0:
// unknown.

struct FactClasses {
  std::vector<FactValue> values;  // class i + 1
};

class Classes {
 public:
  void add(const Condition& condition) {
    for (const Condition& child : condition.children) add(child);
    if (condition.kind != Condition::Kind::compare) return;
    auto& operands = operands_[condition.fact];
    if (condition.op != Op::exists) operands.push_back(condition.operand);
  }
  void add(FactId fact) { operands_[fact]; }

  // False where there are too many.
  bool build() {
    for (const auto& [fact, operands] : operands_) {
      auto values = values_of(fact_catalogue()[fact], operands);
      if (values.size() + 1 > kMaxClasses) return false;
      by_fact_[fact].values = std::move(values);
    }
    return true;
  }
  Domains all() const {
    Domains out;
    for (const auto& [fact, classes] : by_fact_)
      for (std::size_t i = 0; i <= classes.values.size(); ++i) out[fact].set(i);
    return out;
  }
  const FactValue& value(FactId fact, std::size_t index) const { return by_fact_.at(fact).values[index - 1]; }

 private:
  // Every operand, one value between each two neighbours, and one beyond. No fact is negative.
  template <class T>
  static std::vector<FactValue> between(const std::vector<FactValue>& operands) {
    std::set<T> points{T{0}};
    for (const FactValue& operand : operands)
      if (std::get<T>(operand) > T{0}) points.insert(std::get<T>(operand));
    std::vector<FactValue> out;
    for (auto it = points.begin(); it != points.end(); ++it) {
      out.emplace_back(*it);
      const auto next = std::next(it);
      const T middle = next != points.end() ? *it + (*next - *it) / T{2} : *it;
      if (middle != *it) out.emplace_back(middle);
    }
    if (*points.rbegin() < std::numeric_limits<T>::max() / T{2}) out.emplace_back(*points.rbegin() + T{1});
    return out;
  }

  static std::set<std::string> names(const FactInfo& fact, const std::vector<FactValue>& operands) {
    std::set<std::string> out;
    for (const std::string_view value : allowed_values(fact)) out.emplace(value);
    for (const FactValue& operand : operands) {
      if (const auto* one = std::get_if<std::string>(&operand)) out.insert(*one);
      if (const auto* several = std::get_if<std::vector<std::string>>(&operand))
        out.insert(several->begin(), several->end());
    }
    if (fact.values.empty()) out.emplace("(another)");
    return out;
  }

  static std::vector<FactValue> values_of(const FactInfo& fact, const std::vector<FactValue>& operands) {
    std::vector<FactValue> out;
    switch (fact.type) {
      case FactType::boolean:
        return {FactValue(false), FactValue(true)};
      case FactType::integer:
        return between<std::int64_t>(operands);
      case FactType::number:
        return between<double>(operands);
      case FactType::text:
        for (const std::string& name : names(fact, operands)) out.emplace_back(name);
        return out;
      case FactType::text_list: {
        const auto all = names(fact, operands);
        const std::vector<std::string> members(all.begin(), all.end());
        if (members.size() > kMaxMembers) return std::vector<FactValue>(kMaxClasses, FactValue(false));
        for (std::size_t set = 1; set < (std::size_t{1} << members.size()); ++set) {
          std::vector<std::string> subset;
          for (std::size_t i = 0; i < members.size(); ++i)
            if (set >> i & 1U) subset.push_back(members[i]);
          out.emplace_back(std::move(subset));
        }
        return out;
      }
    }
    return out;
  }

  std::map<FactId, std::vector<FactValue>> operands_;
  std::map<FactId, FactClasses> by_fact_;
};

// ---- the search

struct Goal {
  enum class Kind : std::uint8_t { truth, passed, unusable } kind = Kind::truth;
  const Condition* condition = nullptr;  // truth: one of `wanted`
  std::uint8_t wanted = kAny;
  const Rule* rule = nullptr;     // passed: asked, and did not decide
  std::string_view backend = {};  // unusable: unavailable or denied
};
using Goals = std::vector<Goal>;

Goal truth_of(const Condition& condition, std::uint8_t wanted) {
  return {Goal::Kind::truth, &condition, wanted, nullptr, {}};
}
Goal passed(const Rule& rule) {
  return {Goal::Kind::passed, nullptr, kAny, &rule, {}};
}
Goal unusable(std::string_view backend) {
  return {Goal::Kind::unusable, nullptr, kAny, nullptr, backend};
}

class Search {
 public:
  Search(const Tree& tree, const Classes& classes) : tree_(tree), classes_(classes) {
    for (const std::string_view backend : known_backends()) {
      Condition& there = available_[backend];
      there.kind = Condition::Kind::compare;
      there.fact = availability_facts(backend).available;
      there.operand = true;
    }
  }

  const Condition& available(std::string_view backend) const { return available_.find(backend)->second; }

  // The domains that are left where all goals are met. nullopt: they never are; see gave_up().
  std::optional<Domains> solve(Goals goals, Domains domains) {
    // What is met or impossible already goes first, and comparisons at once: they narrow without a choice.
    for (bool narrowed = true; narrowed;) {
      narrowed = false;
      Goals left;
      for (const Goal& goal : goals) {
        if (++steps_ > kMaxSteps) return std::nullopt;
        const Standing standing = look(goal, domains);
        if (standing == Standing::impossible) return std::nullopt;
        if (standing == Standing::met) continue;
        if (goal.kind == Goal::Kind::truth && goal.condition->kind == Condition::Kind::compare) {
          narrow(*goal.condition, goal.wanted, domains);
          narrowed = true;
        } else {
          left.push_back(goal);
        }
      }
      goals = std::move(left);
    }
    if (goals.empty()) return domains;
    const Goal first = goals.front();
    goals.erase(goals.begin());
    for (Goals& way : ways(first)) {
      way.insert(way.end(), goals.begin(), goals.end());
      if (auto found = solve(std::move(way), domains)) return found;
      if (gave_up()) return std::nullopt;
    }
    return std::nullopt;
  }
  bool gave_up() const { return steps_ > kMaxSteps; }

 private:
  enum class Standing : std::uint8_t { met, open, impossible };

  // Truth values the condition may still have, or more.
  std::uint8_t possible(const Condition& condition, const Domains& domains) const {
    switch (condition.kind) {
      case Condition::Kind::always:
        return kYes;
      case Condition::Kind::negation:
        return negated(possible(condition.children.front(), domains));
      case Condition::Kind::compare: {
        std::uint8_t out = 0;
        const Domain& domain = domains.at(condition.fact);
        for (std::size_t i = 0; i < kMaxClasses && out != kAny; ++i)
          if (domain[i]) out |= truth_at(condition, i);
        return out;
      }
      case Condition::Kind::all:
        return several(condition, domains, kNo, kYes);
      case Condition::Kind::any:
        return several(condition, domains, kYes, kNo);
    }
    return kAny;
  }
  std::uint8_t several(const Condition& condition, const Domains& domains, std::uint8_t settling,
                       std::uint8_t opposite) const {
    bool may_settle = false, may_be_unknown = false, all_opposite = true, none_must_settle = true;
    for (const Condition& child : condition.children) {
      const std::uint8_t one = possible(child, domains);
      may_settle |= (one & settling) != 0;
      may_be_unknown |= (one & kUnknown) != 0;
      all_opposite &= (one & opposite) != 0;
      none_must_settle &= one != settling;
    }
    return static_cast<std::uint8_t>((may_settle ? settling : 0) |
                                     (may_be_unknown && none_must_settle ? kUnknown : 0) |
                                     (all_opposite ? opposite : 0));
  }

  std::uint8_t truth_at(const Condition& comparison, std::size_t index) const {
    const Fact fact{index == 0 ? FactValue(false) : classes_.value(comparison.fact, index), {}, {}};
    return bit(compare(comparison, index == 0 ? nullptr : &fact));
  }

  void narrow(const Condition& comparison, std::uint8_t wanted, Domains& domains) const {
    Domain& domain = domains.at(comparison.fact);
    for (std::size_t i = 0; i < kMaxClasses; ++i)
      if (domain[i] && !(truth_at(comparison, i) & wanted)) domain.reset(i);
  }

  Standing look(const Goal& goal, const Domains& domains) const {
    const auto of = [](std::uint8_t may, std::uint8_t wanted) {
      return (may & wanted) == 0    ? Standing::impossible
             : (may & ~wanted) == 0 ? Standing::met
                                    : Standing::open;
    };
    switch (goal.kind) {
      case Goal::Kind::truth:
        return of(possible(*goal.condition, domains), goal.wanted);
      case Goal::Kind::unusable: {
        Standing out = of(possible(available(goal.backend), domains), kNo | kUnknown);
        for (const Constraint& constraint : tree_.constraints)
          if (denies(constraint, goal.backend))
            out = std::min(out, of(possible(constraint.when, domains), kYes | kUnknown));
        return out;
      }
      case Goal::Kind::passed: {
        const Standing untrue = of(possible(goal.rule->when, domains), kNo | kUnknown);
        return std::min(untrue, inside(*goal.rule, domains));
      }
    }
    return Standing::open;
  }
  // Whether a rule that is true may still not decide.
  Standing inside(const Rule& rule, const Domains& domains) const {
    Standing out = Standing::met;
    for (const Rule& child : rule.rules) out = std::max(out, look(passed(child), domains));
    for (const Target& target : rule.use) out = std::max(out, look(unusable(target.backend), domains));
    return rule.on_unavailable == OnUnavailable::next ? out : Standing::impossible;
  }

  // The ways to meet a goal, as goals each; the first is the likeliest.
  std::vector<Goals> ways(const Goal& goal) const {
    std::vector<Goals> out;
    if (goal.kind == Goal::Kind::unusable) {
      out.push_back({truth_of(available(goal.backend), kNo | kUnknown)});
      for (const Constraint& constraint : tree_.constraints)
        if (denies(constraint, goal.backend)) out.push_back({truth_of(constraint.when, kYes | kUnknown)});
      return out;
    }
    if (goal.kind == Goal::Kind::passed) {
      out.push_back({truth_of(goal.rule->when, kNo | kUnknown)});
      if (goal.rule->on_unavailable != OnUnavailable::next) return out;
      Goals through;
      for (const Rule& child : goal.rule->rules) through.push_back(passed(child));
      for (const Target& target : goal.rule->use) through.push_back(unusable(target.backend));
      out.push_back(std::move(through));
      return out;
    }
    const Condition& condition = *goal.condition;
    if (condition.kind == Condition::Kind::negation)
      return {{truth_of(condition.children.front(), negated(goal.wanted))}};
    const bool all = condition.kind == Condition::Kind::all;
    const std::uint8_t settling = all ? kNo : kYes, opposite = all ? kYes : kNo;
    const auto every = [&](std::uint8_t wanted) {
      Goals goals;
      for (const Condition& child : condition.children) goals.push_back(truth_of(child, wanted));
      return goals;
    };
    if (goal.wanted & opposite) out.push_back(every(opposite));
    if (goal.wanted & settling)
      for (const Condition& child : condition.children) out.push_back({truth_of(child, settling)});
    if (goal.wanted & kUnknown)
      for (std::size_t i = 0; i < condition.children.size(); ++i) {
        Goals goals = every(static_cast<std::uint8_t>(opposite | kUnknown));
        goals[i].wanted = kUnknown;
        out.push_back(std::move(goals));
      }
    return out;
  }

  const Tree& tree_;
  const Classes& classes_;
  std::map<std::string_view, Condition> available_;
  std::size_t steps_ = 0;
};

// ---- what has to hold for a rule's target to be chosen

// Goals for the way to `wanted` among `rules`; false where it is not below them.
bool way_to(const std::vector<Rule>& rules, const Rule& wanted, Goals& goals) {
  const std::size_t before = goals.size();
  for (const Rule& rule : rules) {
    if (&rule == &wanted) {
      goals.push_back(truth_of(rule.when, kYes));
      return true;
    }
    const std::size_t outside = goals.size();
    goals.push_back(truth_of(rule.when, kYes));
    if (way_to(rule.rules, wanted, goals)) return true;
    goals.resize(outside);
    goals.push_back(passed(rule));
  }
  goals.resize(before);
  return false;
}

void add_all(const std::vector<Rule>& rules, Classes& classes) {
  for (const Rule& rule : rules) {
    classes.add(rule.when);
    add_all(rule.rules, classes);
  }
}

template <class F>
void each_rule(const std::vector<Rule>& rules, const F& f) {
  for (const Rule& rule : rules) {
    f(rule);
    each_rule(rule.rules, f);
  }
}

}  // namespace

ReachAnswer reach(const Tree& tree, const Rule& rule, const Target& target,
                  const std::vector<Condition>& assumptions) {
  Classes classes;
  add_all(tree.rules, classes);
  for (const Constraint& constraint : tree.constraints) classes.add(constraint.when);
  for (const Condition& assumption : assumptions) classes.add(assumption);
  for (const std::string_view backend : known_backends()) classes.add(availability_facts(backend).available);
  if (!classes.build()) return {};

  Search search(tree, classes);
  Goals goals;
  for (const Condition& assumption : assumptions) goals.push_back(truth_of(assumption, kYes));
  for (const Constraint& constraint : tree.constraints)
    if (denies(constraint, target.backend)) goals.push_back(truth_of(constraint.when, kNo));
  goals.push_back(truth_of(search.available(target.backend), kYes));
  for (const Target& before : rule.use) {
    if (&before == &target) break;
    goals.push_back(unusable(before.backend));
  }
  Goals way;
  if (&rule == &tree.fallback)
    for (const Rule& top : tree.rules) way.push_back(passed(top));
  else
    way_to(tree.rules, rule, way);
  // Conditions that must be true narrow most: they go before the rules that must be passed.
  std::ranges::stable_partition(way, [](const Goal& goal) { return goal.kind == Goal::Kind::truth; });
  goals.insert(goals.end(), way.begin(), way.end());

  ReachAnswer out;
  const auto found = search.solve(std::move(goals), classes.all());
  if (!found) {
    out.reach = search.gave_up() ? Reach::undecided : Reach::never;
    return out;
  }
  out.reach = Reach::possible;
  for (const auto& [fact, domain] : *found)  // a value where there may be one: easier to read than "unknown"
    for (std::size_t i = 1; i < kMaxClasses; ++i)
      if (domain[i]) {
        out.facts.set(fact, classes.value(fact, i), "search");
        break;
      }
  return out;
}

Result<Condition> assumption(std::string_view assignment) {
  Facts facts;
  if (auto ok = set_fact(assignment, "assumption", facts); !ok) return std::unexpected(std::move(ok.error()));
  Condition out;
  out.kind = Condition::Kind::compare;
  out.fact = *find_fact(assignment.substr(0, assignment.find('=')));
  const FactValue& value = facts.get(out.fact)->value;
  if (const auto* members = std::get_if<std::vector<std::string>>(&value)) {
    out.op = Op::in;
    out.operand = *members;
  } else {
    out.operand = value;
  }
  return out;
}

Proof prove_never(const Tree& tree, std::string_view backend, const std::vector<Condition>& assumptions) {
  Proof proof;
  const auto look = [&](const Rule& rule) {
    for (const Target& target : rule.use) {
      if (target.backend != backend && !(backend == "remote" && is_remote(target.backend))) continue;
      ++proof.places;
      ReachAnswer answer = reach(tree, rule, target, assumptions);
      if (answer.reach != Reach::never) proof.open.push_back({&rule, &target, std::move(answer)});
    }
  };
  each_rule(tree.rules, look);
  look(tree.fallback);
  return proof;
}

std::vector<LintFinding> dead_ends(const Tree& tree) {
  std::vector<LintFinding> out;
  const auto warn = [&](std::string message, std::uint32_t line, std::uint32_t column) {
    out.push_back({LintFinding::Level::warning, std::move(message),
                   tree.file + ":" + std::to_string(line) + ":" + std::to_string(column)});
  };
  const auto look = [&](const Rule& rule) {
    std::vector<const Target*> dead;
    for (const Target& target : rule.use)
      if (reach(tree, rule, target, {}).reach == Reach::never) dead.push_back(&target);
    if (rule.use.empty() || dead.empty()) return;
    if (dead.size() == rule.use.size()) {
      warn("rule \"" + rule.id +
               "\" never decides: whatever the facts, it is not true, or what stands before it decides",
           rule.line, rule.column);
      return;
    }
    for (const Target* target : dead)
      warn("target " + to_string(*target) + " of rule \"" + rule.id +
               "\" is never chosen: where the rule is asked, it has been passed over or is denied",
           target->line, target->column);
  };
  each_rule(tree.rules, look);
  look(tree.fallback);
  return out;
}

}  // namespace flyball::policy
