#include "policy/program.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "policy/tree.hpp"

namespace flyball::policy {
namespace {

static_assert(TargetFact::available == TargetFact{},
              "the first fact of a target says whether it can be used");

class Compiler {
 public:
  explicit Compiler(const Tree& tree) : tree_(tree) {}

  Program run() {
    for (const Constraint& constraint : tree_.constraints) out_.bans.push_back({add(constraint.when)});
    for (const Rule& rule : tree_.rules) add(rule, 0);
    out_.fallback = step(tree_.fallback, 0);
    out_.fallback.rule = nullptr;
    for (const Target* target : targets_)
      out_.first_fact.push_back(tree_.targets->fact_of(target->backend, TargetFact::available));
    for (std::size_t i = 0; i < out_.bans.size(); ++i)
      for (std::size_t number = 0; number < targets_.size(); ++number)
        if (denies(tree_.constraints[i], targets_[number]->backend))
          out_.bans[i].numbers |= std::uint64_t{1} << number;
    out_.targets = std::move(targets_);
    out_.asks_delay_to_others |= std::ranges::any_of(out_.questions, [&](const Program::Question& question) {
      return std::ranges::any_of(tree_.targets->names(), [&](std::string_view name) {
        return question.fact == tree_.targets->fact_of(name, TargetFact::expected_delay_to_others);
      });
    });
    return std::move(out_);
  }

 private:
  void add(const Rule& rule, std::uint16_t depth) {
    const std::size_t at = out_.steps.size();
    out_.steps.push_back(step(rule, depth));
    out_.steps[at].when = add(rule.when);
    for (const Rule& child : rule.rules) add(child, static_cast<std::uint16_t>(depth + 1));
    out_.steps[at].end = static_cast<std::uint32_t>(out_.steps.size());
  }

  Program::Step step(const Rule& rule, std::uint16_t depth) {
    Program::Step out;
    out.rule = &rule;
    out.use = rule.use.data();
    out.numbers = static_cast<std::uint32_t>(out_.numbers.size());
    out.n_targets = static_cast<std::uint16_t>(rule.use.size());
    out.depth = depth;
    out.on_unavailable = rule.on_unavailable;
    out.pick = rule.pick;
    out_.n_picks += rule.pick != Pick::first;
    out_.asks_delay_to_others |= rule.pick == Pick::considerate;
    out.has_rules = !rule.rules.empty();
    out.names_engine = !rule.engine.empty();
    for (const Target& target : rule.use) out_.numbers.push_back(number(target));
    return out;
  }

  std::uint8_t number(const Target& target) {
    const auto same = [&](const Target* other) { return other->same_as(target); };
    const auto at = std::ranges::find_if(targets_, same);
    const auto place = static_cast<std::uint8_t>(at - targets_.begin());
    if (at == targets_.end()) targets_.push_back(&target);
    if (targets_.size() > kMaxTargets) std::abort();  // the parser counts them
    return place;
  }

  std::uint32_t add(const Condition& condition) {
    const auto at = static_cast<std::uint32_t>(out_.nodes.size());
    Program::Node& node = out_.nodes.emplace_back();
    node.kind = condition.kind;
    if (condition.kind == Condition::Kind::compare) node.question = question(condition);
    out_.conditions.push_back(&condition);
    for (const Condition& child : condition.children) add(child);
    out_.nodes[at].end = static_cast<std::uint32_t>(out_.nodes.size());
    return at;
  }

  std::uint32_t question(const Condition& comparison) {
    const auto next = static_cast<std::uint32_t>(out_.questions.size());
    const auto [at, is_new] =
        questions_.try_emplace({comparison.fact, comparison.op, comparison.operand}, next);
    if (is_new) out_.questions.push_back({&comparison, 0, comparison.fact, comparison.op});
    if (const auto* integer = std::get_if<std::int64_t>(&comparison.operand))
      out_.questions[at->second].operand = *integer;
    if (const auto* flag = std::get_if<bool>(&comparison.operand)) out_.questions[at->second].operand = *flag;
    return at->second;
  }

  const Tree& tree_;
  Program out_;
  std::map<std::tuple<FactId, Op, FactValue>, std::uint32_t> questions_;
  std::vector<const Target*> targets_;  // by number
};

}  // namespace

Program compile(const Tree& tree) {
  return Compiler(tree).run();
}

}  // namespace flyball::policy
