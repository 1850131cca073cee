#include "backends/grammar/automata.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

namespace flyball::grammar {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};
// Rounds of minimize are at most as many as states, so this bounds their product.
constexpr std::size_t kMostMinimized = 512;
// Steps that finding or adding a state in the table takes, as measured: most of the time goes to its memory.
constexpr std::uint64_t kStateSteps = 20;

std::unexpected<Error> out_of_fuel() {
  return fail(ErrorCode::unsupported_value, "The constraint takes more work than one constraint may cost.");
}

std::unexpected<Error> too_many_states(std::size_t most) {
  return fail(ErrorCode::unsupported_value,
              "The constraint needs an automaton of more than " + std::to_string(most) + " states.");
}

struct Numbers {
  std::size_t operator()(const std::vector<std::uint32_t>& numbers) const noexcept {
    std::size_t hash = numbers.size();
    for (const std::uint32_t n : numbers) hash = (hash ^ n) * 0x9E3779B97F4A7C15ull;
    return hash ^ hash >> 32;
  }
};

// States on no way from the first to an accepting one are dropped; edges that continue each other become one.
Dfa trim(const Dfa& a) {
  const std::size_t n = a.states.size();
  std::vector<std::uint32_t> first(n + 1, 0), back(a.edges.size());
  for (const auto& edge : a.edges) ++first[edge.next + 1];
  for (std::size_t i = 0; i < n; ++i) first[i + 1] += first[i];
  std::vector<std::uint32_t> fill(first.begin(), first.end() - 1);
  for (std::uint32_t s = 0; s < n; ++s)
    for (std::uint32_t e = a.states[s].first; e < a.states[s].first + a.states[s].count; ++e)
      back[fill[a.edges[e].next]++] = s;
  std::vector<bool> useful(n, false);
  std::vector<std::uint32_t> stack;
  for (std::uint32_t s = 0; s < n; ++s)
    if (a.states[s].accepting) {
      useful[s] = true;
      stack.push_back(s);
    }
  while (!stack.empty()) {
    const std::uint32_t s = stack.back();
    stack.pop_back();
    for (std::uint32_t i = first[s]; i < first[s + 1]; ++i)
      if (!useful[back[i]]) {
        useful[back[i]] = true;
        stack.push_back(back[i]);
      }
  }
  if (!useful[0]) return empty_language();

  Dfa out;
  std::vector<std::uint32_t> number(n, kNone), order{0};
  number[0] = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& state = a.states[order[i]];
    const auto begin = static_cast<std::uint32_t>(out.edges.size());
    for (std::uint32_t e = state.first; e < state.first + state.count; ++e) {
      const auto& edge = a.edges[e];
      if (!useful[edge.next]) continue;
      if (number[edge.next] == kNone) {
        number[edge.next] = static_cast<std::uint32_t>(order.size());
        order.push_back(edge.next);
      }
      const std::uint32_t to = number[edge.next];
      if (out.edges.size() > begin && out.edges.back().next == to && out.edges.back().to + 1 == edge.from)
        out.edges.back().to = edge.to;
      else
        out.edges.push_back({edge.from, edge.to, to});
    }
    out.states.push_back({begin, static_cast<std::uint32_t>(out.edges.size()) - begin, state.accepting});
  }
  return out;
}

// Pairs of states, walked together. `keep` says whether a pair accepts; a side that has ended is kNone.
template <class Keep>
Result<Dfa> product(const Dfa& a, const Dfa& b, bool needs_a, bool needs_b, Keep keep, Bound bound) {
  Dfa out;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  const auto number = [&](std::uint32_t s, std::uint32_t t) {
    const auto [at, is_new] =
        numbers.try_emplace(std::uint64_t{s} << 32 | t, static_cast<std::uint32_t>(pairs.size()));
    if (is_new) pairs.emplace_back(s, t);
    return at->second;
  };
  const auto edges_of = [](const Dfa& dfa, std::uint32_t s) {
    return s == kNone ? std::span<const Dfa::Edge>()
                      : std::span(dfa.edges).subspan(dfa.states[s].first, dfa.states[s].count);
  };
  number(0, 0);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto [s, t] = pairs[i];
    const auto first = static_cast<std::uint32_t>(out.edges.size());
    const auto left = edges_of(a, s), right = edges_of(b, t);
    if (!bound.fuel->spend(kStateSteps + 4 * (left.size() + right.size()))) return out_of_fuel();
    std::size_t l = 0, r = 0;
    unsigned at = 0;
    while (l < left.size() || r < right.size()) {
      if (l < left.size() && left[l].to < at) {
        ++l;
        continue;
      }
      if (r < right.size() && right[r].to < at) {
        ++r;
        continue;
      }
      // The next bytes on which neither side changes.
      std::uint32_t to_left = kNone, to_right = kNone;
      unsigned end = 255;
      const auto look = [&](std::span<const Dfa::Edge> edges, std::size_t which, std::uint32_t& to) {
        if (which == edges.size()) return;
        if (edges[which].from <= at) {
          to = edges[which].next;
          end = std::min<unsigned>(end, edges[which].to);
        } else {
          end = std::min<unsigned>(end, edges[which].from - 1u);
        }
      };
      look(left, l, to_left);
      look(right, r, to_right);
      const bool goes = (to_left != kNone || !needs_a) && (to_right != kNone || !needs_b) &&
                        (to_left != kNone || to_right != kNone);
      if (goes)
        out.edges.push_back(
            {static_cast<std::uint8_t>(at), static_cast<std::uint8_t>(end), number(to_left, to_right)});
      at = end + 1;
    }
    if (pairs.size() > bound.states) return too_many_states(bound.states);
    const bool in_a = s != kNone && a.states[s].accepting, in_b = t != kNone && b.states[t].accepting;
    out.states.push_back({first, static_cast<std::uint32_t>(out.edges.size()) - first, keep(in_a, in_b)});
  }
  return trim(out);
}

}  // namespace

