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

// What brings a decision somewhere. Facts that meet the goals do, and where there are wishes only facts that
// grant enough of them: whether they did is for decide() to say.
struct Way {
  Goals goals;
  std::vector<Wish> wishes;
};

// Goals and wishes for the target to be the one that a rule takes, which is asked; one way each. The target
// can be used.
class Choice {
 public:
  Choice(const Search& search, const Tree& tree, const Rule& rule, const Target& target)
      : search_(search), tree_(tree), rule_(rule), target_(target) {}

  std::vector<Way> ways() const {
    switch (rule_.pick) {
      case Pick::first:
        break;
      case Pick::fastest:
        return least(TargetFact::expected_total);
      case Pick::considerate:
        return least(TargetFact::expected_delay_to_others);
      case Pick::meets_slo:
        return meets_slo();
    }
    return {{before({}), {}}};
  }

 private:
  // The targets listed before it cannot be used, or are passed over.
  Goals before(Goals goals, std::uint8_t or_meets_slo = 0) const {
    for (const Target& other : rule_.use) {
      if (&other == &target_) break;
      goals.push_back(unusable(other.backend, or_meets_slo));
    }
    return goals;
  }

  // It alone can be used; or this fact of it is least, as far as the goals leave that open. Where another
  // profile of its engine is listed before it, only that profile's own facts lead here, which are not
  // searched.
  std::vector<Way> least(TargetFact of) const {
    Way alone, least;
    bool is_before = true, has_profile_before = false;
    for (const Target& other : rule_.use) {
      is_before = is_before && &other != &target_;
      if (other.backend != target_.backend) {
        alone.goals.push_back(unusable(other.backend));
        least.wishes.push_back({fact_of(other, of), true, true});
      } else if (is_before) {
        if (other.profile == target_.profile) return {};
        has_profile_before = true;
      }
    }
    least.wishes.push_back({fact_of(target_, of), false, false});
    if (has_profile_before) return {std::move(least)};
    return {std::move(alone), std::move(least), trial(of)};
  }

  // A trial of it is due, and predictions pick by this fact what is listed behind it.
  Way trial(TargetFact of = TargetFact::expected_total) const {
    Way out{before({truth_of(search_.trial_due(target_.backend), kYes)}, kAny), {}};
    for (const Target& other : rule_.use)
      if (other.backend != target_.backend) out.wishes.push_back({fact_of(other, of), false, false});
    out.wishes.push_back({fact_of(target_, of), true, true});
    return out;
  }

  std::vector<Way> meets_slo() const {
    Way first_that_does{before({truth_of(search_.meets_slo(target_.backend), kYes)}, kNo | kUnknown), {}};
    Goals none_known;
    for (const Target& each : rule_.use) none_known.push_back(unusable(each.backend, kUnknown));
    Way unpredicted{before(none_known), {}};
    std::vector<Way> out{std::move(first_that_does)};
    if (rule_.on_slo_miss == OnSloMiss::fastest) {
      // Without an SLO the fastest is taken, and whether there is one the facts may leave open.
      for (Way& way : least(TargetFact::expected_total)) {
        way.goals.insert(way.goals.end(), none_known.begin(), none_known.end());
        out.push_back(std::move(way));
      }
      for (const Target& each : rule_.use)
        unpredicted.wishes.push_back({fact_of(each, TargetFact::expected_total), true, true});
    }
    out.push_back(std::move(unpredicted));
    out.push_back(trial());
    if (rule_.on_slo_miss == OnSloMiss::next) return out;
    const auto ways = rule_.on_slo_miss == OnSloMiss::fastest ? least(TargetFact::expected_total)
                                                              : std::vector<Way>{{before({}), {}}};
    for (const Target& each : rule_.use)
      for (const Way& way : ways) {
        search_.misses(rule_, each, out.emplace_back(way).goals);
      }
    return out;
  }

  FactId fact_of(const Target& target, TargetFact which) const {
    return tree_.targets->fact_of(target.backend, which);
  }

