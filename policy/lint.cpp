// What is wrong with a policy although every line of it can be read: names used twice, rules that no request
// can reach, targets that nobody can get.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "config/engine_kinds.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {
namespace {

bool same(const Condition& a, const Condition& b) {
  if (a.kind != b.kind || a.children.size() != b.children.size()) return false;
  if (a.kind == Condition::Kind::compare) return a.fact == b.fact && a.op == b.op && a.operand == b.operand;
  return std::ranges::equal(a.children, b.children, same);
}

// The comparisons that must all be true for the condition to be.
void collect_conjuncts(const Condition& condition, std::vector<const Condition*>& out) {
  if (condition.kind == Condition::Kind::compare) out.push_back(&condition);
  if (condition.kind == Condition::Kind::all)
    for (const Condition& child : condition.children) collect_conjuncts(child, out);
}

double as_number(const FactValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return 0;
}

bool ordered(const Condition& c) {
  return c.op == Op::gt || c.op == Op::gte || c.op == Op::lt || c.op == Op::lte;
}

bool satisfies(double value, const Condition& bound) {
  const double limit = as_number(bound.operand);
  switch (bound.op) {
    case Op::gt:
      return value > limit;
    case Op::gte:
      return value >= limit;
    case Op::lt:
      return value < limit;
    case Op::lte:
      return value <= limit;
    default:
      return true;
  }
}

// Two comparisons of one fact that are never true together.
bool exclude(const Condition& a, const Condition& b) {
  if (a.fact != b.fact) return false;
  if (a.op == Op::exists && b.op == Op::exists) return a.operand != b.operand;
  if (a.op == Op::exists) return a.operand == FactValue(false);  // anything else is true of known facts only
  if (b.op == Op::exists) return exclude(b, a);
  if (a.op == Op::eq && b.op == Op::eq) return a.operand != b.operand;
  if (a.op == Op::eq && b.op == Op::ne) return a.operand == b.operand;
  if (a.op == Op::ne && b.op == Op::eq) return exclude(b, a);
  if (a.op == Op::eq && b.op == Op::in) {
    const auto& members = std::get<std::vector<std::string>>(b.operand);
    return std::ranges::find(members, std::get<std::string>(a.operand)) == members.end();
  }
  if (a.op == Op::in && b.op == Op::eq) return exclude(b, a);
  if (a.op == Op::eq && ordered(b)) return !satisfies(as_number(a.operand), b);
  if (ordered(a) && b.op == Op::eq) return exclude(b, a);
  if (!ordered(a) || !ordered(b)) return false;
  const bool a_is_lower = a.op == Op::gt || a.op == Op::gte;
  const bool b_is_lower = b.op == Op::gt || b.op == Op::gte;
  if (a_is_lower == b_is_lower) return false;
  const Condition& lower = a_is_lower ? a : b;
  const Condition& upper = a_is_lower ? b : a;
  const double low = as_number(lower.operand), high = as_number(upper.operand);
  return low > high || (low == high && (lower.op == Op::gt || upper.op == Op::lt));
}

class Linter {
 public:
  explicit Linter(const Tree& tree) : tree_(tree) {}

  std::vector<LintFinding> run() {
    for (const Constraint& constraint : tree_.constraints) {
      std::vector<const Condition*> conjuncts;
      collect_conjuncts(constraint.when, conjuncts);
      if (contradictory(conjuncts))
        warn("constraint \"" + constraint.id + "\" can never be true", constraint.line, constraint.column);
    }
    std::vector<const Condition*> known;
    siblings(tree_.rules, known);
    targets(tree_.fallback);
    for (const Profile& profile : tree_.profiles)
      if (!used_profiles_.contains(profile.id))
        warn("profile \"" + profile.id + "\" is used by no target", profile.line, profile.column);
      else
        own_engine(profile);
    return std::move(findings_);
  }

 private:
  std::string where(std::uint32_t line, std::uint32_t column) const {
    return tree_.file + ":" + std::to_string(line) + ":" + std::to_string(column);
  }
  void warn(std::string message, std::uint32_t line, std::uint32_t column) {
    findings_.push_back({LintFinding::Level::warning, std::move(message), where(line, column)});
  }
  void error(std::string message, std::uint32_t line, std::uint32_t column) {
    findings_.push_back({LintFinding::Level::error, std::move(message), where(line, column)});
  }

