// The prefixes that apps have kept in this engine, and what they saved. Which of their blocks are in memory
// is the scheduler's to know. The engine thread's own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/engine/scheduler.hpp"
#include "backends/kv/chain_key.hpp"

namespace flyball::engine {

class KeptPrefixes {
 public:
  static constexpr std::size_t kMostInEngine = 256;

  // keyed: KV can lie on disk, under its keys.
  KeptPrefixes(std::uint32_t kv_blocks, std::uint32_t block_size, std::optional<kv::Keyed> keyed)
      : kv_blocks_(kv_blocks), block_size_(block_size), keyed_(std::move(keyed)) {}

  // Names `tokens` (whole blocks, at least one), in place of what the name stood for.
  // token_limit_exceeded: the owner's prefixes would have more than `limit` tokens together (0: no limit).
  // insufficient_memory: all prefixes would take more than half of the KV. overloaded: there are
  // kMostInEngine, or the owner has kMaxKeptPrefixes.
  Result<void> keep(Scheduler& scheduler, const std::string& owner, const std::string& name,
                    std::span<const Token> tokens, std::uint64_t limit);
  void drop(Scheduler& scheduler, const std::string& owner, const std::string& name);
  // The scheduler is a new one.
  void keep_again(Scheduler& scheduler) const;
  // A request began with so many tokens of a prefix, and did not compute them.
  void used(const std::string& owner, std::string_view name, std::uint32_t tokens);

  bool empty() const noexcept { return prefixes_.empty(); }
  // on_disk: whether the disk has a block; absent: there is none.
  std::vector<KeptPrefixState> states(const kv::KvAccountant& kv,
                                      const std::function<bool(const kv::ChainKey&)>& on_disk) const;

 private:
  struct Prefix {
    std::vector<Token> tokens;
    std::vector<kv::ChainKey> keys;  // of its blocks; empty: KV lies nowhere else
    std::uint64_t uses = 0, saved_tokens = 0;
  };
  using Name = std::pair<std::string, std::string>;  // owner, name

  const std::uint32_t kv_blocks_, block_size_;
  const std::optional<kv::Keyed> keyed_;
  std::map<Name, Prefix> prefixes_;
};

}  // namespace flyball::engine