Nfa::State Nfa::add() {
  states_.push_back({kNone, kNone});
  return static_cast<State>(states_.size() - 1);
}

void Nfa::edge(State from, ByteRange bytes, State to) {
  edges_.push_back({bytes, to, states_[from].edges});
  states_[from].edges = static_cast<std::uint32_t>(edges_.size() - 1);
}

void Nfa::jump(State from, State to, When when) {
  jumps_.push_back({to, when, states_[from].jumps});
  states_[from].jumps = static_cast<std::uint32_t>(jumps_.size() - 1);
}

void Nfa::sequences(State from, std::span<const ByteSequence> words, State to) {
  std::map<ByteSequence, State> tails;  // what is left of a sequence to the state before it
  tails.emplace(ByteSequence(), to);
  for (const auto& word : words) {
    State next = to;
    for (std::size_t i = word.size(); i > 1; --i) {
      const auto [at, is_new] = tails.try_emplace(ByteSequence(word.begin() + (i - 1), word.end()), 0);
      if (is_new) {
        at->second = add();
        edge(at->second, word[i - 1], next);
      }
      next = at->second;
    }
    if (word.empty())
      jump(from, to);
    else
      edge(from, word[0], next);
  }
}

void Nfa::words(State from, const Dfa& automaton, State to) {
  const State first = static_cast<State>(states_.size());
  for (std::size_t i = 0; i < automaton.states.size(); ++i) add();
  jump(from, first);
  for (std::uint32_t s = 0; s < automaton.states.size(); ++s) {
    const auto& state = automaton.states[s];
    for (std::uint32_t e = state.first; e < state.first + state.count; ++e)
      edge(first + s, {automaton.edges[e].from, automaton.edges[e].to}, first + automaton.edges[e].next);
    if (state.accepting) jump(first + s, to);
  }
}

// The subset construction. A subset holds only states that a byte or the word's end leads on from.
class Determinizer {
 public:
  Determinizer(const Nfa& nfa, Nfa::State accept, Bound bound)
      : nfa_(nfa), accept_(accept), bound_(bound), seen_(nfa.states(), 0) {}

  Result<Dfa> run(Nfa::State start) {
    Dfa out;
    starts_ = {start};
    // Not among the numbered ones: at the begin of a word the same states may lead further.
    const std::vector<std::uint32_t> begin = closure(true);
    subsets_.push_back(&begin);
    for (std::size_t i = 0; i < subsets_.size(); ++i) {
      const std::vector<std::uint32_t> subset = *subsets_[i];
      const bool accepting = accepts(subset, i == 0);
      const auto first = static_cast<std::uint32_t>(out.edges.size());
      if (!edges(subset, out)) return out_of_fuel();
      if (subsets_.size() > bound_.states) return too_many_states(bound_.states);
      out.states.push_back({first, static_cast<std::uint32_t>(out.edges.size()) - first, accepting});
    }
    return trim(out);
  }