  // Settings of the processor's engine alone, where none of the profile's is one.
  void own_engine(const Profile& profile) {
    if (!profile.own_engine ||
        tree_.targets->find(std::string(config::kCpu.id) + ":" + profile.id) != nullptr)
      return;
    for (const auto& [key, is_set] : {std::pair{"threads", profile.own_engine->threads.has_value()},
                                      std::pair{"lock_memory", profile.own_engine->lock_memory}})
      if (is_set)
        warn("profile \"" + profile.id + "\": " + key +
                 " is a setting of the cpu engine, and no target is cpu:" + profile.id,
             profile.line, profile.column);
  }

  static bool contradictory(const std::vector<const Condition*>& conjuncts) {
    // Quadratic, over the comparisons on one path; bounded so that a strange file costs little.
    constexpr std::size_t kMostCompared = 200;
    const std::size_t n = std::min(conjuncts.size(), kMostCompared);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = i + 1; j < n; ++j)
        if (exclude(*conjuncts[i], *conjuncts[j])) return true;
    return false;
  }

  // A rule that, once true, ends the search whatever is available.
  static bool ends_search(const Rule& rule) {
    return rule.rules.empty() && rule.on_unavailable != OnUnavailable::next && !rule.may_miss();
  }

  void siblings(const std::vector<Rule>& rules, std::vector<const Condition*>& known) {
    std::vector<const Rule*> ending;
    for (const Rule& rule : rules) {
      if (const auto [it, fresh] = ids_.emplace(rule.id, &rule); !fresh)
        error("rule id \"" + rule.id + "\" is already used at " + where(it->second->line, it->second->column),
              rule.line, rule.column);
      const auto shadow = std::ranges::find_if(ending, [&](const Rule* earlier) {
        return earlier->when.kind == Condition::Kind::always || same(earlier->when, rule.when);
      });
      if (shadow != ending.end())
        warn("rule \"" + rule.id + "\" is never reached: rule \"" + (*shadow)->id +
                 "\" before it always decides",
             rule.line, rule.column);
      const std::size_t outside = known.size();
      collect_conjuncts(rule.when, known);
      if (contradictory(known))
        warn("rule \"" + rule.id + "\" is never true: its comparisons exclude each other", rule.line,
             rule.column);
      targets(rule);
      siblings(rule.rules, known);
      known.resize(outside);
      if (ends_search(rule) && ending.size() < kMaxEnding) ending.push_back(&rule);
    }
  }

  void targets(const Rule& rule) {
    std::set<std::string> named;
    for (const Target& target : rule.use) {
      used_profiles_.insert(target.profile);
      if (!named.insert(to_string(target)).second)
        warn("rule \"" + rule.id + "\" names the target " + to_string(target) + " twice", target.line,
             target.column);
      for (const Constraint& constraint : tree_.constraints)
        if (constraint.when.kind == Condition::Kind::always && denies(constraint, target.backend))
          error("target " + to_string(target) + " is always denied by constraint \"" + constraint.id + "\"",
                target.line, target.column);
    }
    const bool alone = rule.rules.empty() && !rule.use.empty();
    const bool all_denied =
        alone && std::ranges::all_of(rule.use, [&](const Target& target) {
          return std::ranges::any_of(tree_.constraints, [&](const Constraint& constraint) {
            return denies(constraint, target.backend) && implied(rule.when, constraint.when);
          });
        });
    if (all_denied)
      warn("every target of rule \"" + rule.id + "\" is denied by a constraint whenever the rule is true",
           rule.line, rule.column);
  }

  // Conservative: the constraint's condition is, word for word, one that the rule requires.
  static bool implied(const Condition& rule, const Condition& constraint) {
    if (same(rule, constraint)) return true;
    return rule.kind == Condition::Kind::all &&
           std::ranges::any_of(rule.children,
                               [&](const Condition& child) { return implied(child, constraint); });
  }

  static constexpr std::size_t kMaxEnding = 100;

  const Tree& tree_;
  std::map<std::string, const Rule*> ids_;
  std::set<std::string, std::less<>> used_profiles_;
  std::vector<LintFinding> findings_;
};

}  // namespace

std::vector<LintFinding> lint(const Tree& tree) {
  return Linter(tree).run();
}

}  // namespace flyball::policy
