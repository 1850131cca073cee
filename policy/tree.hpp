// The decision tree as the policy file states it: constraints, an ordered list of rules, a default.
// The first rule whose condition is true decides; there are no priorities and no weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"
#include "policy/facts.hpp"
#include "policy/program.hpp"
#include "policy/target.hpp"

namespace flyball::policy {

enum class Op : std::uint8_t { eq, ne, gt, gte, lt, lte, in, exists };
enum class OnUnavailable : std::uint8_t { next, queue, fail };
std::string_view to_string(Op op) noexcept;  // "gte"
std::string_view to_string(OnUnavailable what) noexcept;

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
  std::vector<Rule> rules;  // nested: tried in order when `when` is true; none true: on to the next sibling
  std::uint32_t line = 0, column = 0;
};

// Hard: a target that any true constraint denies is refused wherever it is named. Unknown counts as true.
struct Constraint {
  std::string id;
  std::string because;
  Condition when;
  std::vector<std::string> deny;  // backend ids; "remote" stands for every upstream
  std::uint32_t line = 0, column = 0;
};
bool denies(const Constraint& constraint, std::string_view backend);

struct TreeSize {  // how much there is at all depths; no path is longer
  std::uint32_t rules = 0, comparisons = 0, targets = 0;
};

struct Tree {
  std::string file;
  std::string text;          // what it was parsed from: a kept decision is replayed with it
  std::uint64_t digest = 0;  // config::digest() of the text
  std::vector<Constraint> constraints;
  std::vector<Rule> rules;
  Rule fallback;  // `default:`, required; its id is "default"
  TreeSize size;
  Program program;  // compile() of it, for decide(): whoever changes a tree compiles it again

  Tree() = default;
  Tree(const Tree& other);  // compiled anew: a program points into its own tree
  Tree(Tree&&) = default;
  Tree& operator=(Tree&&) = default;
};

// config_invalid with file:line:column in Error::where. What lint calls an error is refused too.
Result<Tree> parse_policy(std::string_view yaml, std::string_view file_name);
// The same with every finding, for `flyball check`.
std::expected<Tree, std::vector<Error>> parse_policy_all(std::string_view yaml, std::string_view file_name);
// JSON Schema of policy.yaml, from the table that the parser reads by.
std::string policy_schema();

struct LintFinding {
  enum class Level : std::uint8_t { warning, error } level;
  std::string message, where;
};
// Duplicate ids, rules that can never be reached, targets that are always denied or named twice.
std::vector<LintFinding> lint(const Tree& tree);

}  // namespace flyball::policy
