// Ids of equal KV blocks, reference-counted: a block is free when nobody holds it. Ids only; the bytes are
// the device's. Lowest free id is not promised: the last one released is handed out first, its cache lines
// being warm.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace flyball::kv {

using BlockId = std::uint32_t;

class BlockPool {
 public:
  explicit BlockPool(std::uint32_t n_blocks);

  std::optional<BlockId> acquire();  // one reference; nullopt: none free
  void retain(BlockId id);           // one more. Precondition: held
  void release(BlockId id);          // one less. Precondition: held

  std::uint32_t total() const noexcept { return static_cast<std::uint32_t>(references_.size()); }
  std::uint32_t free() const noexcept { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t used() const noexcept { return total() - free(); }
  std::uint32_t references(BlockId id) const noexcept { return references_[id]; }
  // Recounts everything: every block is either free once or referenced. O(total), for tests and idle moments.
  bool balanced() const;

 private:
  std::vector<std::uint32_t> references_;  // by id
  std::vector<BlockId> free_;              // a stack
};

}  // namespace flyball::kv
