#include "backends/constrain/nfa.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <unordered_map>
#include <utility>

namespace flyball::constrain {
namespace {

using Places = std::vector<Nfa::Place>;

struct PlacesHash {
  std::size_t operator()(const Places& places) const noexcept {
    std::uint64_t h = places.size();
    for (const Nfa::Place place : places) {
      h = (h ^ place) * 0x9E3779B97F4A7C15U;
      h ^= h >> 29U;
    }
    return h;
  }
};

// The subset construction. Calls are symbols of their own. Without fuel every loop ends at once, and what it
// leaves is of no use: run() looks before it goes on.
class Determinizer {
 public:
  Determinizer(const Nfa& nfa, Nfa::Place end, Program& into, grammar::Fuel& fuel, std::size_t memory)
      : nfa_(nfa),
        end_(end),
        into_(into),
        fuel_(fuel),
        memory_(memory),
        base_(static_cast<StateId>(into.states.size())),
        seen_(nfa.places(), 0) {}

  std::expected<StateId, Exhausted> run(Nfa::Place begin) {
    subsets_.push_back(closure({begin}));  // not among numbers_: a loop back to it makes a state of its own
    for (std::size_t at = 0; at < subsets_.size(); ++at) {
      const Places subset = subsets_[at];
      const bool accepting = at > 0 && std::ranges::binary_search(subset, end_);
      const auto edges = static_cast<std::uint32_t>(into_.edges.size());
      const auto calls = static_cast<std::uint32_t>(into_.calls.size());
      gather(subset);
      add_edges(edges);
      add_calls();
      if (fuel_.is_empty()) return std::unexpected(Exhausted::fuel);
      const bool ends = edges == into_.edges.size() && calls == into_.calls.size();
      into_.states.push_back({edges, calls, accepting, accepting && ends});
      if (into_.memory() + held_ > memory_) return std::unexpected(Exhausted::memory);
    }
    return base_;
  }

 private:
  // All places that empty arcs lead to, in order; those with nothing but empty arcs left out.
  Places closure(Places work) {
    Places out;
    ++round_;
    for (const Nfa::Place place : work) seen_[place] = round_;
    while (!work.empty()) {
      const Nfa::Place place = work.back();
      work.pop_back();
      bool matters = place == end_;
      if (!fuel_.spend(3)) return {};
      for (std::uint32_t i = nfa_.first_arc(place); i != Nfa::kNone; i = nfa_.arc(i).next) {
        if (!fuel_.spend()) return {};
        const Nfa::Arc& arc = nfa_.arc(i);
        if (arc.kind != Nfa::ArcKind::empty) {
          matters = true;
        } else if (seen_[arc.target] != round_) {
          seen_[arc.target] = round_;
          work.push_back(arc.target);
        }
      }
      if (matters) out.push_back(place);
    }
    if (!fuel_.spend(sorting(out.size()))) return {};
    std::ranges::sort(out);
    return out;
  }

  // Steps of sorting so many places.
  static std::uint64_t sorting(std::size_t places) { return places * std::bit_width(places) / 2; }

  StateId number(Places targets) {
    if (!fuel_.spend(10 + sorting(targets.size()))) return 0;
    std::ranges::sort(targets);
    targets.erase(std::ranges::unique(targets).begin(), targets.end());
    Places subset = closure(std::move(targets));
    const auto next = base_ + static_cast<StateId>(subsets_.size());
    if (!fuel_.spend(10 + 2 * subset.size())) return 0;
    const auto [at, is_new] = numbers_.try_emplace(std::move(subset), next);
    if (is_new) {
      fuel_.spend(80 + 2 * at->first.size());
      held_ += 2 * at->first.size() * sizeof(Nfa::Place) + 128;
      subsets_.push_back(at->first);
    }
    return at->second;
  }

  // The arcs of a subset: calls, and targets by the interval of bytes that begins at each boundary.
  void gather(const Places& subset) {
    boundaries_.reset();
    calls_.clear();
    arcs_.clear();
    for (const Nfa::Place place : subset) {
      for (std::uint32_t i = nfa_.first_arc(place); i != Nfa::kNone; i = nfa_.arc(i).next) {
        if (!fuel_.spend()) return;
        const Nfa::Arc& arc = nfa_.arc(i);
        if (arc.kind == Nfa::ArcKind::call) calls_.emplace_back(arc.procedure, arc.target);
        if (arc.kind != Nfa::ArcKind::bytes) continue;
        boundaries_.set(arc.from);
        boundaries_.set(arc.to + 1U);
        arcs_.push_back(i);
      }
    }
    for (const std::uint32_t i : arcs_) {
      const Nfa::Arc& arc = nfa_.arc(i);
      for (std::size_t byte = arc.from; byte <= arc.to; byte = boundaries_._Find_next(byte)) {
        if (!fuel_.spend()) return;
        targets_[byte].push_back(arc.target);
      }
    }
  }

  void add_edges(std::size_t first) {
    for (std::size_t byte = boundaries_._Find_first(); byte < 256;) {
      const std::size_t after = boundaries_._Find_next(byte);  // a boundary ends the last arc
      if (!targets_[byte].empty()) {
        const StateId next = number(std::exchange(targets_[byte], {}));
        if (fuel_.is_empty()) return;
        auto& edges = into_.edges;
        const bool widens = edges.size() > first && edges.back().next == next && edges.back().to + 1U == byte;
        const auto last = static_cast<std::uint8_t>(after - 1);
        if (widens) {
          edges.back().to = last;
        } else {
          edges.push_back({static_cast<std::uint8_t>(byte), last, next});
        }
      }
      byte = after;
    }
  }

  void add_calls() {
    if (!fuel_.spend(sorting(calls_.size()))) return;
    std::ranges::sort(calls_);
    for (std::size_t i = 0; i < calls_.size() && !fuel_.is_empty();) {
      const ProcedureId procedure = calls_[i].first;
      Places targets;
      for (; i < calls_.size() && calls_[i].first == procedure; ++i) targets.push_back(calls_[i].second);
      const StateId next = number(std::move(targets));
      into_.calls.push_back({procedure, next});
    }
  }

  const Nfa& nfa_;
  Nfa::Place end_;
  Program& into_;
  grammar::Fuel& fuel_;
  std::size_t memory_;
  StateId base_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t round_ = 0;
  std::vector<Places> subsets_;
  std::unordered_map<Places, StateId, PlacesHash> numbers_;
  std::size_t held_ = 0;  // bytes of both
  std::bitset<257> boundaries_;
  std::array<Places, 256> targets_;
  std::vector<std::uint32_t> arcs_;
  std::vector<std::pair<ProcedureId, Nfa::Place>> calls_;
};

}  // namespace

std::expected<StateId, Exhausted> determinize(const Nfa& nfa, Nfa::Place begin, Nfa::Place end, Program& into,
                                              grammar::Fuel& fuel, std::size_t memory) {
  return Determinizer(nfa, end, into, fuel, memory).run(begin);
}

}  // namespace flyball::constrain
