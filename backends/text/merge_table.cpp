#include "backends/text/merge_table.hpp"

#include <algorithm>
#include <bit>

#include "backends/text/tokenizer_strings.hpp"

namespace flyball::text {

void MergeTable::reserve(std::size_t merges) {
  const std::size_t slots = std::bit_ceil(std::max<std::size_t>(merges * 2, 64));
  slots_.assign(slots, Slot{0, {kNoRank, 0}});
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(slots));
}

bool MergeTable::add(std::uint32_t left, std::uint32_t right, Merge merge) {
  const std::uint64_t pair = std::uint64_t{left} << 32U | right;
  const std::size_t mask = slots_.size() - 1;
  const std::size_t start = pair * 0x9E3779B97F4A7C15ULL >> shift_;
  for (std::size_t probe = 0; probe < kMaxProbe; ++probe) {
    Slot& slot = slots_[(start + probe) & mask];
    if (slot.merge.rank == kNoRank) {
      slot = {pair, merge};
      return true;
    }
    if (slot.pair == pair) return true;
  }
  return false;
}

MergeTable::Merge MergeTable::find(std::uint32_t left, std::uint32_t right) const noexcept {
  const std::uint64_t pair = std::uint64_t{left} << 32U | right;
  const std::size_t mask = slots_.size() - 1;
  const std::size_t start = pair * 0x9E3779B97F4A7C15ULL >> shift_;
  for (std::size_t probe = 0; probe < kMaxProbe; ++probe) {
    const Slot& slot = slots_[(start + probe) & mask];
    if (slot.merge.rank == kNoRank || slot.pair == pair) return slot.merge;
  }
  return {kNoRank, 0};
}

}  // namespace flyball::text
