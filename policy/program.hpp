// A policy laid out for the walk: conditions, rules and targets of every depth in arrays of small rows, in
// the order in which they are asked. Policies ask the same of the same fact in many places: comparisons that
// are the same share a number, under which a decision keeps the answer, and so do targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/rule.hpp"

namespace flyball::policy {

struct Tree;

inline constexpr std::size_t kMaxTargets = 64;  // different ones, each profile counted

struct Program {
  struct Node {  // a condition
    Condition::Kind kind = Condition::Kind::always;
    std::uint32_t question = 0;  // compare: its number
    std::uint32_t end = 0;       // the node behind this one and all inside it
  };
  struct Question {  // what comparisons that are the same ask
    const Condition* comparison = nullptr;
    std::int64_t operand = 0;  // of an integer or boolean fact
    FactId fact = 0;
    Op op = Op::eq;
  };
  struct Ban {                  // a constraint
    std::uint32_t when = 0;     // into nodes
    std::uint64_t numbers = 0;  // a bit for each target that it denies
  };
  struct Step {                  // a rule
    const Rule* rule = nullptr;  // nullptr: the fallback, which moves with its tree
    const Target* use = nullptr;
    std::uint32_t numbers = 0;  // into numbers: of these targets
    std::uint16_t n_targets = 0, depth = 0;
    std::uint32_t when = 0;  // into nodes
    std::uint32_t end = 0;   // the step behind this one and all inside it
    OnUnavailable on_unavailable = OnUnavailable::next;
    Pick pick = Pick::first;
    bool has_rules = false, names_engine = false;
  };

  std::vector<Node> nodes;
  std::vector<const Condition*> conditions;  // of the nodes
  std::vector<Question> questions;           // by number
  std::vector<Ban> bans;
  std::vector<Step> steps;
  Step fallback;
  std::vector<std::uint8_t> numbers;  // of targets
  std::vector<const Target*> targets;  // by number, as it is written first
  std::vector<FactId> first_fact;      // by number: of its facts, which are in the order of TargetFact
  std::uint32_t n_picks = 0;          // steps that pick another one than the first, the fallback counted
  bool asks_delay_to_others = false;  // a step picks by it, or a comparison names it

  // It points into its tree's vectors: it moves with them, and a copy would point into another tree.
  Program() = default;
  Program(Program&&) = default;
  Program& operator=(Program&&) = default;
};

Program compile(const Tree& tree);

}  // namespace flyball::policy
