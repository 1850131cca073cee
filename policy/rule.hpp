// What a policy file says, piece by piece: conditions over facts, rules, constraints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/facts.hpp"
#include "policy/target.hpp"

namespace flyball::policy {

enum class Op : std::uint8_t { eq, ne, gt, gte, lt, lte, in, exists };
enum class OnUnavailable : std::uint8_t { next, queue, fail };
// The choice among a rule's available targets: the first listed, the one with the least expected total, the
// first that should hold the app's SLO, or the one with the least expected delay to others. Without
// predictions each of them is `first`. All but `first` give way to a target listed before theirs whose trial
// is due.
enum class Pick : std::uint8_t { first, fastest, meets_slo, considerate };
// For meets_slo: what happens when no available target should hold it.
enum class OnSloMiss : std::uint8_t { next, fastest, first };
// The course of a request whose chosen target is an engine of this machine that has not loaded the model: the
// request waits, or its answer begins at a loaded target that it may be sent to, and goes on at the chosen
// one.
enum class OnCold : std::uint8_t { wait, start_elsewhere };
std::string_view to_string(Op op) noexcept;  // "gte"
std::string_view to_string(OnUnavailable what) noexcept;
std::string_view to_string(Pick pick) noexcept;
std::string_view to_string(OnSloMiss what) noexcept;
std::string_view to_string(OnCold what) noexcept;

struct Condition {
  enum class Kind : std::uint8_t { always, all, any, negation, compare } kind = Kind::always;
  std::vector<Condition> children;  // all, any; negation has one
  FactId fact = 0;                  // compare
  Op op = Op::eq;
  FactValue operand;  // `in`: a text_list
  std::uint32_t line = 0, column = 0;
};

struct Rule {
  std::string id;
  std::string because;  // why, in a sentence; shown in every receipt
  std::string source;   // the document it comes from, "" if none
  Condition when;
  std::string engine;  // id in the engine catalogue: what the source would take; "" if it names none
  std::vector<Target>
      use;  // in order of preference; empty where `rules` is not, and in advice (engine alone)
  OnUnavailable on_unavailable = OnUnavailable::next;
  Pick pick = Pick::first;
  OnSloMiss on_slo_miss = OnSloMiss::next;  // of the default: fastest or first
  OnCold on_cold = OnCold::wait;
  // True, and with targets that can be used, it may still not decide.
  bool may_miss() const { return pick == Pick::meets_slo && on_slo_miss == OnSloMiss::next; }
  std::vector<Rule> rules;  // nested: tried in order when `when` is true; none true: on to the next sibling
  std::uint32_t line = 0, column = 0;
};

// Hard: a target that any true constraint denies is refused wherever it is named. Unknown counts as true.
struct Constraint {
  std::string id;
  std::string because;
  Condition when;
  std::vector<std::string> deny;    // as it is written: ids, kinds, "remote"
  std::vector<std::string> denied;  // ids of the instances that these mean
  std::uint32_t line = 0, column = 0;
};
bool denies(const Constraint& constraint, std::string_view backend);

}  // namespace flyball::policy