 private:
  // The states that jumps lead to from starts_ and that a byte or the end leads on from, in order.
  std::vector<std::uint32_t> closure(bool at_begin, bool at_end = false) {
    ++stamp_;
    std::vector<std::uint32_t> out;
    std::vector<std::uint32_t>& stack = starts_;
    for (const std::uint32_t s : stack) seen_[s] = stamp_;
    while (!stack.empty()) {
      const std::uint32_t s = stack.back();
      stack.pop_back();
      ++work_;
      bool ends = false;
      for (std::uint32_t j = nfa_.states_[s].jumps; j != Nfa::kNone; j = nfa_.jumps_[j].next) {
        const auto& jump = nfa_.jumps_[j];
        ++work_;
        ends |= jump.when == Nfa::When::at_end;
        if (jump.when == Nfa::When::at_begin && !at_begin) continue;
        if (jump.when == Nfa::When::at_end && !at_end) continue;
        if (seen_[jump.to] == stamp_) continue;
        seen_[jump.to] = stamp_;
        stack.push_back(jump.to);
      }
      if (s == accept_ || ends || nfa_.states_[s].edges != Nfa::kNone) out.push_back(s);
    }
    std::ranges::sort(out);
    return out;
  }

  bool accepts(const std::vector<std::uint32_t>& subset, bool at_begin) {
    if (std::ranges::binary_search(subset, accept_)) return true;
    starts_ = subset;
    return std::ranges::binary_search(closure(at_begin, true), accept_);
  }

  // kNone where the fuel is out.
  std::optional<std::uint32_t> number(std::vector<std::uint32_t> subset) {
    work_ += kStateSteps + 2 * subset.size();
    if (!bound_.fuel->spend(std::exchange(work_, 0))) return std::nullopt;
    const auto [at, is_new] =
        numbers_.try_emplace(std::move(subset), static_cast<std::uint32_t>(subsets_.size()));
    if (is_new) subsets_.push_back(&at->first);
    return at->second;
  }

  bool edges(const std::vector<std::uint32_t>& subset, Dfa& out) {
    found_.clear();
    std::array<bool, 257> begins{};  // a byte at which the targets change
    for (const std::uint32_t s : subset)
      for (std::uint32_t e = nfa_.states_[s].edges; e != Nfa::kNone; e = nfa_.edges_[e].next) {
        const auto& edge = nfa_.edges_[e];
        found_.push_back({edge.bytes, edge.to});
        begins[edge.bytes.from] = begins[edge.bytes.to + 1u] = true;
      }
    for (unsigned from = 0; from < 256;) {
      unsigned end = from + 1;
      while (end < 256 && !begins[end]) ++end;
      starts_.clear();
      for (const auto& [bytes, to] : found_)
        if (bytes.from <= from && from <= bytes.to) starts_.push_back(to);
      work_ += found_.size() / 2 + 1;
      if (!starts_.empty()) {
        std::ranges::sort(starts_);
        const auto repeated = std::ranges::unique(starts_);
        starts_.erase(repeated.begin(), repeated.end());
        const auto to = number(closure(false));
        if (!to) return false;
        out.edges.push_back({static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(end - 1), *to});
      }
      from = end;
    }
    return true;
  }

  const Nfa& nfa_;
  const Nfa::State accept_;
  const Bound bound_;
  std::vector<std::uint32_t> seen_, starts_;
  std::uint32_t stamp_ = 0;
  std::uint64_t work_ = 0;
  std::vector<std::pair<ByteRange, std::uint32_t>> found_;
  std::unordered_map<std::vector<std::uint32_t>, std::uint32_t, Numbers> numbers_;
  std::vector<const std::vector<std::uint32_t>*> subsets_;
};

Result<Dfa> one_of(const CodePointSet& set, Spelling spelling, Bound bound) {
  Nfa nfa;
  const Nfa::State start = nfa.add(), end = nfa.add();
  nfa.sequences(start, spell(set, spelling), end);
  return determinize(nfa, start, end, bound);
}

Result<Dfa> determinize(const Nfa& nfa, Nfa::State start, Nfa::State accept, Bound bound) {
  auto dfa = Determinizer(nfa, accept, bound).run(start);
  if (!dfa) return dfa;
  return minimize(*std::move(dfa), bound);
}

Dfa empty_language() {
  Dfa out;
  out.states.emplace_back();
  return out;
}

bool is_empty(const Dfa& a) noexcept {
  return std::ranges::none_of(a.states, &Dfa::State::accepting);
}

Result<Dfa> unite(const Dfa& a, const Dfa& b, Bound bound) {
  return product(
      a, b, false, false, [](bool in_a, bool in_b) { return in_a || in_b; }, bound);
}
Result<Dfa> intersect(const Dfa& a, const Dfa& b, Bound bound) {
  return product(
      a, b, true, true, [](bool in_a, bool in_b) { return in_a && in_b; }, bound);
}
Result<Dfa> subtract(const Dfa& a, const Dfa& b, Bound bound) {
  return product(
      a, b, true, false, [](bool in_a, bool in_b) { return in_a && !in_b; }, bound);
}

Result<Dfa> concatenate(const Dfa& a, const Dfa& b, Bound bound) {
  Nfa nfa;
  const auto start = nfa.add(), middle = nfa.add(), end = nfa.add();
  nfa.words(start, a, middle);
  nfa.words(middle, b, end);
  return determinize(nfa, start, end, bound);
}

