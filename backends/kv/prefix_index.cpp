#include "backends/kv/prefix_index.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace flyball::kv {
namespace {

void require(bool invariant) {
  if (!invariant) std::abort();
}

}  // namespace

bool PrefixIndex::EdgeLess::less(const EdgeView& left, const EdgeView& right) {
  if (left.from != right.from) return left.from < right.from;
  return std::ranges::lexicographical_compare(left.tokens, right.tokens);
}

PrefixIndex::PrefixIndex(std::uint32_t n_blocks, std::uint32_t block_size, const std::optional<Keyed>& keyed)
    : block_size_(block_size), keyed_(keyed), next_root_(n_blocks), nodes_(n_blocks) {
  require(block_size > 0);
}

std::vector<BlockId> PrefixIndex::find(std::string_view owner, std::span<const Token> tokens) const {
  std::vector<BlockId> found;
  const auto root = roots_.find(owner);
  if (root == roots_.end()) return found;
  Origin at = root->second.origin;
  for (; tokens.size() >= block_size_; tokens = tokens.subspan(block_size_)) {
    const auto edge = edges_.find(EdgeView{at, tokens.first(block_size_)});
    if (edge == edges_.end()) break;
    found.push_back(edge->second);
    at = edge->second;
  }
  return found;
}

BlockId PrefixIndex::insert(std::string_view owner, std::optional<BlockId> before,
                            std::span<const Token> tokens, BlockId block) {
  require(tokens.size() == block_size_ && !contains(block) && (!before || contains(*before)));
  auto root = roots_.find(owner);
  if (root == roots_.end()) root = roots_.emplace(std::string(owner), Root{next_root_++, 0}).first;
  const Origin from = before ? Origin{*before} : root->second.origin;
  if (const auto edge = edges_.find(EdgeView{from, tokens}); edge != edges_.end()) return edge->second;

  Node& node = nodes_[block];
  node = {};
  node.kept = true;
  node.released = ++clock_;
  node.owner = root->first;
  node.depth = before ? nodes_[*before].depth + 1 : 0;
  node.prefixes = prefixes_after(owner, before, tokens);
  if (keyed_) set_key(node, before, tokens);
  node.edge = edges_.emplace(Edge{from, {tokens.begin(), tokens.end()}}, block).first;
  if (before) evictable_.erase(entry_of(*before));
  ++children_of(node);
  ++size_;
  ++idle_;
  evictable_.insert(entry_of(block));
  count_prefixes(node, true);
  return block;
}

// The blocks before one that makes its run long enough are worth it from then on.
void PrefixIndex::set_key(Node& node, std::optional<BlockId> before, std::span<const Token> tokens) {
  node.key = next_key(key_of(node.owner, before), tokens);
  node.worth = node.depth + 1 >= keyed_->least_blocks;
  if (!node.worth) return;
  for (Origin at = before ? Origin{*before} : nodes_.size(); at < nodes_.size() && !nodes_[at].worth;
       at = nodes_[at].edge->first.from)
    nodes_[at].worth = true;
}

ChainKey PrefixIndex::key_of(std::string_view owner, std::optional<BlockId> block) const {
  require(keyed_.has_value());
  return block ? nodes_[*block].key : root_key(keyed_->space, owner);
}

KeyedBlock PrefixIndex::keyed_block(BlockId block) const {
  const Node& node = nodes_[block];
  return {block, node.depth, node.key, root_key(keyed_->space, node.owner)};
}

std::vector<KeyedBlock> PrefixIndex::keyed_blocks() const {
  std::vector<KeyedBlock> all;
  if (!keyed_) return all;
  for (BlockId block = 0; block < nodes_.size(); ++block)
    if (nodes_[block].kept && nodes_[block].worth) all.push_back(keyed_block(block));
  std::ranges::stable_sort(all, {}, &KeyedBlock::depth);
  return all;
}

void PrefixIndex::lease(BlockId block) {
  Node& node = nodes_[block];
  require(node.kept);
  if (node.leases++ > 0) return;
  --idle_;
  evictable_.erase(entry_of(block));
}

