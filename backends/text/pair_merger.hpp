// Joins neighbouring symbols, best pair first, until no pair is left: the loop that byte-level BPE and
// SentencePiece's BPE mode share. O(n log n): a heap of candidate pairs, where those that went stale are
// recognised by their size and skipped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace flyball::text {

template <class Value>
struct MergeSymbol {
  Value value;
  std::uint32_t size;  // bytes, > 0; 0: merged into its left neighbour
  std::uint32_t previous = 0, next = 0;
};

template <class Rank, class Value>
struct MergeCandidate {
  Rank rank;  // operator<: the greater merges first
  std::uint32_t left = 0, right = 0;
  std::uint32_t size = 0;  // of both together
  Value result;            // what they become
};

// `symbols`: values and sizes set, in order of text; what is left afterwards has size > 0.
// `find(left, right, put)` calls put(rank, result) where symbols[left] and symbols[right] may merge. Of equal
// ranks the leftmost merges first.
template <class Rank, class Value, class Find>
void merge_pairs(std::vector<MergeSymbol<Value>>& symbols, std::vector<MergeCandidate<Rank, Value>>& heap,
                 Find&& find) {
  using Candidate = MergeCandidate<Rank, Value>;
  constexpr std::uint32_t kEnd = 0xFFFFFFFF;
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank < b.rank || (!(b.rank < a.rank) && a.left > b.left);
  };
  const auto candidate = [&](std::uint32_t left, std::uint32_t right) {
    if (left == kEnd || right == kEnd) return false;
    const std::size_t before = heap.size();
    find(left, right, [&](Rank rank, Value result) {
      heap.push_back({rank, left, right, symbols[left].size + symbols[right].size, result});
    });
    return heap.size() > before;
  };

  const auto count = static_cast<std::uint32_t>(symbols.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols[i].previous = i == 0 ? kEnd : i - 1;
    symbols[i].next = i + 1 == count ? kEnd : i + 1;
  }
  heap.clear();
  for (std::uint32_t i = 0; i + 1 < count; ++i) candidate(i, i + 1);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate best = heap.back();
    heap.pop_back();
    auto& left = symbols[best.left];
    auto& right = symbols[best.right];
    // One of the two has since merged with another neighbour.
    if (left.size == 0 || right.size == 0 || left.size + right.size != best.size) continue;
    left.value = best.result;
    left.size = best.size;
    right.size = 0;
    left.next = right.next;
    if (right.next != kEnd) symbols[right.next].previous = best.left;
    if (candidate(left.previous, best.left)) std::push_heap(heap.begin(), heap.end(), later);
    if (candidate(best.left, left.next)) std::push_heap(heap.begin(), heap.end(), later);
  }
}

}  // namespace flyball::text