  const Search& search_;
  const Tree& tree_;
  const Rule& rule_;
  const Target& target_;
};

// What brings a decision to the target, one way each, beside its being usable.
std::vector<Way> ways_to(const Search& search, const Tree& tree, const Rule& rule, const Target& target,
                         Role role) {
  Goals asked;
  if (&rule != &tree.fallback)
    way_to(tree.rules, rule, asked);
  else
    for (const Rule& top : tree.rules) asked.push_back(passed(top));
  std::vector<Way> out;
  if (role == Role::chosen || rule.may_miss()) {  // that it is chosen shows more than that others are
    out = Choice(search, tree, rule, target).ways();
    for (Way& way : out) way.goals.insert(way.goals.begin(), asked.begin(), asked.end());
    if (role == Role::chosen) return out;
  }
  out.push_back({std::move(asked), {}});
  if (&rule != &tree.fallback) return out;
  // Also an alternative wherever a rule decides that has something behind it.
  each_rule(tree.rules, [&](const Rule& other) {
    if (other.on_unavailable != OnUnavailable::next) return;
    for (const Target& used : other.use) {
      Way way;
      way_to(tree.rules, other, way.goals);
      search.usable(used.backend, way.goals);
      // It decides where one meets the SLO or is tried, and where of none it is known.
      if (other.may_miss()) {
        out.push_back(way);
        out.back().goals.push_back(truth_of(search.meets_slo(used.backend), kYes));
        out.push_back(way);
        out.back().goals.push_back(truth_of(search.trial_due(used.backend), kYes));
        for (const Target& each : other.use) way.goals.push_back(unusable(each.backend, kUnknown));
      }
      out.push_back(std::move(way));
    }
  });
  return out;
}

// Questions about one tree, with steps for all of them together.
class Questions {
 public:
  Questions(const Tree& tree, const std::vector<Condition>& assumptions)
      : tree_(tree), assumptions_(assumptions), search_(tree, assumptions) {}

  ReachAnswer assumed() { return ask({{assumed_goals(), {}}}, nullptr); }
  ReachAnswer reach(const Rule& rule, const Target& target, Role role) {
    Goals goals = assumed_goals();
    search_.usable(target.backend, goals);
    std::vector<Way> ways = ways_to(search_, tree_, rule, target, role);
    for (Way& way : ways) {
      // Conditions that must be true narrow most: they go before the rules that must be passed.
      std::ranges::stable_partition(way.goals,
                                    [](const Goal& goal) { return goal.kind == Goal::Kind::truth; });
      way.goals.insert(way.goals.begin(), goals.begin(), goals.end());
    }
    return ask(std::move(ways), &target);
  }

 private:
  Goals assumed_goals() const {
    Goals goals;
    for (const Condition& assumption : assumptions_) goals.push_back(truth_of(assumption, kYes));
    return goals;
  }
  // Where the wishes of a way to `target` are not granted, it is not settled whether the way leads there.
  ReachAnswer ask(std::vector<Way> ways, const Target* target) {
    std::size_t steps = std::min(kMaxSteps, left_);
    const std::size_t before = steps;
    ReachAnswer out;
    out.reach = Reach::never;
    for (Way& way : ways) {
      auto found = search_.solve(std::move(way.goals), way.wishes, steps);
      if (found && (way.wishes.empty() || decide(tree_, *found).target == target)) {
        out.reach = Reach::possible;
        out.facts = std::move(*found);
        break;
      }
      if (found || steps == 0) out.reach = Reach::undecided;
      if (steps == 0) break;
    }
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
  const auto meant = tree.targets->denied_by(backend);
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
    warn(
        std::to_string(unsettled) + (unsettled == 1 ? " target is" : " targets are") +
            " not settled: whether any facts lead there takes a longer search than is made here, or facts of "
            "a profile",
        tree.file);
  return out;
}

}  // namespace flyball::policy
