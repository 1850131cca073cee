#include "policy/search.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "policy/fact_text.hpp"

namespace flyball::policy {
namespace {

constexpr std::size_t kMaxMembers = 6;  // of a text list whose subsets are searched

constexpr std::uint8_t negated(std::uint8_t truths) {
  return static_cast<std::uint8_t>((truths & kUnknown) | ((truths & kNo) ? kYes : 0) |
                                   ((truths & kYes) ? kNo : 0));
}

// ---- classes of values: one representative for all that no comparison tells apart -------------------------

// Every operand, one value between each two neighbours, and one beyond. No fact is negative.
template <class T>
std::vector<FactValue> between(const std::vector<FactValue>& operands) {
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

std::set<std::string> names(const FactInfo& fact, const std::vector<FactValue>& operands) {
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

std::vector<FactValue> values_of(const FactInfo& fact, const std::vector<FactValue>& operands) {
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
      if (members.size() > kMaxMembers) return std::vector<FactValue>(Search::kMaxClasses, FactValue(false));
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

template <class F>
void each_condition(const std::vector<Rule>& rules, const F& f) {
  for (const Rule& rule : rules) {
    f(rule.when);
    each_condition(rule.rules, f);
  }
}

}  // namespace

Search::Search(const Tree& tree, const std::vector<Condition>& assumptions) : tree_(tree) {
  each_condition(tree.rules, [this](const Condition& when) { collect(when); });
  for (const Constraint& constraint : tree.constraints) collect(constraint.when);
  for (const Condition& assumption : assumptions) collect(assumption);
  ask_of_each(TargetFact::available, Op::eq, available_);
  if (tree.program.n_picks > 0) {
    ask_of_each(TargetFact::meets_slo, Op::eq, meets_slo_);
    ask_of_each(TargetFact::expected_total, Op::exists, expected_total_);
    ask_of_each(TargetFact::trial_due, Op::eq, trial_due_);
    if (tree.program.asks_delay_to_others)
      ask_of_each(TargetFact::expected_delay_to_others, Op::exists, delay_to_others_);
  }
  build();
}

// A comparison for each instance: the fact is true, or exists.
void Search::ask_of_each(TargetFact fact, Op op, std::map<std::string_view, Condition>& out) {
  for (const TargetInstance& instance : tree_.targets->instances()) {
    Condition& one = out[instance.id];
    one.kind = Condition::Kind::compare;
    one.fact = fact_of(instance, fact);
    one.op = op;
    one.operand = true;
    collect(one);
  }
}

void Search::collect(const Condition& condition) {
  for (const Condition& child : condition.children) collect(child);
  if (condition.kind == Condition::Kind::compare) comparisons_.push_back(&condition);
}

void Search::build() {
  std::map<FactId, std::vector<FactValue>> operands;
  for (const Condition* c : comparisons_) {
    auto& of_fact = operands[c->fact];
    if (c->op != Op::exists) of_fact.push_back(c->operand);
  }
  std::map<FactId, std::size_t> index;
  for (const auto& [fact, of_fact] : operands) {
    index[fact] = facts_.size();
    facts_.push_back(fact);
    values_.push_back(values_of(tree_.targets->facts()[fact], of_fact));
    too_many_ |= values_.back().size() + 1 > kMaxClasses;
  }
  if (too_many_) return;
  for (const Condition* c : comparisons_) {
    TruthSets& sets = truths_[c];
    sets.fact = index[c->fact];
    const auto& values = values_[sets.fact];
    for (std::size_t i = 0; i <= values.size(); ++i) {
      const Fact fact{i == 0 ? FactValue(false) : values[i - 1], {}, {}};
      const Truth truth = compare(*c, i == 0 ? nullptr : &fact);
      (truth == Truth::no ? sets.no : truth == Truth::yes ? sets.yes : sets.unknown).set(i);
    }
  }
}

void Search::usable(std::string_view backend, Goals& goals) const {
  for (const Constraint& constraint : tree_.constraints)
    if (denies(constraint, backend)) goals.push_back(truth_of(constraint.when, kNo));
  goals.push_back(truth_of(available(backend), kYes));
}

void Search::misses(const Rule& rule, const Target& target, Goals& goals) const {
  usable(target.backend, goals);
  goals.push_back(truth_of(meets_slo(target.backend), kNo));
  goals.push_back(truth_of(trial_due(target.backend), kNo | kUnknown));
  for (const Target& other : rule.use)
    if (other.backend != target.backend) goals.push_back(unusable(other.backend, kNo | kUnknown));
}

std::optional<Facts> Search::solve(Goals goals, const std::vector<Wish>& wishes, std::size_t& steps) const {
  if (too_many_) {
    steps = 0;
    return std::nullopt;
  }
  Domains all(facts_.size());
  for (std::size_t fact = 0; fact < all.size(); ++fact)
    for (std::size_t i = 0; i <= values_[fact].size(); ++i) all[fact].set(i);
  const auto found = narrowed(std::move(goals), std::move(all), steps);
  if (!found) return std::nullopt;
  std::set<FactId> trials;
  for (const auto& [backend, due] : trial_due_) trials.insert(due.fact);
  Facts out(tree_.targets);  // a value where there may be one: easier to read than "unknown"
  for (std::size_t fact = 0; fact < found->size(); ++fact) {
    const auto at = std::ranges::find(wishes, facts_[fact], &Wish::fact);
    const Wish wish = at == wishes.end() ? Wish{} : *at;
    const Classes& left = (*found)[fact];
    if ((wish.unknown || trials.contains(facts_[fact])) && left[0]) continue;
    const std::size_t n = values_[fact].size();
    for (std::size_t k = 1; k <= n; ++k)
      if (const std::size_t i = wish.highest ? n + 1 - k : k; left[i]) {
        out.set(facts_[fact], values_[fact][i - 1], "search");
        break;
      }
  }
  return out;
}

// The domains that are left where all goals are met.
std::optional<Search::Domains> Search::narrowed(Goals goals, Domains domains, std::size_t& steps) const {
  // What is met or impossible already goes first, and comparisons at once: they narrow without a choice.
  for (bool again = true; again;) {
    again = false;
    Goals left;
    for (const Goal& goal : goals) {
      if (steps == 0 || --steps == 0) return std::nullopt;
      const Standing standing = look(goal, domains);
      if (standing == Standing::impossible) return std::nullopt;
      if (standing == Standing::met) continue;
      if (goal.kind == Goal::Kind::truth && goal.condition->kind == Condition::Kind::compare) {
        narrow(*goal.condition, goal.wanted, domains);
        again = true;
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
    if (auto found = narrowed(std::move(way), domains, steps)) return found;
    if (steps == 0) return std::nullopt;
  }
  return std::nullopt;
}

// Truth values the condition may still have, or more.
std::uint8_t Search::possible(const Condition& condition, const Domains& domains) const {
  switch (condition.kind) {
    case Condition::Kind::always:
      return kYes;
    case Condition::Kind::negation:
      return negated(possible(condition.children.front(), domains));
    case Condition::Kind::compare: {
      const TruthSets& sets = truths_.at(&condition);
      const Classes& left = domains[sets.fact];
      return static_cast<std::uint8_t>(((left & sets.no).any() ? kNo : 0) |
                                       ((left & sets.yes).any() ? kYes : 0) |
                                       ((left & sets.unknown).any() ? kUnknown : 0));
    }
    case Condition::Kind::all:
      return several(condition, domains, kNo, kYes);
    case Condition::Kind::any:
      return several(condition, domains, kYes, kNo);
  }
  return kAny;
}

std::uint8_t Search::several(const Condition& condition, const Domains& domains, std::uint8_t settling,
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

void Search::narrow(const Condition& comparison, std::uint8_t wanted, Domains& domains) const {
  const TruthSets& sets = truths_.at(&comparison);
  Classes allowed;
  if (wanted & kNo) allowed |= sets.no;
  if (wanted & kYes) allowed |= sets.yes;
  if (wanted & kUnknown) allowed |= sets.unknown;
  domains[sets.fact] &= allowed;
}

Search::Standing Search::look(const Goal& goal, const Domains& domains) const {
  const auto of = [](std::uint8_t may, std::uint8_t wanted) {
    return (may & wanted) == 0 ? Standing::impossible : (may & ~wanted) == 0 ? Standing::met : Standing::open;
  };
  switch (goal.kind) {
    case Goal::Kind::truth:
      return of(possible(*goal.condition, domains), goal.wanted);
    case Goal::Kind::unusable: {
      Standing out = of(possible(available(goal.backend), domains), kNo | kUnknown);
      for (const Constraint& constraint : tree_.constraints)
        if (denies(constraint, goal.backend))
          out = std::min(out, of(possible(constraint.when, domains), kYes | kUnknown));
      if (goal.wanted != 0)
        out = std::min(out, std::max(of(possible(meets_slo(goal.backend), domains), goal.wanted),
                                     of(possible(trial_due(goal.backend), domains), kNo | kUnknown)));
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
Search::Standing Search::inside(const Rule& rule, const Domains& domains) const {
  Standing out = Standing::met;
  for (const Rule& child : rule.rules) out = std::max(out, look(passed(child), domains));
  for (const Target& target : rule.use) out = std::max(out, look(unusable(target.backend), domains));
  if (rule.on_unavailable != OnUnavailable::next) out = Standing::impossible;
  if (!rule.may_miss()) return out;
  for (const Target& target : rule.use) {
    Goals goals;
    misses(rule, target, goals);
    Standing missed = Standing::met;
    for (const Goal& goal : goals) missed = std::max(missed, look(goal, domains));
    out = std::min(out, missed);
  }
  return out;
}

// The ways to meet a goal, as goals each; the first is the likeliest.
std::vector<Goals> Search::ways(const Goal& goal) const {
  std::vector<Goals> out;
  if (goal.kind == Goal::Kind::unusable) {
    out.push_back({truth_of(available(goal.backend), kNo | kUnknown)});
    for (const Constraint& constraint : tree_.constraints)
      if (denies(constraint, goal.backend)) out.push_back({truth_of(constraint.when, kYes | kUnknown)});
    if (goal.wanted != 0)
      out.push_back({truth_of(meets_slo(goal.backend), goal.wanted),
                     truth_of(trial_due(goal.backend), kNo | kUnknown)});
    return out;
  }
  if (goal.kind == Goal::Kind::passed) {
    out.push_back({truth_of(goal.rule->when, kNo | kUnknown)});
    if (goal.rule->on_unavailable == OnUnavailable::next) {
      Goals through;
      for (const Rule& child : goal.rule->rules) through.push_back(passed(child));
      for (const Target& target : goal.rule->use) through.push_back(unusable(target.backend));
      out.push_back(std::move(through));
    }
    if (goal.rule->may_miss())
      for (const Target& target : goal.rule->use) misses(*goal.rule, target, out.emplace_back());
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

}  // namespace flyball::policy
