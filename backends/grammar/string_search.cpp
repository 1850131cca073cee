#include "backends/grammar/string_search.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/grammar/code_points.hpp"

namespace flyball::grammar {
namespace {

constexpr std::uint32_t kNoString = std::numeric_limits<std::uint32_t>::max();

}  // namespace

Result<Dfa> any_text(Bound bound) {
  Nfa nfa;
  const auto start = nfa.add(), end = nfa.add();
  nfa.sequences(start, spell(CodePointSet::all(), Spelling::utf8), end);
  nfa.jump(end, start);
  nfa.jump(start, end);
  return determinize(nfa, start, end, bound);
}

Result<StringSearch> StringSearch::of(std::vector<std::string> strings, Bound bound) {
  // States of the trie are in the order of their depth, so that shorter ends are done first.
  const auto trie = from_texts(strings, bound);
  if (!trie) return pass(trie);
  const std::size_t n = trie->states.size();
  StringSearch out;
  out.strings_ = std::move(strings);
  out.found_.assign(n, kNoString);
  out.shorter_.assign(n, 0);
  for (std::uint32_t i = 0; i < out.strings_.size(); ++i) {
    std::uint32_t state = 0;
    for (const char byte : out.strings_[i]) state = *trie->next(state, static_cast<std::uint8_t>(byte));
    out.ends_.push_back(state);
    out.found_[state] = i;
  }
  Dfa& automaton = out.automaton_;
  for (std::uint32_t s = 0; s < n; ++s) {
    const auto first = static_cast<std::uint32_t>(automaton.edges.size());
    const std::uint32_t shorter = out.shorter_[s];
    if (s > 0 && out.found_[s] == kNoString) out.found_[s] = out.found_[shorter];
    const Dfa::State& grown = trie->states[s];
    std::vector<Dfa::Edge> others{{0, 255, 0}};
    if (s > 0) {
      const auto begin = automaton.edges.begin() + automaton.states[shorter].first;
      others.assign(begin, begin + automaton.states[shorter].count);
    }
    if (!bound.fuel->spend(8 + 4 * (others.size() + grown.count)))
      return fail(ErrorCode::unsupported_value, "The strings take more work than one constraint may cost.");
    // A byte that continues a string leads there; any other one leads where it does behind the shorter end.
    std::uint32_t e = grown.first;
    const std::uint32_t last = grown.first + grown.count;
    for (const Dfa::Edge& other : others) {
      unsigned from = other.from;
      for (; e < last && trie->edges[e].from <= other.to; ++e) {
        const Dfa::Edge& edge = trie->edges[e];
        if (from < edge.from)
          automaton.edges.push_back(
              {static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(edge.from - 1), other.next});
        automaton.edges.push_back(edge);
        if (s > 0) out.shorter_[edge.next] = other.next;
        from = edge.from + 1u;
      }
      if (from <= other.to)
        automaton.edges.push_back({static_cast<std::uint8_t>(from), other.to, other.next});
    }
    if (out.found_[s] != kNoString) automaton.edges.resize(first);
    automaton.states.push_back({first, static_cast<std::uint32_t>(automaton.edges.size()) - first, false});
  }
  return out;
}

std::optional<std::size_t> StringSearch::within(std::size_t i) const {
  std::uint32_t state = 0;
  for (const char byte : strings_[i]) {
    if (found_[state] != kNoString) return found_[state];
    state = *automaton_.next(state, static_cast<std::uint8_t>(byte));
  }
  if (found_[state] != i) return found_[state];
  if (const std::uint32_t inner = found_[shorter_[state]]; inner != kNoString) return inner;
  return std::nullopt;
}

bool StringSearch::may_overlap() const noexcept {
  return std::ranges::any_of(ends_, [&](std::uint32_t end) { return shorter_[end] != 0; });
}

bool StringSearch::meets(std::string_view text) const {
  std::uint32_t state = 0;
  for (const char byte : text) {
    state = *automaton_.next(state, static_cast<std::uint8_t>(byte));
    if (found_[state] != kNoString) return true;
  }
  return state != 0;
}

Result<Dfa> StringSearch::texts(bool with_string, Bound bound) const {
  const auto all = any_text(bound);
  if (!all) return all;
  Dfa bytes = automaton_;
  for (std::size_t s = 0; s < bytes.states.size(); ++s)
    bytes.states[s].accepting = (found_[s] != kNoString) == with_string;
  return intersect(bytes, *all, bound);
}

Result<Dfa> StringSearch::texts_without(Bound bound) const {
  return texts(false, bound);
}
Result<Dfa> StringSearch::texts_up_to(Bound bound) const {
  return texts(true, bound);
}

}  // namespace flyball::grammar
