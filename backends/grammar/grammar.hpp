// A grammar of bytes: the one form that every constraint of an answer takes, whatever it was written in (JSON
// Schema, a regular expression, GBNF, a list of choices). It knows no vocabulary. The daemon makes it and
// refuses what it cannot make; a worker plays it against its model's tokens (backends/constrain). Pure.
#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/grammar/dfa.hpp"

namespace flyball::grammar {

// Indices of a Grammar's nodes and rules.
enum class NodeId : std::uint32_t {};
enum class RuleId : std::uint32_t {};

inline constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();

enum class Kind : std::uint8_t {
  text,      // these bytes, perhaps none
  bytes,     // one byte of a set
  dfa,       // a word of an automaton
  rule,      // a word of the rule
  sequence,  // a word of each child, in their order
  choice,    // a word of one child; of none where it has none
  repeat,    // `least` to `most` words of the one child
};

struct Node {
  Kind kind = Kind::text;
  std::uint32_t index = 0;             // of the text, set, automaton or rule
  std::uint32_t first = 0, count = 0;  // its children
  std::uint32_t least = 0, most = 0;   // of repeat; `most` may be kUnbounded
};

// Nodes are added children first, so that there is no cycle but through rules; a rule is declared before it
// is used and defined at any time before the grammar is played. Rule 0 is where a word begins.
class Grammar {
 public:
  NodeId text(std::string_view bytes);
  NodeId bytes(const ByteSet& set);
  NodeId dfa(Dfa automaton);
  NodeId rule(RuleId which);
  NodeId sequence(std::span<const NodeId> children);
  NodeId choice(std::span<const NodeId> children);
  NodeId repeat(NodeId child, std::uint32_t least, std::uint32_t most);  // least <= most
  NodeId optional(NodeId child) { return repeat(child, 0, 1); }

  RuleId declare(std::string name);  // for messages; need not be unique
  void define(RuleId which, NodeId body);
  // Adds the rules of another grammar. Returns the one where that grammar's words begin.
  RuleId include(const Grammar& other);

  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  std::span<const NodeId> children(const Node& of) const { return {children_.data() + of.first, of.count}; }
  std::string_view text_of(const Node& of) const { return texts_[of.index]; }
  const ByteSet& set_of(const Node& of) const { return sets_[of.index]; }
  const Dfa& dfa_of(const Node& of) const { return dfas_[of.index]; }
  RuleId rule_of(const Node& of) const { return static_cast<RuleId>(of.index); }
  std::size_t rules() const noexcept { return rules_.size(); }
  bool is_defined(RuleId which) const { return rules_[static_cast<std::size_t>(which)].defined; }
  NodeId body(RuleId which) const { return rules_[static_cast<std::size_t>(which)].body; }
  const std::string& name(RuleId which) const { return rules_[static_cast<std::size_t>(which)].name; }
  std::size_t nodes() const noexcept { return nodes_.size(); }
  // Bytes of all nodes, texts, automata and names.
  std::size_t memory() const noexcept { return memory_; }

 private:
  struct Rule {
    std::string name;
    NodeId body{};
    bool defined = false;
  };
  NodeId add(Node node);
  NodeId add_parent(Kind kind, std::span<const NodeId> children);

  std::vector<Node> nodes_;
  std::vector<NodeId> children_;
  std::vector<std::string> texts_;
  std::vector<ByteSet> sets_;
  std::vector<Dfa> dfas_;
  std::vector<Rule> rules_;
  std::size_t memory_ = 0;
};

}  // namespace flyball::grammar
