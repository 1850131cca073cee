#include "policy/reach.hpp"

#include <algorithm>

#include "policy/fact_text.hpp"
#include "policy/search.hpp"

namespace flyball::policy {
namespace {

// Of goals looked at: for one target, and for all of a tree together, which is some seconds.
constexpr std::size_t kMaxSteps = 200'000, kMaxStepsOfAll = 8'000'000;

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

template <class F>
void each_rule(const std::vector<Rule>& rules, const F& f) {
  for (const Rule& rule : rules) {
    f(rule);
    each_rule(rule.rules, f);
  }
}

// What brings a decision to the target, one way each, beside its being usable.
std::vector<Goals> ways_to(const Search& search, const Tree& tree, const Rule& rule, const Target& target,
                           Role role) {
  std::vector<Goals> out(1);
  if (&rule != &tree.fallback)
    way_to(tree.rules, rule, out.front());
  else
    for (const Rule& top : tree.rules) out.front().push_back(passed(top));
  if (role == Role::chosen) {
    for (const Target& before : rule.use) {
      if (&before == &target) break;
      out.front().push_back(unusable(before.backend));
    }
  } else if (&rule == &tree.fallback) {
    // Also an alternative wherever a rule decides that has something behind it.
    each_rule(tree.rules, [&](const Rule& other) {
      if (other.on_unavailable != OnUnavailable::next) return;
      for (const Target& used : other.use) {
        way_to(tree.rules, other, out.emplace_back());
        search.usable(used.backend, out.back());
      }
    });
  }
  return out;
}

ReachAnswer answer(const Search& search, std::vector<Goals> ways, std::size_t& steps) {
  ReachAnswer out;
  for (Goals& way : ways) {
    if (auto found = search.solve(std::move(way), steps)) {
      out.reach = Reach::possible;
      out.facts = std::move(*found);
      return out;
    }
    if (steps == 0) return out;
  }
  out.reach = Reach::never;
  return out;
}

// Questions about one tree, with steps for all of them together.
class Questions {
 public:
  Questions(const Tree& tree, const std::vector<Condition>& assumptions)
      : tree_(tree), assumptions_(assumptions), search_(tree, assumptions) {}

  ReachAnswer assumed() { return ask({assumed_goals()}); }
  ReachAnswer reach(const Rule& rule, const Target& target, Role role) {
    Goals goals = assumed_goals();
    search_.usable(target.backend, goals);
    std::vector<Goals> ways = ways_to(search_, tree_, rule, target, role);
    for (Goals& way : ways) {
      // Conditions that must be true narrow most: they go before the rules that must be passed.
      std::ranges::stable_partition(way, [](const Goal& goal) { return goal.kind == Goal::Kind::truth; });
      way.insert(way.begin(), goals.begin(), goals.end());
    }
    return ask(std::move(ways));
  }

 private:
  Goals assumed_goals() const {
    Goals goals;
    for (const Condition& assumption : assumptions_) goals.push_back(truth_of(assumption, kYes));
    return goals;
  }
  ReachAnswer ask(std::vector<Goals> ways) {
    std::size_t steps = std::min(kMaxSteps, left_);
    const std::size_t before = steps;
    ReachAnswer out = answer(search_, std::move(ways), steps);
    left_ -= before - steps;
    return out;
  }

  const Tree& tree_;
  const std::vector<Condition>& assumptions_;
  const Search search_;
  std::size_t left_ = kMaxStepsOfAll;
};

}  // namespace

ReachAnswer reach(const Tree& tree, const Rule& rule, const Target& target, Role role,
                  const std::vector<Condition>& assumptions) {
  return Questions(tree, assumptions).reach(rule, target, role);
}

Result<Condition> assumption(std::string_view assignment, const Targets& targets) {
  Facts facts(targets);
  if (auto ok = set_fact(assignment, "assumption", facts); !ok) return pass(ok);
  Condition out;
  out.kind = Condition::Kind::compare;
  out.fact = *targets->find_fact(assignment.substr(0, assignment.find('=')));
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
  Questions questions(tree, assumptions);
  const auto meant = tree.targets->meant_by(backend);
  const auto is_meant = [&](const Target& target) {
    return std::ranges::find(meant, target.backend, &TargetInstance::id) != meant.end();
  };
  proof.possible = questions.assumed().reach != Reach::never;
  const auto look = [&](const Rule& rule) {
    for (const Target& target : rule.use) {
      if (!is_meant(target)) continue;
      ++proof.places;
      ReachAnswer found = questions.reach(rule, target, Role::tried);
      if (found.reach != Reach::never) proof.open.push_back({&rule, &target, std::move(found)});
    }
  };
  each_rule(tree.rules, look);
  look(tree.fallback);
  return proof;
}

std::vector<LintFinding> dead_ends(const Tree& tree) {
  std::vector<LintFinding> out;
  const auto warn = [&](std::string message, std::string where) {
    out.push_back({LintFinding::Level::warning, std::move(message), std::move(where)});
  };
  const auto place = [&](std::uint32_t line, std::uint32_t column) {
    return tree.file + ":" + std::to_string(line) + ":" + std::to_string(column);
  };
  const std::vector<Condition> none;
  Questions questions(tree, none);
  std::size_t unsettled = 0;
  const auto look = [&](const Rule& rule) {
    std::vector<const Target*> dead;
    for (const Target& target : rule.use) {
      const Reach found = questions.reach(rule, target, Role::chosen).reach;
      if (found == Reach::never) dead.push_back(&target);
      unsettled += found == Reach::undecided;
    }
    if (rule.use.empty() || dead.empty()) return;
    if (dead.size() == rule.use.size()) {
      warn("rule \"" + rule.id +
               "\" never decides: whatever the facts, it is not true, or what stands before it decides",
           place(rule.line, rule.column));
      return;
    }
    for (const Target* target : dead)
      warn("target " + to_string(*target) + " of rule \"" + rule.id +
               "\" is never chosen: where the rule is asked, it has been passed over or is denied",
           place(target->line, target->column));
  };
  each_rule(tree.rules, look);
  look(tree.fallback);
  if (unsettled > 0)
    warn(std::to_string(unsettled) + (unsettled == 1 ? " target is" : " targets are") +
             " not settled: whether any facts lead there takes a longer search than is made here",
         tree.file);
  return out;
}

}  // namespace flyball::policy
