// Facts on which goals about conditions, rules and targets are met, by search over the classes of values that
// the comparisons of a policy tell apart; the work behind reach.hpp.
#pragma once

#include <bitset>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/decide.hpp"
#include "policy/facts.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {

// Sets of truth values.
inline constexpr std::uint8_t kNo = 1, kYes = 2, kUnknown = 4, kAny = 7;

struct Goal {
  enum class Kind : std::uint8_t { truth, passed, unusable } kind = Kind::truth;
  const Condition* condition = nullptr;  // truth: one of `wanted`
  std::uint8_t wanted = kAny;
  const Rule* rule = nullptr;     // passed: asked, and did not decide
  std::string_view backend = {};  // unusable: unavailable, denied, or passed over (below)
};
using Goals = std::vector<Goal>;

inline Goal truth_of(const Condition& condition, std::uint8_t wanted) {
  return {Goal::Kind::truth, &condition, wanted, nullptr, {}};
}
inline Goal passed(const Rule& rule) {
  return {Goal::Kind::passed, nullptr, kAny, &rule, {}};
}
// Or, where it can be used, its meets_slo has one of these truth values and no trial of it is due.
inline Goal unusable(std::string_view backend, std::uint8_t or_meets_slo = 0) {
  return {Goal::Kind::unusable, nullptr, or_meets_slo, nullptr, backend};
}

// For one fact of a solution, where the goals leave a choice: its highest value instead of its lowest, or
// unknown rather than any value.
struct Wish {
  FactId fact = 0;
  bool highest = false, unknown = false;
};

class Search {
 public:
  static constexpr std::size_t kMaxClasses = 256;  // of one fact's values; more are not searched
  using Classes = std::bitset<kMaxClasses>;        // 0: unknown; i + 1: the fact's i-th value
  using Domains = std::vector<Classes>;            // by fact, in the order of facts_

  // Compares what the tree and the assumptions compare; both outlive it.
  Search(const Tree& tree, const std::vector<Condition>& assumptions);

  // Adds what makes a target chosen or available where it is considered.
  void usable(std::string_view backend, Goals& goals) const;
  const Condition& meets_slo(std::string_view backend) const { return meets_slo_.find(backend)->second; }
  const Condition& trial_due(std::string_view backend) const { return trial_due_.find(backend)->second; }
  // Adds what makes a rule of pick meets_slo miss the SLO, because the target can be used and is known to,
  // and no trial is due.
  void misses(const Rule& rule, const Target& target, Goals& goals) const;
  // Facts on which all goals are met. nullopt: there are none, or `steps` (goals looked at) is 0 now and it
  // is not known.
  std::optional<Facts> solve(Goals goals, const std::vector<Wish>& wishes, std::size_t& steps) const;

 private:
  enum class Standing : std::uint8_t { met, open, impossible };
  struct TruthSets {  // of one comparison: the classes on which it is no, yes, unknown
    std::size_t fact = 0;
    Classes no, yes, unknown;
  };

  void collect(const Condition& condition);
  void ask_of_each(TargetFact fact, Op op, std::map<std::string_view, Condition>& out);
  void build();
  const Condition& available(std::string_view backend) const { return available_.find(backend)->second; }
  std::optional<Domains> narrowed(Goals goals, Domains domains, std::size_t& steps) const;
  std::uint8_t possible(const Condition& condition, const Domains& domains) const;
  std::uint8_t several(const Condition& condition, const Domains& domains, std::uint8_t settling,
                       std::uint8_t opposite) const;
  void narrow(const Condition& comparison, std::uint8_t wanted, Domains& domains) const;
  Standing look(const Goal& goal, const Domains& domains) const;
  Standing inside(const Rule& rule, const Domains& domains) const;
  std::vector<Goals> ways(const Goal& goal) const;

  const Tree& tree_;
  std::map<std::string_view, Condition> available_;                   // by backend: it is
  std::map<std::string_view, Condition> meets_slo_, expected_total_;  // by backend: it does; it is known
  std::map<std::string_view, Condition> trial_due_;                   // by backend: it is
  std::map<std::string_view, Condition> delay_to_others_;             // by backend: it is known
  std::vector<const Condition*> comparisons_;
  std::vector<FactId> facts_;                   // those that are compared
  std::vector<std::vector<FactValue>> values_;  // by fact, in the order of facts_
  std::unordered_map<const Condition*, TruthSets> truths_;
  bool too_many_ = false;  // values of a fact
};

}  // namespace flyball::policy
