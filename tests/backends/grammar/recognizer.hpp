// Whether a word is of a grammar, by the definition: each node of the grammar at each place of the word has
// the set of places where its words end. Slow, and independent of the automaton that plays grammars.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "backends/grammar/grammar.hpp"

namespace flyball::grammar {

class Recognizer {
 public:
  Recognizer(const Grammar& grammar, std::string_view word) : grammar_(grammar), word_(word) {}

  bool accepts() { return ends(grammar_.body(RuleId{0}), 0).contains(word_.size()); }

 private:
  using Ends = std::set<std::size_t>;

  // Grammars of the tests have no left recursion, so a node is never asked for at a place where it is being
  // answered.
  const Ends& ends(NodeId id, std::size_t at) {
    const std::pair key(static_cast<std::uint32_t>(id), at);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    Ends found = find(grammar_.node(id), at);
    return known_.emplace(key, std::move(found)).first->second;
  }

  Ends after(const Ends& places, NodeId id) {
    Ends out;
    for (const std::size_t place : places) {
      const Ends& more = ends(id, place);
      out.insert(more.begin(), more.end());
    }
    return out;
  }

  Ends find(const Node& node, std::size_t at) {
    Ends out;
    switch (node.kind) {
      case Kind::text: {
        const auto text = grammar_.text_of(node);
        if (word_.substr(at).starts_with(text)) out.insert(at + text.size());
        break;
      }
      case Kind::bytes:
        if (at < word_.size() && grammar_.set_of(node)[static_cast<unsigned char>(word_[at])])
          out.insert(at + 1);
        break;
      case Kind::dfa: {
        const Dfa& dfa = grammar_.dfa_of(node);
        std::uint32_t state = 0;
        for (;; ++at) {
          if (dfa.states[state].accepting) out.insert(at);
          if (at == word_.size()) break;
          const auto next = dfa.next(state, static_cast<std::uint8_t>(word_[at]));
          if (!next) break;
          state = *next;
        }
        break;
      }
      case Kind::rule:
        return ends(grammar_.body(grammar_.rule_of(node)), at);
      case Kind::sequence:
        out.insert(at);
        for (const NodeId child : grammar_.children(node)) out = after(out, child);
        break;
      case Kind::choice:
        for (const NodeId child : grammar_.children(node)) {
          const Ends& more = ends(child, at);
          out.insert(more.begin(), more.end());
        }
        break;
      case Kind::repeat: {
        const NodeId child = grammar_.children(node)[0];
        Ends places{at};
        if (node.least == 0) out.insert(at);
        for (std::uint32_t n = 1; n <= node.most && !places.empty(); ++n) {
          Ends next = after(places, child);
          // Beyond the least, only places that are new can lead anywhere.
          if (n > node.least) std::erase_if(next, [&](std::size_t place) { return out.contains(place); });
          if (n >= node.least) out.insert(next.begin(), next.end());
          if (n < node.least && next == places) n = node.least - 1;  // of the empty word there are enough
          places = std::move(next);
        }
        break;
      }
    }
    return out;
  }

  const Grammar& grammar_;
  const std::string_view word_;
  std::map<std::pair<std::uint32_t, std::size_t>, Ends> known_;
};

}  // namespace flyball::grammar
