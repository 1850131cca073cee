// What an engine asks for before it loads a model, in bytes; what it then holds it says when it is ready.
#pragma once

#include <algorithm>
#include <cstdint>

namespace flyball {

struct MemoryNeed {
  std::uint64_t weight_bytes = 0, scratch_bytes = 0;
  std::uint64_t kv_bytes = 0;        // every sequence with a full context
  std::uint64_t least_kv_bytes = 0;  // one such sequence: with less it does not start
  std::uint64_t least_bytes() const noexcept { return weight_bytes + scratch_bytes + least_kv_bytes; }
  std::uint64_t most_bytes() const noexcept {
    return weight_bytes + scratch_bytes + std::max(kv_bytes, least_kv_bytes);
  }
};

}  // namespace flyball
