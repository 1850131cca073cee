// The decision tree as the policy file states it: constraints, an ordered list of rules, a default.
// The first rule whose condition is true decides; there are no priorities and no weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"
#include "policy/profile.hpp"
#include "policy/program.hpp"
#include "policy/rule.hpp"

namespace flyball::policy {

struct TreeSize {  // how much there is at all depths; no path is longer
  std::uint32_t rules = 0, comparisons = 0, targets = 0;
};

// Made by the parser and not changed any more. Its program points into it: it moves and is never copied;
// whoever shares one holds it behind a pointer.
struct Tree {
  std::string file;
  std::string text;          // what it was parsed from: a kept decision is replayed with it
  std::uint64_t digest = 0;  // config::digest() of the text
  std::vector<Constraint> constraints;
  std::vector<Profile> profiles;  // as the file defines them; empty: profiles set nothing
  std::vector<Rule> rules;
  Rule fallback;    // `default:`, required; its id is "default"
  Targets targets;  // what its facts and targets are looked up in; never null in a tree that was parsed
  TreeSize size;
  Program program;  // compile() of it, for decide()
};

// config_invalid with file:line:column in Error::where. What lint calls an error is refused too. The tree's
// targets are these, and the engines of their own that its rules name.
Result<Tree> parse_policy(std::string_view yaml, std::string_view file_name,
                          const Targets& targets = default_targets());
// The same with every finding, for `flyball check`.
std::expected<Tree, std::vector<Error>> parse_policy_all(std::string_view yaml, std::string_view file_name,
                                                         const Targets& targets = default_targets());
// JSON Schema of policy.yaml, from the table that the parser reads by.
std::string policy_schema(const TargetCatalogue& targets = *default_targets());

struct LintFinding {
  enum class Level : std::uint8_t { warning, error } level;
  std::string message, where;
};
// Duplicate ids, rules that can never be reached, targets that are always denied or named twice.
std::vector<LintFinding> lint(const Tree& tree);

}  // namespace flyball::policy
