// How much of a prompt an engine should still hold for its app: keyed hashes over the prompt's beginnings, a
// block of 256 bytes at a time. A block that was computed is taken to be held until its engine ends, or has
// computed as much else as its KV has room for. Bounded: one table for all engines. The app that has most in
// it at one engine gives way first, so that no app's prompts push out those of another app or engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/backend.hpp"
#include "config/keyed_hash.hpp"

namespace flyball::predict {

inline constexpr std::size_t kBlockBytes = 256;
// No more of a prompt is hashed: a millisecond's work.
inline constexpr std::size_t kMostHashed = std::size_t{1} << 20;

// A prompt as the predictor knows it. blocks[i] stands for its first (i + 1) * kBlockBytes bytes.
struct PromptPrint {
  std::uint64_t app = 0;  // its hash
  std::uint64_t bytes = 0;
  std::uint32_t tokens = 0;  // 0: not known
  std::vector<std::uint64_t> blocks = {};
};
// A chat's print is of its tools and messages one after the other, so that a chat that goes on begins as it
// did, and so does one whose message goes on.
PromptPrint print_of(const Prompt& prompt, std::string_view app, const KeyedHash& hash);

// This process's key, so that prints taken by any of its threads can be compared.
const KeyedHash& print_key();

// Bytes that both begin with, in whole blocks.
std::uint64_t common_bytes(const PromptPrint& a, const PromptPrint& b) noexcept;

class PrefixBlocks {
 public:
  static constexpr std::size_t kEntries = std::size_t{1} << 17;  // 32 MiB of prompts, in 2 MiB

  // One engine's part of the table.
  struct Holder {
    std::uint64_t salt = 0;     // forget() gives another one
    std::uint64_t written = 0;  // bytes computed so far
    std::uint64_t room = 0;     // bytes that its KV has room for; 0: not known
  };

  // The engine holds nothing: it is new, or another process.
  void forget(Holder& holder);
  // Bytes at the beginning of a prompt.
  std::uint64_t held(const Holder& holder, const PromptPrint& prompt) const;
  // The engine has computed the prompt: its blocks are the latest.
  void computed(Holder& holder, const PromptPrint& prompt);

 private:
  static constexpr std::size_t kWays = 8;
  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t owner = 0;
    std::uint64_t written = 0;  // Holder::written when it was used last
    std::uint64_t used = 0;     // 0: free
  };
  // One app at one engine process.
  struct Owner {
    std::uint64_t salt = 0;
    std::size_t entries = 0;
  };
  static std::uint64_t key_of(const Holder& holder, std::uint64_t block) noexcept;
  bool holds(const Holder& holder, std::uint64_t block) const;
  std::size_t entries_of(const Entry& entry) const;
  Entry& oldest_of_largest(std::span<Entry> ways) const;

  std::vector<Entry> entries_;  // kWays for one key; made when first used
  std::unordered_map<std::uint64_t, Owner> owners_;  // of the entries; those of ended processes are gone
  std::uint64_t uses_ = 0, salts_ = 0;
};

}  // namespace flyball::predict
