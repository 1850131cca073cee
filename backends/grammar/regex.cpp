#include "backends/grammar/regex.hpp"

#include <algorithm>
#include <optional>
#include <span>
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
    const RegexNode& root = tree_.nodes[tree_.root];
    const std::vector<std::uint32_t> alone{tree_.root};
    const auto branches = root.kind == Kind::choice
                              ? std::span(tree_.children).subspan(root.first, root.count)
                              : std::span<const std::uint32_t>(alone);
    if (std::ranges::none_of(branches, [&](std::uint32_t branch) { return looks_ahead(branch); }))
      return words(alone, true, nullptr);
    Result<Dfa> all = empty_language();
    for (const std::uint32_t branch : branches) {
      const auto one = branch_words(branch);
      all = one ? unite(*all, *one, bound_) : one;
      if (!all) return all;
    }
    return all;
  }

 private:
  using Kind = RegexNode::Kind;

  std::span<const std::uint32_t> parts_of(const std::uint32_t& which) const {
    const RegexNode& node = tree_.nodes[which];
    if (node.kind != Kind::sequence) return {&which, 1};
    return std::span(tree_.children).subspan(node.first, node.count);
  }
  bool is_begin(std::uint32_t which) const { return tree_.nodes[which].kind == Kind::begin; }
  bool is_ahead(std::uint32_t which) const { return tree_.nodes[which].kind == Kind::ahead; }
  bool looks_ahead(std::uint32_t branch) const {
    return std::ranges::any_of(parts_of(branch), [&](std::uint32_t part) { return is_ahead(part); });
  }
  bool begins(std::uint32_t which) const {
    const RegexNode& node = tree_.nodes[which];
    if (node.kind == Kind::begin || node.kind == Kind::set) return node.kind == Kind::begin;
    const auto children = std::span(tree_.children).subspan(node.first, node.count);
    return std::ranges::any_of(children, [&](std::uint32_t child) { return begins(child); });
  }

  std::unexpected<Error> too_large() const {
    return fail(ErrorCode::unsupported_value, "The pattern's repetitions expand to more than " +
                                                  std::to_string(bound_.states) +
                                                  " states, or cost more work than a constraint may.");
  }

  // Words of the parts, one after the other; `behind` them those of another automaton or, without one, what
  // may follow a match. `is_first`: anything may come before where a match is searched for.
  Result<Dfa> words(std::span<const std::uint32_t> parts, bool is_first, const Dfa* behind) {
    nfa_ = Nfa();
    const auto start = nfa_.add(), accept = nfa_.add();
    auto from = start, last = accept;
    const bool searches = options_.match == RegexOptions::Match::search;
    Result<Dfa> any = Dfa();
    if (searches) any = of_set(CodePointSet::all());
    if (!any) return any;
    if (searches && is_first) {
      from = nfa_.add();
      nfa_.jump(start, from);
      nfa_.words(from, *any, from);
    }
    if (behind || searches) {
      last = nfa_.add();
      if (behind) {
        nfa_.words(last, *behind, accept);
      } else {
        nfa_.words(last, *any, last);
        nfa_.jump(last, accept);
      }
    }
    for (const std::uint32_t part : parts) {
      const auto next = nfa_.add();
      if (!add(part, from, next)) return too_large();
      from = next;
    }
    nfa_.jump(from, last);
    return determinize(nfa_, start, accept, bound_);
  }

  // The texts that a lookahead meets: its words with anything behind them.
  Result<Dfa> seen_ahead(std::uint32_t which) {
    auto any = of_set(CodePointSet::all());
    if (!any) return any;
    nfa_ = Nfa();
    const auto start = nfa_.add(), last = nfa_.add(), accept = nfa_.add();
    nfa_.words(last, *any, last);
    nfa_.jump(last, accept);
    if (!add(tree_.children[tree_.nodes[which].first], start, last)) return too_large();
    return determinize(nfa_, start, accept, bound_);
  }

  // From the back: what stands behind a lookahead is cut down to the texts that it lets pass.
  Result<Dfa> branch_words(std::uint32_t branch) {
    const auto parts = parts_of(branch);
    const auto find = [&](auto&& is) {
      return static_cast<std::size_t>(std::ranges::find_if(parts, is) - parts.begin());
    };
    const bool is_whole = options_.match == RegexOptions::Match::whole;
    const std::size_t anchored = is_whole ? 0 : 1 + find([&](std::uint32_t part) { return is_begin(part); });
    const std::size_t wide = find([&](std::uint32_t part) { return !is_begin(part) && !is_ahead(part); });
    std::size_t begin = 0;  // behind the last part with ^
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (begins(parts[i])) begin = i + 1;
    std::optional<Dfa> behind;
    for (std::size_t end = parts.size();;) {
      std::size_t at = end;
      while (at > 0 && !is_ahead(parts[at - 1])) --at;
      auto rest = words(parts.subspan(at, end - at), at == 0, behind ? &*behind : nullptr);
      if (!rest || at == 0) return rest;
      const bool is_at_begin = anchored <= at - 1 && at - 1 <= wide;
      if (!is_at_begin && begin >= at)
        return fail(
            ErrorCode::unsupported_feature,
            "The pattern has ^ in or behind a lookahead that need not stand at the begin of the text.", {},
            "byte 0");
      const auto seen = seen_ahead(parts[at - 1]);
      if (!seen) return seen;
      rest = tree_.nodes[parts[at - 1]].least > 0 ? intersect(*rest, *seen, bound_)
                                                  : subtract(*rest, *seen, bound_);
      if (!rest) return rest;
      behind = *std::move(rest);
      end = at - 1;
    }
  }

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
      case Kind::ahead:
        return false;  // only in the outermost sequences, where branch_words takes it
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
