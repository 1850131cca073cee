// Making and combining automata, within fuel and a number of states. Every Dfa that is returned is trimmed:
// each of its states lies on the way from the first to an accepting one, so a word that was begun can be
// ended. The empty language is the one exception: a single state that does not accept. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/grammar/code_points.hpp"
#include "backends/grammar/dfa.hpp"
#include "backends/grammar/fuel.hpp"
#include "config/error.hpp"

namespace flyball::grammar {

// The cost that one operation may have. Past either bound it fails with unsupported_value.
struct Bound {
  Fuel* fuel;
  std::size_t states = 50'000;
};

// An automaton that may have several ways on. States are added and never removed.
class Nfa {
 public:
  using State = std::uint32_t;
  enum class When : std::uint8_t {
    always,
    at_begin,  // before the first byte of the word
    at_end,    // behind its last
  };

  State add();
  std::size_t states() const noexcept { return states_.size(); }
  void edge(State from, ByteRange bytes, State to);
  // A way without a byte.
  void jump(State from, State to, When when = When::always);
  // Words of the sequences lead from one state to the other; common ends share their states.
  void sequences(State from, std::span<const ByteSequence> words, State to);
  // Words of the automaton do.
  void words(State from, const Dfa& automaton, State to);

 private:
  friend class Determinizer;
  struct Edge {
    ByteRange bytes;
    State to;
    std::uint32_t next;  // edge of the same state, kNone: there is none
  };
  struct Jump {
    State to;
    When when;
    std::uint32_t next;
  };
  struct Node {
    std::uint32_t edges, jumps;
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<Node> states_;
  std::vector<Edge> edges_;
  std::vector<Jump> jumps_;
};

// The words that lead from `start` to `accept`.
Result<Dfa> determinize(const Nfa& nfa, Nfa::State start, Nfa::State accept, Bound bound);

// One character of the set.
Result<Dfa> one_of(const CodePointSet& set, Spelling spelling, Bound bound);

Dfa empty_language();
bool is_empty(const Dfa& a) noexcept;

Result<Dfa> unite(const Dfa& a, const Dfa& b, Bound bound);
Result<Dfa> intersect(const Dfa& a, const Dfa& b, Bound bound);
Result<Dfa> subtract(const Dfa& a, const Dfa& b, Bound bound);  // a complement is universe minus b
Result<Dfa> concatenate(const Dfa& a, const Dfa& b, Bound bound);
// Exactly these words, in any order and however often each is named.
Result<Dfa> from_texts(std::vector<std::string> texts, Bound bound);
// All words, the shortest first; nothing if there are more than `most`.
Result<std::optional<std::vector<std::string>>> words_of(const Dfa& a, std::size_t most, Bound bound);
// The same language with the fewest states. A large automaton is returned as it is: its rounds would cost
// more than its bytes.
Result<Dfa> minimize(Dfa a, Bound bound);

}  // namespace flyball::grammar
