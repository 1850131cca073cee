// Whether there are facts with which the policy comes to a certain target in a certain rule, by search over
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

// What is asked of the target: to be chosen, or to be chosen or available, which is what a request may be
// sent to (where the engine that was chosen cannot be had, it goes on to the alternatives).
enum class Role : std::uint8_t { chosen, tried };

struct ReachAnswer {
  Reach reach = Reach::undecided;
  Facts facts;  // possible: with these decide() gives the target that role
};

// `rule` and `target` are of the tree; `assumptions` are conditions that hold.
ReachAnswer reach(const Tree& tree, const Rule& rule, const Target& target, Role role,
                  const std::vector<Condition>& assumptions);

// "fact=value" as a condition: the fact has that value.
Result<Condition> assumption(std::string_view assignment, const Targets& targets = default_targets());

// A proof that no request is sent to `backend` (an instance, all of a kind, or "remote": every upstream), as
// first choice or alternative, while the assumptions hold, or how one is.
struct Proof {
  struct Place {
    const Rule* rule = nullptr;
    const Target* target = nullptr;
    ReachAnswer answer;
  };
  bool possible = true;     // there are facts that meet the assumptions: without them a proof says nothing
  std::size_t places = 0;   // rules' targets of that name
  std::vector<Place> open;  // those that are not shut
  bool holds() const { return open.empty(); }
};
Proof prove_never(const Tree& tree, std::string_view backend, const std::vector<Condition>& assumptions);

// What check says beyond lint(): rules that no facts make decide, targets that are never chosen, and how many
// targets the search gave up on. Slower than lint(): some seconds at most.
std::vector<LintFinding> dead_ends(const Tree& tree);

}  // namespace flyball::policy
