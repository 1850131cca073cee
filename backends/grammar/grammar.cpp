#include "backends/grammar/grammar.hpp"

#include <array>
#include <utility>

namespace flyball::grammar {

NodeId Grammar::add(Node node) {
  nodes_.push_back(node);
  memory_ += sizeof(Node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Grammar::add_parent(Kind kind, std::span<const NodeId> children) {
  const auto first = static_cast<std::uint32_t>(children_.size());
  children_.insert(children_.end(), children.begin(), children.end());
  memory_ += children.size() * sizeof(NodeId);
  return add({.kind = kind, .first = first, .count = static_cast<std::uint32_t>(children.size())});
}

NodeId Grammar::text(std::string_view bytes) {
  texts_.emplace_back(bytes);
  memory_ += bytes.size() + sizeof(std::string);
  return add({.kind = Kind::text, .index = static_cast<std::uint32_t>(texts_.size() - 1)});
}

NodeId Grammar::bytes(const ByteSet& set) {
  sets_.push_back(set);
  memory_ += sizeof(ByteSet);
  return add({.kind = Kind::bytes, .index = static_cast<std::uint32_t>(sets_.size() - 1)});
}

NodeId Grammar::dfa(Dfa automaton) {
  memory_ += automaton.memory();
  dfas_.push_back(std::move(automaton));
  return add({.kind = Kind::dfa, .index = static_cast<std::uint32_t>(dfas_.size() - 1)});
}

NodeId Grammar::rule(RuleId which) {
  return add({.kind = Kind::rule, .index = static_cast<std::uint32_t>(which)});
}

NodeId Grammar::sequence(std::span<const NodeId> children) {
  return add_parent(Kind::sequence, children);
}
NodeId Grammar::choice(std::span<const NodeId> children) {
  return add_parent(Kind::choice, children);
}

NodeId Grammar::repeat(NodeId child, std::uint32_t least, std::uint32_t most) {
  const NodeId id = add_parent(Kind::repeat, std::array{child});
  Node& node = nodes_.back();
  node.least = least;
  node.most = most;
  return id;
}

RuleId Grammar::declare(std::string name) {
  memory_ += sizeof(Rule) + name.size();
  rules_.push_back({std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

void Grammar::define(RuleId which, NodeId body) {
  Rule& rule = rules_[static_cast<std::size_t>(which)];
  rule.body = body;
  rule.defined = true;
}

RuleId Grammar::include(const Grammar& other) {
  const auto at = [](const auto& these) { return static_cast<std::uint32_t>(these.size()); };
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  const std::uint32_t node = at(nodes_), child = at(children_), text = at(texts_), set = at(sets_),
                      dfa = at(dfas_), rule = at(rules_);
  const auto moved = [node](NodeId id) { return static_cast<NodeId>(static_cast<std::uint32_t>(id) + node); };
  for (Node one : other.nodes_) {
    one.first += child;
    if (one.kind == Kind::text) one.index += text;
    if (one.kind == Kind::bytes) one.index += set;
    if (one.kind == Kind::dfa) one.index += dfa;
    if (one.kind == Kind::rule) one.index += rule;
    nodes_.push_back(one);
  }
  for (const NodeId id : other.children_) children_.push_back(moved(id));
  append(texts_, other.texts_);
  append(sets_, other.sets_);
  append(dfas_, other.dfas_);
  for (Rule one : other.rules_) {
    one.body = moved(one.body);
    rules_.push_back(std::move(one));
  }
  memory_ += other.memory_;
  return static_cast<RuleId>(rule);
}

}  // namespace flyball::grammar
