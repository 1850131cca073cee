#include "backends/kv/kv_accountant.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace flyball::kv {

KvAccountant::KvAccountant(std::uint32_t n_blocks, std::uint32_t block_size,
                           const std::optional<Keyed>& keyed)
    : block_size_(block_size), pool_(n_blocks), index_(n_blocks, block_size, keyed) {
  if (block_size == 0) std::abort();
}

std::uint32_t KvAccountant::blocks_missing(SequenceId id, std::uint32_t positions) const {
  const auto held = static_cast<std::uint32_t>(table(id).size());
  const std::uint32_t needed = blocks_for(positions);
  return needed > held ? needed - held : 0;
}

std::uint32_t KvAccountant::adopt(SequenceId id, std::string_view owner, std::span<const Token> tokens) {
  if (tables_.contains(id)) std::abort();
  const auto found = index_.find(owner, tokens);
  if (found.empty()) return 0;
  Table& table = tables_[id];
  for (const BlockId block : found) take(table, block);
  table.published = static_cast<std::uint32_t>(found.size());
  return table.published * block_size_;
}

bool KvAccountant::grow(SequenceId id, std::uint32_t positions) {
  std::uint32_t missing = blocks_missing(id, positions);
  if (missing == 0) return true;
  if (missing > free()) return false;
  auto& blocks = tables_[id].blocks;
  for (; missing > 0; --missing) {
    if (pool_.free() == 0) pool_.release(index_.evict().value());
    blocks.push_back(pool_.acquire().value());
  }
  return true;
}

void KvAccountant::publish(SequenceId id, std::string_view owner, std::span<const Token> tokens) {
  const auto it = tables_.find(id);
  if (it == tables_.end()) return;
  Table& table = it->second;
  const auto full = static_cast<std::uint32_t>(tokens.size() / block_size_);
  if (full > table.blocks.size()) std::abort();
  for (; table.published < full; ++table.published) {
    std::optional<BlockId> before;
    if (table.published > 0) before = table.blocks[table.published - 1];
    if (before && !index_.contains(*before)) continue;  // distrusted
    BlockId& block = table.blocks[table.published];
    const BlockId stands =
        index_.insert(owner, before, tokens.subspan(table.published * block_size_, block_size_), block);
    if (stands == block) {
      pool_.retain(block);  // the index's own
    } else {
      pool_.retain(stands);
      pool_.release(block);
      block = stands;
    }
    index_.lease(block);
  }
}

void KvAccountant::distrust(SequenceId id) {
  const auto it = tables_.find(id);
  if (it == tables_.end() || it->second.blocks.empty()) return;
  Table& table = it->second;
  if (index_.contains(table.blocks.front()))
    for (const BlockId block : index_.forget(table.blocks.front())) pool_.release(block);
  table.published = static_cast<std::uint32_t>(table.blocks.size());
}

bool KvAccountant::trusted(SequenceId id) const {
  const auto it = tables_.find(id);
  return it == tables_.end() || it->second.published == 0 || index_.contains(it->second.blocks.front());
}

void KvAccountant::release(SequenceId id) {
  const auto it = tables_.find(id);
  if (it == tables_.end()) return;
  // The last first: what begins a prompt is of use to more prompts, and is evicted later.
  for (auto block = it->second.blocks.rbegin(); block != it->second.blocks.rend(); ++block) let_go(*block);
  tables_.erase(it);
}

void KvAccountant::keep_prefix(std::string_view owner, std::string_view name, std::span<const Token> tokens) {
  for (const BlockId block : index_.keep_prefix(owner, name, tokens)) pool_.release(block);
}

void KvAccountant::drop_prefix(std::string_view owner, std::string_view name) {
  for (const BlockId block : index_.drop_prefix(owner, name)) pool_.release(block);
}

std::optional<PrefixIndex::PrefixRun> KvAccountant::prefix_of(SequenceId id, std::string_view owner,
                                                              std::uint32_t positions) const {
  const auto blocks = table(id);
  const std::size_t whole = std::min<std::size_t>(positions / block_size_, blocks.size());
  return index_.prefix_of(owner, blocks.first(whole));
}

ChainKey KvAccountant::key_of(SequenceId id, std::string_view owner) const {
  const auto blocks = table(id);
  return index_.key_of(owner, blocks.empty() ? std::nullopt : std::optional(blocks.back()));
}

void KvAccountant::take(Table& table, BlockId block) {
  pool_.retain(block);
  index_.lease(block);
  table.blocks.push_back(block);
}

void KvAccountant::let_go(BlockId block) {
  if (index_.contains(block)) index_.release(block);
  pool_.release(block);
}

std::span<const BlockId> KvAccountant::table(SequenceId id) const {
  const auto it = tables_.find(id);
  if (it == tables_.end()) return {};
  return it->second.blocks;
}

bool KvAccountant::balanced() const {
  if (!pool_.balanced() || !index_.balanced()) return false;
  std::vector<std::uint32_t> held(pool_.total(), 0);
  for (const auto& [id, table] : tables_)
    for (const BlockId block : table.blocks) ++held[block];
  std::uint32_t used = 0;
  for (BlockId block = 0; block < pool_.total(); ++block) {
    const bool kept = index_.contains(block);
    if (pool_.references(block) != held[block] + (kept ? 1 : 0)) return false;
    if (kept && index_.leases(block) != held[block]) return false;
    if (held[block] > 0) ++used;
  }
  return used == this->used();
}

}  // namespace flyball::kv
