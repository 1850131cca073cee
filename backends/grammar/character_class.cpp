#include "backends/grammar/character_class.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace flyball::grammar {
namespace {

constexpr char32_t kBeforeSurrogates = 0xD7FF, kAfterSurrogates = 0xE000;

using Ranges = std::vector<CharacterRange>;

// The part of a normalized set within a range, counted from `from`.
Ranges slice(const Ranges& ranges, char32_t from, char32_t to) {
  Ranges out;
  for (auto at = std::ranges::lower_bound(ranges, from, {}, &CharacterRange::to);
       at != ranges.end() && at->from <= to; ++at) {
    out.push_back({std::max(at->from, from) - from, std::min(at->to, to) - from});
  }
  return out;
}

class Utf8Builder {
 public:
  explicit Utf8Builder(Fuel& fuel) : fuel_(fuel) {}

  // Without fuel the automaton is not whole.
  Dfa run(const Ranges& ranges) {
    states_.emplace_back();  // the start
    add_edges(0, 0x00, 0x7F, 0, slice(ranges, 0, 0x7F));
    add_edges(0, 0xC0, 0xDF, 1, slice(ranges, 0, 0x7FF), 0x80);
    add_edges(0, 0xE0, 0xEF, 2, slice(ranges, 0, 0xFFFF), 0x800);
    add_edges(0, 0xF0, 0xF4, 3, slice(ranges, 0, kLastCharacter), 0x10000);
    Dfa out;
    for (const auto& edges : states_) {
      out.states.push_back({static_cast<std::uint32_t>(out.edges.size()),
                            static_cast<std::uint32_t>(edges.size()), &edges - states_.data() == end_});
      out.edges.insert(out.edges.end(), edges.begin(), edges.end());
    }
    return out;
  }

 private:
  // Edges for the values of a byte, each followed by `more` continuation bytes of six bits. Smaller values
  // than `least` have a shorter form, which is the only one that counts.
  void add_edges(std::uint32_t state, std::uint8_t first, std::uint8_t last, unsigned more, Ranges ranges,
                 char32_t least = 0) {
    if (least > 0) {
      Ranges rest = slice(ranges, least, kLastCharacter);
      for (auto& range : rest) range = {range.from + least, range.to + least};
      ranges = std::move(rest);
    }
    for (unsigned byte = first; byte <= last; ++byte) {
      if (!fuel_.spend(4)) return;
      const char32_t begin = static_cast<char32_t>(byte - first) << (6 * more);
      Ranges below = slice(ranges, begin, begin + (char32_t{1} << (6 * more)) - 1);
      if (below.empty()) continue;
      const std::uint32_t next = state_for(more, std::move(below));
      auto& edges = states_[state];
      if (!edges.empty() && edges.back().next == next && edges.back().to + 1U == byte) {
        edges.back().to = static_cast<std::uint8_t>(byte);
      } else {
        edges.push_back({static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte), next});
      }
    }
  }

  std::uint32_t state_for(unsigned more, Ranges ranges) {
    const auto known = known_.find({more, ranges});
    if (known != known_.end()) return known->second;
    if (!fuel_.spend(40 + 2 * ranges.size())) return 0;
    const auto state = static_cast<std::uint32_t>(states_.size());
    states_.emplace_back();
    if (more == 0)
      end_ = state;
    else
      add_edges(state, 0x80, 0xBF, more - 1, ranges);
    known_.emplace(std::pair{more, std::move(ranges)}, state);
    return state;
  }

  Fuel& fuel_;
  std::vector<std::vector<Dfa::Edge>> states_;
  std::ptrdiff_t end_ = -1;
  std::map<std::pair<unsigned, Ranges>, std::uint32_t> known_;
};

}  // namespace

Ranges normalized(Ranges ranges) {
  std::ranges::sort(ranges);
  Ranges merged;
  for (const auto& range : ranges) {
    if (!merged.empty() && range.from <= merged.back().to + 1) {
      merged.back().to = std::max(merged.back().to, range.to);
    } else {
      merged.push_back(range);
    }
  }
  Ranges out;
  for (const auto& [from, to] : merged) {
    if (from <= kBeforeSurrogates) out.push_back({from, std::min(to, kBeforeSurrogates)});
    if (to >= kAfterSurrogates) out.push_back({std::max(from, kAfterSurrogates), to});
  }
  return out;
}

Ranges complement(const Ranges& ranges) {
  Ranges out;
  char32_t next = 0;
  for (const auto& [from, to] : ranges) {
    if (from > next) out.push_back({next, from - 1});
    next = to + 1;
  }
  if (next <= kLastCharacter) out.push_back({next, kLastCharacter});
  return normalized(std::move(out));
}

std::optional<NodeId> add_characters(Grammar& grammar, const Ranges& ranges, Fuel& fuel) {
  if (!fuel.spend(20 + ranges.size())) return std::nullopt;
  if (ranges.empty()) return grammar.choice({});
  if (ranges.back().to > 0x7F) {
    Dfa automaton = Utf8Builder(fuel).run(ranges);
    if (fuel.is_empty()) return std::nullopt;
    return grammar.dfa(std::move(automaton));
  }
  ByteSet set;
  for (const auto& [from, to] : ranges) {
    for (char32_t byte = from; byte <= to; ++byte) set.set(byte);
  }
  return grammar.bytes(set);
}

}  // namespace flyball::grammar
