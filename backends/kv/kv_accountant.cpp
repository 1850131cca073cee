#include "backends/kv/kv_accountant.hpp"

#include <cstdlib>

namespace flyball::kv {

KvAccountant::KvAccountant(std::uint32_t n_blocks, std::uint32_t block_size)
    : block_size_(block_size), pool_(n_blocks) {
  if (block_size == 0) std::abort();
}

std::uint32_t KvAccountant::blocks_missing(SequenceId id, std::uint32_t positions) const {
  const auto held = static_cast<std::uint32_t>(table(id).size());
  const std::uint32_t needed = blocks_for(positions);
  return needed > held ? needed - held : 0;
}

bool KvAccountant::grow(SequenceId id, std::uint32_t positions) {
  std::uint32_t missing = blocks_missing(id, positions);
  if (missing == 0) return true;
  if (missing > pool_.free()) return false;
  auto& blocks = tables_[id];
  while (missing-- > 0) blocks.push_back(*pool_.acquire());
  return true;
}

void KvAccountant::release(SequenceId id) {
  const auto it = tables_.find(id);
  if (it == tables_.end()) return;
  for (const BlockId block : it->second) pool_.release(block);
  tables_.erase(it);
}

std::span<const BlockId> KvAccountant::table(SequenceId id) const {
  const auto it = tables_.find(id);
  if (it == tables_.end()) return {};
  return it->second;
}

bool KvAccountant::balanced() const {
  if (!pool_.balanced() || pool_.free() + pool_.used() != pool_.total()) return false;
  std::vector<std::uint32_t> held(pool_.total(), 0);
  for (const auto& [id, blocks] : tables_)
    for (const BlockId block : blocks) ++held[block];
  for (BlockId block = 0; block < pool_.total(); ++block)
    if (held[block] != pool_.references(block)) return false;
  return true;
}

}  // namespace flyball::kv
