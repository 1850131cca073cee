// Who holds which KV block: one block table per sequence over a pool, and a prefix index of full blocks that
// later sequences take over. Books that balance: free + used + kept unused == total, and each block has as
// many references as tables that hold it, and one more where the index keeps it. Decides nothing; the
// scheduler asks it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/kv/block_pool.hpp"
#include "backends/kv/prefix_index.hpp"

namespace flyball::kv {

using SequenceId = std::uint64_t;  // never reused within a process

class KvAccountant {
 public:
  // block_size: positions per block, > 0.
  KvAccountant(std::uint32_t n_blocks, std::uint32_t block_size,
               const std::optional<Keyed>& keyed = std::nullopt);

  // Blocks that hold `positions` positions.
  std::uint32_t blocks_for(std::uint32_t positions) const noexcept {
    return positions / block_size_ + (positions % block_size_ != 0 ? 1 : 0);
  }
  // Blocks missing before `id` covers `positions`.
  std::uint32_t blocks_missing(SequenceId id, std::uint32_t positions) const;
  // Gives `id`, which holds nothing, the longest run of kept blocks that `tokens` begins with. Returns the
  // positions they cover: their KV need not be computed.
  std::uint32_t adopt(SequenceId id, std::string_view owner, std::span<const Token> tokens);
  // Grows the table of `id` until it covers `positions`, evicting what is only kept. All or nothing; false:
  // too few blocks are free.
  bool grow(SequenceId id, std::uint32_t positions);
  // The KV of `tokens`, all of them from position 0 on, is computed: their full blocks are kept from now on.
  // Where another sequence was first, `id` takes over its block: equal prefixes share equal ids.
  void publish(SequenceId id, std::string_view owner, std::span<const Token> tokens);
  // False once what `id` published has been distrusted, by itself or by another that shares it.
  bool trusted(SequenceId id) const;
  // Nobody may take over what `id` has published, nor what follows it. Call before release.
  void distrust(SequenceId id);
  // Gives back every block of `id`; the published ones stay until their room is needed. A sequence that holds
  // none is fine.
  void release(SequenceId id);

  // Named prefixes, as PrefixIndex has them; the blocks that it forgets are free.
  void keep_prefix(std::string_view owner, std::string_view name, std::span<const Token> tokens);
  void drop_prefix(std::string_view owner, std::string_view name);
  std::uint32_t prefix_blocks(std::string_view owner, std::string_view name) const {
    return index_.prefix_blocks(owner, name);
  }
  // The kept prefix that the first `positions` of `id` begin with.
  std::optional<PrefixIndex::PrefixRun> prefix_of(SequenceId id, std::string_view owner,
                                                  std::uint32_t positions) const;

  // Blocks that grow() has taken from the index since the last call: their bytes are there until somebody
  // computes in them. keyed_blocks(), key_of(): as PrefixIndex.
  std::vector<KeyedBlock> take_evicted() { return index_.take_evicted(); }
  std::vector<KeyedBlock> keyed_blocks() const { return index_.keyed_blocks(); }
  // Of what `id`, all of whose blocks are kept, holds; of no blocks it is the owner's root.
  ChainKey key_of(SequenceId id, std::string_view owner) const;

  // Block ids in order of position; valid until the next adopt, grow, publish or release of `id`.
  std::span<const BlockId> table(SequenceId id) const;
  std::uint32_t total() const noexcept { return pool_.total(); }
  std::uint32_t free() const noexcept { return pool_.free() + index_.idle(); }  // what grow() can give
  std::uint32_t used() const noexcept { return total() - free(); }              // in tables
  std::uint32_t kept() const noexcept { return index_.size(); }                 // in the index, used or not
  bool balanced() const;  // recounts all tables and the index against the pool. O(total)

 private:
  struct Table {
    std::vector<BlockId> blocks;
    std::uint32_t published = 0;  // leading blocks that the index keeps, or has refused
  };
  void take(Table& table, BlockId block);  // one more holder of a block
  void let_go(BlockId block);

  std::uint32_t block_size_;
  BlockPool pool_;
  PrefixIndex index_;
  std::map<SequenceId, Table> tables_;
};

}  // namespace flyball::kv
