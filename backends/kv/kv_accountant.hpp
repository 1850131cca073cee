// Who holds which KV block: one block table per sequence over a pool, and books that balance (free + used ==
// total, every used block in exactly as many tables as it has references). Decides nothing; the scheduler
// asks it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "backends/kv/block_pool.hpp"

namespace flyball::kv {

using SequenceId = std::uint64_t;  // never reused within a process

class KvAccountant {
 public:
  // block_size: positions per block, > 0.
  KvAccountant(std::uint32_t n_blocks, std::uint32_t block_size);

  // Blocks that hold `positions` positions.
  std::uint32_t blocks_for(std::uint32_t positions) const noexcept {
    return positions / block_size_ + (positions % block_size_ != 0 ? 1 : 0);
  }
  // Blocks missing before `id` covers `positions`.
  std::uint32_t blocks_missing(SequenceId id, std::uint32_t positions) const;
  // Grows the table of `id` until it covers `positions`. All or nothing; false: too few blocks are free.
  bool grow(SequenceId id, std::uint32_t positions);
  // Gives back every block of `id`. A sequence that holds none is fine.
  void release(SequenceId id);

  // Block ids in order of position; valid until the next grow or release of `id`.
  std::span<const BlockId> table(SequenceId id) const;
  std::uint32_t total() const noexcept { return pool_.total(); }
  std::uint32_t free() const noexcept { return pool_.free(); }
  std::uint32_t used() const noexcept { return pool_.used(); }
  bool balanced() const;  // recounts all tables against the pool. O(total)

 private:
  std::uint32_t block_size_;
  BlockPool pool_;
  std::map<SequenceId, std::vector<BlockId>> tables_;
};

}  // namespace flyball::kv
