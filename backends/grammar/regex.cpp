#include "backends/grammar/regex.hpp"

#include <vector>

#include "backends/grammar/grammar.hpp"
#include "backends/grammar/regex_syntax.hpp"

namespace flyball::grammar {
namespace {

// Builds the automaton of a tree. Each node makes at least one state, so that the bound of states is one of
// work, too.
class Builder {
 public:
  Builder(const RegexTree& tree, const RegexOptions& options, Bound bound)
      : tree_(tree), options_(options), bound_(bound) {}

  Result<Dfa> run() {
    for (const auto& set : tree_.sets) {
      auto characters = of_set(set);
      if (!characters) return characters;
      sets_.push_back(*std::move(characters));
    }
    const auto start = nfa_.add(), accept = nfa_.add();
    auto first = start, last = accept;
    if (options_.match == RegexOptions::Match::search) {
      const auto any = of_set(CodePointSet::all());
      if (!any) return any;
      first = nfa_.add();
      last = nfa_.add();
      nfa_.jump(start, first);
      nfa_.words(first, *any, first);
      nfa_.jump(last, accept);
      nfa_.words(last, *any, last);
    }
    if (!add(tree_.root, first, last))
      return fail(ErrorCode::unsupported_value, "The pattern's repetitions expand to more than " +
                                                    std::to_string(bound_.states) +
                                                    " states, or cost more work than a constraint may.");
    return determinize(nfa_, start, accept, bound_);
  }

 private:
  using Kind = RegexNode::Kind;

  // The spellings of a set's members, with as few states as they need: a set that repeats is copied each
  // time.
  Result<Dfa> of_set(const CodePointSet& set) {
    Nfa nfa;
    const auto start = nfa.add(), accept = nfa.add();
    nfa.sequences(start, spell(set, options_.spelling), accept);
    return determinize(nfa, start, accept, bound_);
  }

  bool add(std::uint32_t which, Nfa::State from, Nfa::State to) {
    const RegexNode& node = tree_.nodes[which];
    if (nfa_.states() > bound_.states || !bound_.fuel->spend(4)) return false;
    switch (node.kind) {
      case Kind::set: {
        const Dfa& characters = sets_[node.first];
        if (!bound_.fuel->spend(4 * characters.states.size())) return false;
        nfa_.words(from, characters, to);
        return true;
      }
      case Kind::begin:
        nfa_.jump(from, to, Nfa::When::at_begin);
        return true;
      case Kind::end:
        nfa_.jump(from, to, Nfa::When::at_end);
        return true;
      case Kind::choice:
        for (std::uint32_t i = 0; i < node.count; ++i)
          if (!add(tree_.children[node.first + i], from, to)) return false;
        return true;
      case Kind::sequence: {
        for (std::uint32_t i = 0; i < node.count; ++i) {
          const auto next = nfa_.add();
          if (!add(tree_.children[node.first + i], from, next)) return false;
          from = next;
        }
        nfa_.jump(from, to);
        return true;
      }
      case Kind::repeat:
        return repeat(tree_.children[node.first], node.least, node.most, from, to);
    }
    return false;
  }

  bool repeat(std::uint32_t child, std::uint32_t least, std::uint32_t most, Nfa::State from, Nfa::State to) {
    const auto step = [&] {
      const auto next = nfa_.add();
      if (!add(child, from, next)) return false;
      from = next;
      return true;
    };
    for (std::uint32_t i = 0; i < least; ++i)
      if (!step()) return false;
    if (most == kUnbounded) {
      const auto loop = nfa_.add();
      nfa_.jump(from, loop);
      nfa_.jump(loop, to);
      return add(child, loop, loop);
    }
    nfa_.jump(from, to);
    for (std::uint32_t i = least; i < most; ++i) {
      if (!step()) return false;
      nfa_.jump(from, to);
    }
    return true;
  }

  const RegexTree& tree_;
  const RegexOptions& options_;
  const Bound bound_;
  Nfa nfa_;
  std::vector<Dfa> sets_;  // as the tree's
};

}  // namespace

Result<Dfa> from_regex(std::string_view pattern, const RegexOptions& options, Bound bound) {
  const auto tree = parse_regex(pattern, options.depth);
  if (!tree) return pass(tree);
  return Builder(*tree, options, bound).run();
}

}  // namespace flyball::grammar
