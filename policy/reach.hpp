// Whether there are facts with which the policy chooses a certain target in a certain rule, by search over
// the classes of values that its comparisons can tell apart. Facts are taken as independent of each other:
// "never" holds for every machine, while the facts found for "possible" need not be a machine that exists.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "policy/facts.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {

enum class Reach : std::uint8_t { never, possible, undecided };  // undecided: the search had no end in sight

struct ReachAnswer {
  Reach reach = Reach::undecided;
  Facts facts;  // possible: with these decide() chooses the target in the rule
};

// `rule` and `target` are of the tree; `assumptions` are conditions that hold.
ReachAnswer reach(const Tree& tree, const Rule& rule, const Target& target,
                  const std::vector<Condition>& assumptions);

// "fact=value" as a condition: the fact has that value.
Result<Condition> assumption(std::string_view assignment);

// A proof that nothing with `backend` ("remote": every upstream) is chosen while the assumptions hold, or how
// it is.
struct Proof {
  struct Place {
    const Rule* rule = nullptr;
    const Target* target = nullptr;
    ReachAnswer answer;
  };
  std::size_t places = 0;   // rules' targets of that name
  std::vector<Place> open;  // those that are not shut
  bool holds() const { return open.empty(); }
};
Proof prove_never(const Tree& tree, std::string_view backend, const std::vector<Condition>& assumptions);

// What check says beyond lint(): rules that no facts make decide, and targets that are never chosen. Slower
// than lint().
std::vector<LintFinding> dead_ends(const Tree& tree);

}  // namespace flyball::policy
