#include "backends/kv/prefix_index.hpp"

#include <algorithm>
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
  if (keyed_) set_key(node, before, tokens);
  node.edge = edges_.emplace(Edge{from, {tokens.begin(), tokens.end()}}, block).first;
  if (before) evictable_.erase({nodes_[*before].released, *before});
  ++children_of(node);
  ++size_;
  ++idle_;
  evictable_.emplace(node.released, block);
  return block;
}

// The blocks before one that makes its run long enough are worth it from then on.
void PrefixIndex::set_key(Node& node, std::optional<BlockId> before, std::span<const Token> tokens) {
  node.key = next_key(key_of(node.owner, before), tokens);
  node.depth = before ? nodes_[*before].depth + 1 : 0;
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
  evictable_.erase({node.released, block});
}

void PrefixIndex::release(BlockId block) {
  Node& node = nodes_[block];
  require(node.kept && node.leases > 0);
  if (--node.leases > 0) return;
  ++idle_;
  node.released = ++clock_;
  if (evictable(node)) evictable_.emplace(node.released, block);
}

std::optional<BlockId> PrefixIndex::evict() {
  if (evictable_.empty()) return std::nullopt;
  const BlockId block = evictable_.begin()->second;
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
  evictable_.erase({node.released, block});
  if (node.leases == 0) --idle_;
  --size_;
  const Origin from = node.edge->first.from;
  const bool last = --children_of(node) == 0;
  if (from < nodes_.size()) {
    const Node& parent = nodes_[from];
    if (evictable(parent)) evictable_.emplace(parent.released, static_cast<BlockId>(from));
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
    if (evictable(node) != evictable_.contains({node.released, block})) return false;
    if (evictable(node)) ++leaves;
    if (node.edge->second != block || node.edge->first.tokens.size() != block_size_) return false;
    const Origin from = node.edge->first.from;
    ++children[from];
    if (from < nodes_.size()) {
      const Node& parent = nodes_[from];
      if (!parent.kept || parent.owner != node.owner || parent.leases < node.leases) return false;
    } else {
      const auto root = roots_.find(node.owner);
      if (root == roots_.end() || root->second.origin != from) return false;
    }
  }
  for (BlockId block = 0; block < nodes_.size(); ++block)
    if (nodes_[block].children != (children.contains(block) ? children[block] : 0)) return false;
  for (const auto& [owner, root] : roots_)
    if (root.children == 0 || root.children != children[root.origin]) return false;
  return kept == size_ && kept == edges_.size() && idle == idle_ && leaves == evictable_.size();
}

}  // namespace flyball::kv
