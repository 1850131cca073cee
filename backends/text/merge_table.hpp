// Which pairs of neighbours BPE merges: a hash table that a hostile file cannot make slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace flyball::text {

// From a pair of symbols to what they merge into, and how early.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank, result;
  };
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

  void reserve(std::size_t merges);
  // The first rank of a pair stays. False: the pairs were crafted to collide.
  bool add(std::uint32_t left, std::uint32_t right, Merge merge);
  Merge find(std::uint32_t left, std::uint32_t right) const noexcept;  // rank kNoRank: these do not merge

 private:
  struct Slot {
    std::uint64_t pair;
    Merge merge;  // rank kNoRank: empty
  };
  std::vector<Slot> slots_;  // a power of two, at most half full
  unsigned shift_ = 0;
};

}  // namespace flyball::text
