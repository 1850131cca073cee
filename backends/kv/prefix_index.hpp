// What tokens the KV blocks that are kept stand for: a radix tree per owner whose edges are whole blocks of
// tokens, so that a prompt finds the longest run of blocks already computed. Ids only, at most one node a
// block; no clock: the order of release is the age. An owner never sees another one's blocks.
//
// An owner may name prefixes to be kept: their blocks are evicted after all others, and come to be theirs
// again whenever they are inserted again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/kv/block_pool.hpp"
#include "backends/kv/chain_key.hpp"
#include "config/kept_prefix.hpp"

namespace flyball::kv {

// Kept blocks have keys by which they can be found elsewhere, too; those of runs of at least `least_blocks`
// are worth it.
struct Keyed {
  ChainKey space;
  std::uint32_t least_blocks = 1;
};

// A block of such a run.
struct KeyedBlock {
  BlockId block = 0;
  std::uint32_t depth = 0;  // blocks before it
  ChainKey key, root;
};

class PrefixIndex {
 public:
  // Blocks 0 to n_blocks - 1 of block_size (> 0) positions.
  PrefixIndex(std::uint32_t n_blocks, std::uint32_t block_size,
              const std::optional<Keyed>& keyed = std::nullopt);
  PrefixIndex(PrefixIndex&&) = default;  // not to be copied: nodes point into the maps beside them
  PrefixIndex& operator=(PrefixIndex&&) = default;

  // The longest run of kept blocks that `tokens` begins with, whole blocks only, first block first.
  std::vector<BlockId> find(std::string_view owner, std::span<const Token> tokens) const;
  // Keeps `block`, not yet kept, as what `tokens` (one block of them) become after `before` (nullopt: at the
  // start of a prompt). Returns the block that stands for these tokens from now on: `block`, or the one that
  // already did. Precondition: `before` is kept.
  BlockId insert(std::string_view owner, std::optional<BlockId> before, std::span<const Token> tokens,
                 BlockId block);
  bool contains(BlockId block) const { return nodes_[block].kept; }

  // A lease keeps a block from eviction. Whoever leases a block leases those before it too.
  void lease(BlockId block);
  void release(BlockId block);

  // Names `tokens` (whole blocks, at least one) in place of what the name stood for. Returns the blocks of
  // the old prefix that are forgotten, as drop_prefix(). Precondition: the owner has fewer than kMostPrefixes
  // other names.
  static constexpr std::size_t kMostPrefixes = config::kMaxKeptPrefixes;
  std::vector<BlockId> keep_prefix(std::string_view owner, std::string_view name,
                                   std::span<const Token> tokens);
  // Ends a name; one that is unknown is fine. Forgets, and returns, those of its blocks that no other name
  // has, nobody leases and no other block follows.
  std::vector<BlockId> drop_prefix(std::string_view owner, std::string_view name);
  // Blocks kept of what a name stands for; 0 of an unknown one.
  std::uint32_t prefix_blocks(std::string_view owner, std::string_view name) const;
  struct PrefixRun {
    std::string_view name;  // until its name ends
    std::uint32_t blocks = 0;
  };
  // The name that most of these leading blocks of a prompt belong to; nullopt: none.
  std::optional<PrefixRun> prefix_of(std::string_view owner, std::span<const BlockId> blocks) const;

  // Forgets a block that nobody leases and no other follows: the one released longest ago, of those of no
  // named prefix where there are any.
  std::optional<BlockId> evict();
  // Forgets a kept block and all that follow it, leased or not; the forgotten ones.
  std::vector<BlockId> forget(BlockId block);

  // Those evicted since the last call that were worth finding again.
  std::vector<KeyedBlock> take_evicted() { return std::exchange(evicted_, {}); }
  // All that are kept and worth it, each after those before it.
  std::vector<KeyedBlock> keyed_blocks() const;
  // Of a kept block, or (nullopt) of where the owner's prompts begin. Precondition: the index is keyed.
  ChainKey key_of(std::string_view owner, std::optional<BlockId> block) const;

  std::uint32_t size() const noexcept { return size_; }  // blocks kept
  std::uint32_t idle() const noexcept { return idle_; }  // of these, not leased: evict() gives them all
  std::uint32_t leases(BlockId block) const { return nodes_[block].leases; }
  bool balanced() const;  // recounts everything. For tests and idle moments

 private:
  // Where an edge begins: a block, or past all blocks the start of an owner's prompts (never reused).
  using Origin = std::uint64_t;
  struct Edge {
    Origin from = 0;
    std::vector<Token> tokens;  // [block_size]
  };
  struct EdgeView {
    Origin from = 0;
    std::span<const Token> tokens;
  };
  struct EdgeLess {
    using is_transparent = void;
    static EdgeView view(const Edge& e) { return {e.from, e.tokens}; }
    static EdgeView view(const EdgeView& e) { return e; }
    bool operator()(const auto& left, const auto& right) const { return less(view(left), view(right)); }
    static bool less(const EdgeView& left, const EdgeView& right);
  };
  // An ordered map, not a hash: nobody can choose tokens that make it slow.
  using Edges = std::map<Edge, BlockId, EdgeLess>;
  using PrefixBits = std::uint32_t;  // a bit for each of an owner's names
  struct Node {
    bool kept = false;
    std::uint32_t children = 0, leases = 0;
    std::uint64_t released = 0;  // when; the order of eviction
    Edges::iterator edge;
    std::string_view owner;  // of roots_
    std::uint32_t depth = 0;  // blocks before it
    PrefixBits prefixes = 0;  // that it belongs to; those before it do, too
    // Where the index is keyed.
    ChainKey key;
    bool worth = false;  // its run has been least_blocks long
  };
  struct NamedPrefix {
    std::vector<Token> tokens;
    PrefixBits bit = 0;
    std::uint32_t blocks = 0;  // kept of it
  };
  using NamedPrefixes = std::map<std::string, NamedPrefix, std::less<>>;  // by name
  // (of a named prefix, released, block)
  using Evictable = std::tuple<bool, std::uint64_t, BlockId>;
  struct Root {
    Origin origin = 0;
    std::uint32_t children = 0;
  };

  bool evictable(const Node& node) const { return node.kept && node.leases == 0 && node.children == 0; }
  Evictable entry_of(BlockId block) const {
    return {nodes_[block].prefixes != 0, nodes_[block].released, block};
  }
  void set_prefixes(BlockId block, PrefixBits bits);
  PrefixBits prefixes_after(std::string_view owner, std::optional<BlockId> before,
                            std::span<const Token> tokens) const;
  void count_prefixes(const Node& node, bool comes);
  std::uint32_t& children_of(const Node& node);
  void remove(BlockId block);  // a leaf
  void set_key(Node& node, std::optional<BlockId> before, std::span<const Token> tokens);
  KeyedBlock keyed_block(BlockId block) const;

  std::uint32_t block_size_;
  std::optional<Keyed> keyed_;
  std::vector<KeyedBlock> evicted_;
  std::uint32_t size_ = 0, idle_ = 0;
  std::uint64_t clock_ = 0;
  Origin next_root_;
  std::map<std::string, Root, std::less<>> roots_;  // owners that have blocks
  Edges edges_;
  std::vector<Node> nodes_;                                // by block
  std::set<Evictable> evictable_;
  std::map<std::string, NamedPrefixes, std::less<>> named_;  // by owner
};

}  // namespace flyball::kv
