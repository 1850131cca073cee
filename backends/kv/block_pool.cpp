#include "backends/kv/block_pool.hpp"

#include <cstdlib>

namespace flyball::kv {

BlockPool::BlockPool(std::uint32_t n_blocks) : references_(n_blocks, 0) {
  free_.reserve(n_blocks);
  for (std::uint32_t i = n_blocks; i > 0; --i) free_.push_back(i - 1);
}

std::optional<BlockId> BlockPool::acquire() {
  if (free_.empty()) return std::nullopt;
  const BlockId id = free_.back();
  free_.pop_back();
  references_[id] = 1;
  return id;
}

void BlockPool::retain(BlockId id) {
  if (id >= total() || references_[id] == 0) std::abort();
  ++references_[id];
}

void BlockPool::release(BlockId id) {
  if (id >= total() || references_[id] == 0) std::abort();
  if (--references_[id] == 0) free_.push_back(id);
}

bool BlockPool::balanced() const {
  std::vector<bool> seen(references_.size(), false);
  for (const BlockId id : free_) {
    if (id >= total() || seen[id] || references_[id] != 0) return false;
    seen[id] = true;
  }
  for (BlockId id = 0; id < total(); ++id)
    if (!seen[id] && references_[id] == 0) return false;
  return true;
}

}  // namespace flyball::kv
