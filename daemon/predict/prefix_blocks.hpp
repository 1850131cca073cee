// How much of a prompt an engine should still hold for its app: keyed hashes over the prompt's beginnings, a
// block of 256 bytes at a time. A block that was computed is taken to be held until its engine ends, or has
// computed as much else as its KV has room for. Bounded: one table for all engines, in which the blocks used
// longest ago give way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "config/keyed_hash.hpp"

namespace flyball::predict {

inline constexpr std::size_t kBlockBytes = 256;
// No more of a prompt is hashed: a millisecond's work.
inline constexpr std::size_t kMostHashed = std::size_t{1} << 20;

// A prompt as the predictor knows it. blocks[i] stands for its first (i + 1) * kBlockBytes bytes.
struct PromptPrint {
  std::uint64_t bytes = 0;
  std::uint32_t tokens = 0;  // 0: not known
  std::vector<std::uint64_t> blocks;
};
// Of a chat: its tools and messages one after the other, so that a chat that goes on begins as it did.
PromptPrint print_of(const Prompt& prompt, std::string_view app, const KeyedHash& hash);

class PrefixBlocks {
 public:
  static constexpr std::size_t kEntries = std::size_t{1} << 17;  // 32 MiB of prompts, in 2 MiB

  // One engine's part of the table.
  struct Holder {
    std::uint64_t salt = 0;     // another one forgets all that it holds
    std::uint64_t written = 0;  // bytes computed so far
    std::uint64_t room = 0;     // bytes that its KV has room for; 0: not known
  };

  // Bytes at the beginning of a prompt.
  std::uint64_t held(const Holder& holder, const PromptPrint& prompt) const;
  // The engine has computed the prompt: its blocks are the latest.
  void computed(Holder& holder, const PromptPrint& prompt);

 private:
  static constexpr std::size_t kWays = 8;
  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t written = 0;  // Holder::written when it was used last
    std::uint64_t used = 0;     // 0: free
  };
  static std::uint64_t key_of(const Holder& holder, std::uint64_t block) noexcept;
  bool holds(const Holder& holder, std::uint64_t block) const;

  std::vector<Entry> entries_;  // kWays for one key; made when first used
  std::uint64_t uses_ = 0;
};

}  // namespace flyball::predict
