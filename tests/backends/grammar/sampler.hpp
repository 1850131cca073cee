// Random words of a grammar: at each choice a random way, and where the word grows long, the shortest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backends/grammar/grammar.hpp"

namespace flyball::grammar {

class Sampler {
 public:
  explicit Sampler(const Grammar& grammar) : grammar_(grammar), shortest_(grammar.nodes(), kNone) {
    for (std::size_t i = 0; i < grammar.nodes(); ++i) {
      dfas_.emplace_back();
      const Node& node = grammar.node(static_cast<NodeId>(i));
      if (node.kind == Kind::dfa) dfas_.back() = distances(grammar.dfa_of(node));
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < shortest_.size(); ++i) {
        const std::uint64_t now = shortest(static_cast<NodeId>(i));
        changed |= now < shortest_[i];
        shortest_[i] = std::min(shortest_[i], now);
      }
    }
  }

  // About `size` bytes, or as many as the shortest ways need from there on.
  std::string word(std::mt19937& random, std::size_t size) {
    out_.clear();
    size_ = size;
    write(grammar_.body(RuleId{0}), random);
    return out_;
  }

 private:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint32_t>::max();

  static std::vector<std::uint64_t> distances(const Dfa& dfa) {
    std::vector<std::uint64_t> out(dfa.states.size(), kNone);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t s = dfa.states.size(); s-- > 0;) {
        std::uint64_t now = dfa.states[s].accepting ? 0 : kNone;
        for (std::uint32_t e = 0; e < dfa.states[s].count; ++e)
          now = std::min(now, out[dfa.edges[dfa.states[s].first + e].next] + 1);
        changed |= now < out[s];
        out[s] = std::min(out[s], now);
      }
    }
    return out;
  }

  std::uint64_t shortest(NodeId id) const {
    const Node& node = grammar_.node(id);
    const auto of = [&](NodeId child) { return shortest_[static_cast<std::size_t>(child)]; };
    std::uint64_t n = 0;
    switch (node.kind) {
      case Kind::text:
        return grammar_.text_of(node).size();
      case Kind::bytes:
        return 1;
      case Kind::dfa:
        return dfas_[static_cast<std::size_t>(id)][0];
      case Kind::rule:
        n = of(grammar_.body(grammar_.rule_of(node)));
        break;
      case Kind::sequence:
        for (const NodeId child : grammar_.children(node)) n += of(child);
        break;
      case Kind::choice:
        n = kNone;
        for (const NodeId child : grammar_.children(node)) n = std::min(n, of(child));
        break;
      case Kind::repeat:
        n = node.least * of(grammar_.children(node)[0]);
        break;
    }
    // A rule that a word goes through costs something, so that the shortest ways end.
    return std::min(n + (node.kind == Kind::rule), kNone);
  }

  bool is_long() const { return out_.size() >= size_; }

  void write(NodeId id, std::mt19937& random) {
    const Node& node = grammar_.node(id);
    const auto children = grammar_.children(node);
    switch (node.kind) {
      case Kind::text:
        out_ += grammar_.text_of(node);
        break;
      case Kind::bytes: {
        unsigned byte = random() % 256;
        while (!grammar_.set_of(node)[byte]) byte = (byte + 1) % 256;
        out_ += static_cast<char>(byte);
        break;
      }
      case Kind::dfa:
        write(grammar_.dfa_of(node), dfas_[static_cast<std::size_t>(id)], random);
        break;
      case Kind::rule:
        write(grammar_.body(grammar_.rule_of(node)), random);
        break;
      case Kind::sequence:
        for (const NodeId child : children) write(child, random);
        break;
      case Kind::choice: {
        NodeId child = children[random() % children.size()];
        if (is_long())
          child = *std::ranges::min_element(children, {}, [&](NodeId each) { return shortest(each); });
        write(child, random);
        break;
      }
      case Kind::repeat:
        for (std::uint32_t n = 0; n < node.most && (n < node.least || (!is_long() && random() % 3)); ++n)
          write(children[0], random);
        break;
    }
  }

  void write(const Dfa& dfa, const std::vector<std::uint64_t>& distance, std::mt19937& random) {
    const std::size_t begin = out_.size();
    for (std::uint32_t s = 0;;) {
      const auto& state = dfa.states[s];
      if (state.accepting && (state.count == 0 || is_long() || random() % 6 == 0)) return;
      std::uint32_t pick = random() % state.count;
      if (is_long() || out_.size() - begin > 40)
        for (std::uint32_t e = 0; e < state.count; ++e)
          if (distance[dfa.edges[state.first + e].next] < distance[dfa.edges[state.first + pick].next])
            pick = e;
      const auto& edge = dfa.edges[state.first + pick];
      out_ += static_cast<char>(edge.from + random() % (edge.to - edge.from + 1u));
      s = edge.next;
    }
  }

  const Grammar& grammar_;
  std::vector<std::uint64_t> shortest_;
  std::vector<std::vector<std::uint64_t>> dfas_;
  std::string out_;
  std::size_t size_ = 0;
};

}  // namespace flyball::grammar