void PrefixIndex::release(BlockId block) {
  Node& node = nodes_[block];
  require(node.kept && node.leases > 0);
  if (--node.leases > 0) return;
  ++idle_;
  node.released = ++clock_;
  if (evictable(node)) evictable_.insert(entry_of(block));
}

// ---- named prefixes ---------------------------------------------------------------------------------------

PrefixIndex::PrefixBits PrefixIndex::prefixes_after(std::string_view owner, std::optional<BlockId> before,
                                                    std::span<const Token> tokens) const {
  const auto names = named_.find(owner);
  if (names == named_.end()) return 0;
  const std::size_t at = before ? (std::size_t{nodes_[*before].depth} + 1) * block_size_ : 0;
  PrefixBits bits = 0;
  for (const auto& [name, prefix] : names->second) {
    if (before && (nodes_[*before].prefixes & prefix.bit) == 0) continue;
    if (at < prefix.tokens.size() &&
        std::ranges::equal(std::span(prefix.tokens).subspan(at, block_size_), tokens))
      bits |= prefix.bit;
  }
  return bits;
}

void PrefixIndex::count_prefixes(const Node& node, bool comes) {
  if (node.prefixes == 0) return;
  for (auto& [name, prefix] : named_.find(node.owner)->second)
    if ((node.prefixes & prefix.bit) != 0) prefix.blocks += comes ? 1U : -1U;
}

void PrefixIndex::set_prefixes(BlockId block, PrefixBits bits) {
  const bool listed = evictable_.erase(entry_of(block)) > 0;
  nodes_[block].prefixes = bits;
  if (listed) evictable_.insert(entry_of(block));
}

std::vector<BlockId> PrefixIndex::keep_prefix(std::string_view owner, std::string_view name,
                                              std::span<const Token> tokens) {
  require(!tokens.empty() && tokens.size() % block_size_ == 0);
  auto names = named_.find(owner);
  if (names == named_.end()) names = named_.emplace(std::string(owner), NamedPrefixes{}).first;
  const auto same = names->second.find(name);
  if (same != names->second.end() && std::ranges::equal(same->second.tokens, tokens)) return {};

  PrefixBits taken = 0;
  for (const auto& [other, prefix] : names->second) taken |= prefix.bit;
  NamedPrefix next{{tokens.begin(), tokens.end()}, PrefixBits{1} << std::countr_one(taken), 0};
  require(names->second.size() - (same == names->second.end() ? 0 : 1) < kMostPrefixes);
  for (const BlockId block : find(owner, tokens)) {
    set_prefixes(block, nodes_[block].prefixes | next.bit);
    ++next.blocks;
  }
  // The new bits are there before the old ones go: what both begin with stays.
  std::vector<BlockId> freed;
  if (same != names->second.end()) freed = drop_prefix(owner, name);
  named_[std::string(owner)].emplace(name, std::move(next));
  return freed;
}

std::vector<BlockId> PrefixIndex::drop_prefix(std::string_view owner, std::string_view name) {
  std::vector<BlockId> freed;
  const auto names = named_.find(owner);
  if (names == named_.end()) return freed;
  const auto it = names->second.find(name);
  if (it == names->second.end()) return freed;
  const NamedPrefix prefix = std::move(it->second);
  names->second.erase(it);
  const std::vector<BlockId> blocks = find(owner, prefix.tokens);
  for (const BlockId block : blocks) set_prefixes(block, nodes_[block].prefixes & ~prefix.bit);
  for (auto block = blocks.rbegin(); block != blocks.rend();
       ++block) {  // each before the one that it follows
    if (nodes_[*block].prefixes != 0 || !evictable(nodes_[*block])) break;
    remove(*block);
    freed.push_back(*block);
  }
  if (names->second.empty()) named_.erase(names);
  return freed;
}

std::uint32_t PrefixIndex::prefix_blocks(std::string_view owner, std::string_view name) const {
  const auto names = named_.find(owner);
  if (names == named_.end()) return 0;
  const auto it = names->second.find(name);
  return it == names->second.end() ? 0 : it->second.blocks;
}