Result<Dfa> from_texts(std::vector<std::string> texts, Bound bound) {
  std::ranges::sort(texts);
  const auto repeated = std::ranges::unique(texts);
  texts.erase(repeated.begin(), repeated.end());
  if (texts.empty()) return empty_language();
  struct Part {  // the texts that begin alike
    std::size_t begin, end, depth;
  };
  std::vector<Part> parts{{0, texts.size(), 0}};
  Dfa out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto [begin, end, depth] = parts[i];
    if (!bound.fuel->spend(8 + (end - begin))) return out_of_fuel();
    const auto first = static_cast<std::uint32_t>(out.edges.size());
    const bool accepting = texts[begin].size() == depth;
    if (accepting) ++begin;
    while (begin < end) {
      const char byte = texts[begin][depth];
      std::size_t next = begin + 1;
      while (next < end && texts[next][depth] == byte) ++next;
      const auto value = static_cast<std::uint8_t>(byte);
      out.edges.push_back({value, value, static_cast<std::uint32_t>(parts.size())});
      parts.push_back({begin, next, depth + 1});
      begin = next;
    }
    if (parts.size() > bound.states) return too_many_states(bound.states);
    out.states.push_back({first, static_cast<std::uint32_t>(out.edges.size()) - first, accepting});
  }
  return out;
}

Result<std::optional<std::vector<std::string>>> words_of(const Dfa& a, std::size_t most, Bound bound) {
  std::vector<std::string> out;
  std::vector<std::pair<std::uint32_t, std::string>> begun{{0, ""}}, longer;
  // Every state leads to a word, so there are at least as many words as were begun.
  for (; !begun.empty(); begun = std::exchange(longer, {}))
    for (const auto& [state, text] : begun) {
      if (!bound.fuel->spend(16 + text.size()))
        return fail(ErrorCode::unsupported_value, "The words take more work than one constraint may cost.");
      if (a.states[state].accepting) out.push_back(text);
      for (std::uint32_t e = 0; e < a.states[state].count; ++e) {
        const auto& edge = a.edges[a.states[state].first + e];
        for (unsigned byte = edge.from; byte <= edge.to; ++byte) {
          longer.emplace_back(edge.next, text + static_cast<char>(byte));
          if (longer.size() + out.size() > most) return std::nullopt;
        }
      }
    }
  if (out.size() > most) return std::nullopt;
  return out;
}

// Moore's refinement: states are told apart by their class and the classes that their bytes lead to.
Result<Dfa> minimize(Dfa a, Bound bound) {
  if (a.states.size() > kMostMinimized) return a;
  const std::size_t n = a.states.size();
  std::vector<std::uint32_t> of(n);
  for (std::size_t s = 0; s < n; ++s) of[s] = a.states[s].accepting;
  std::size_t classes = 0;
  for (;;) {
    std::unordered_map<std::vector<std::uint32_t>, std::uint32_t, Numbers> numbers;
    std::vector<std::uint32_t> next(n), key;
    for (std::size_t s = 0; s < n; ++s) {
      key = {of[s]};
      unsigned end = 256;
      for (std::uint32_t e = a.states[s].first; e < a.states[s].first + a.states[s].count; ++e) {
        const auto& edge = a.edges[e];
        if (end == edge.from && key.back() == of[edge.next])
          key[key.size() - 2] = edge.to;
        else
          key.insert(key.end(), {edge.from, edge.to, of[edge.next]});
        end = edge.to + 1u;
      }
      if (!bound.fuel->spend(kStateSteps + key.size())) return out_of_fuel();
      next[s] = numbers.try_emplace(key, static_cast<std::uint32_t>(numbers.size())).first->second;
    }
    of = std::move(next);
    if (numbers.size() == classes) break;
    classes = numbers.size();
  }
  if (classes == n) return a;
  // Classes are numbered by their first states, so class 0 is the first state's.
  Dfa out;
  for (std::size_t s = 0; s < n; ++s) {
    if (of[s] != out.states.size()) continue;
    const auto first = static_cast<std::uint32_t>(out.edges.size());
    for (std::uint32_t e = a.states[s].first; e < a.states[s].first + a.states[s].count; ++e) {
      const auto& edge = a.edges[e];
      if (out.edges.size() > first && out.edges.back().next == of[edge.next] &&
          out.edges.back().to + 1 == edge.from)
        out.edges.back().to = edge.to;
      else
        out.edges.push_back({edge.from, edge.to, of[edge.next]});
    }
    out.states.push_back(
        {first, static_cast<std::uint32_t>(out.edges.size()) - first, a.states[s].accepting});
  }
  return out;
}

}  // namespace flyball::grammar