std::optional<PrefixIndex::PrefixRun> PrefixIndex::prefix_of(std::string_view owner,
                                                             std::span<const BlockId> blocks) const {
  const auto names = named_.find(owner);
  if (names == named_.end()) return std::nullopt;
  std::optional<PrefixRun> longest;
  for (const auto& [name, prefix] : names->second) {
    const auto beyond = std::ranges::find_if(
        blocks, [&](BlockId block) { return (nodes_[block].prefixes & prefix.bit) == 0; });
    const auto run = static_cast<std::uint32_t>(beyond - blocks.begin());
    if (run > 0 && (!longest || run > longest->blocks)) longest = PrefixRun{name, run};
  }
  return longest;
}

std::optional<BlockId> PrefixIndex::evict() {
  if (evictable_.empty()) return std::nullopt;
  const BlockId block = std::get<BlockId>(*evictable_.begin());
  if (nodes_[block].worth) evicted_.push_back(keyed_block(block));
  remove(block);
  return block;
}

std::vector<BlockId> PrefixIndex::forget(BlockId block) {
  require(contains(block));
  std::vector<BlockId> all{block};  // each before those that follow it
  for (std::size_t i = 0; i < all.size(); ++i)
    for (auto edge = edges_.lower_bound(EdgeView{all[i], {}});
         edge != edges_.end() && edge->first.from == all[i]; ++edge)
      all.push_back(edge->second);
  for (auto leaf = all.rbegin(); leaf != all.rend(); ++leaf) remove(*leaf);
  return all;
}

std::uint32_t& PrefixIndex::children_of(const Node& node) {
  const Origin from = node.edge->first.from;
  if (from < nodes_.size()) return nodes_[from].children;
  return roots_.find(node.owner)->second.children;
}

void PrefixIndex::remove(BlockId block) {
  Node& node = nodes_[block];
  require(node.kept && node.children == 0);
  evictable_.erase(entry_of(block));
  count_prefixes(node, false);
  if (node.leases == 0) --idle_;
  --size_;
  const Origin from = node.edge->first.from;
  const bool last = --children_of(node) == 0;
  if (from < nodes_.size()) {
    const Node& parent = nodes_[from];
    if (evictable(parent)) evictable_.insert(entry_of(static_cast<BlockId>(from)));
  } else if (last) {
    roots_.erase(roots_.find(node.owner));
  }
  edges_.erase(node.edge);
  node = {};
}

bool PrefixIndex::balanced() const {
  std::uint32_t kept = 0, idle = 0, leaves = 0;
  std::map<Origin, std::uint32_t> children;
  for (BlockId block = 0; block < nodes_.size(); ++block) {
    const Node& node = nodes_[block];
    if (!node.kept) continue;
    ++kept;
    if (node.leases == 0) ++idle;
    if (evictable(node) != evictable_.contains(entry_of(block))) return false;
    if (evictable(node)) ++leaves;
    if (node.edge->second != block || node.edge->first.tokens.size() != block_size_) return false;
    const Origin from = node.edge->first.from;
    ++children[from];
    if (from < nodes_.size()) {
      const Node& parent = nodes_[from];
      if (!parent.kept || parent.owner != node.owner || parent.leases < node.leases) return false;
      if (parent.depth + 1 != node.depth || (node.prefixes & ~parent.prefixes) != 0) return false;
    } else {
      const auto root = roots_.find(node.owner);
      if (root == roots_.end() || root->second.origin != from) return false;
    }
  }
  for (BlockId block = 0; block < nodes_.size(); ++block)
    if (nodes_[block].children != (children.contains(block) ? children[block] : 0)) return false;
  for (const auto& [owner, root] : roots_)
    if (root.children == 0 || root.children != children[root.origin]) return false;
  for (const auto& [owner, names] : named_)
    for (const auto& [name, prefix] : names) {
      const auto blocks = find(owner, prefix.tokens);
      if (blocks.size() != prefix.blocks) return false;
      for (const BlockId block : blocks)
        if ((nodes_[block].prefixes & prefix.bit) == 0) return false;
    }
  return kept == size_ && kept == edges_.size() && idle == idle_ && leaves == evictable_.size();
}

}  // namespace flyball::kv
