// A model's tokens as bytes, laid out for walks beside an automaton. Built once for a model; immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace flyball::constrain {

using TokenId = std::uint32_t;

// The prefixes of some tokens in preorder, so that a walk reads memory forward.
struct Trie {
  static constexpr TokenId kNone = std::numeric_limits<TokenId>::max() >> 1U;
  struct Node {
    TokenId token : 31;        // the token that ends here, or kNone
    TokenId has_twins : 1;     // more tokens have the same bytes
    std::uint32_t after = 0;   // the first node behind this one's subtree
    std::uint32_t byte : 8;    // the last byte of the prefix
    std::uint32_t depth : 24;  // bytes of the prefix
  };
  std::vector<Node> nodes;
  std::uint32_t depth = 0;  // of the deepest
};

class Vocabulary {
 public:
  // Longer tokens are never allowed. The longest of GPT-2, Llama 3 and Qwen 2 have 128 bytes.
  static constexpr std::size_t kLongest = 1024;
  // A mask takes all safe tokens (safe_text.hpp) of up to n characters at once if the grammar allows any safe
  // text of n characters. Nearly all tokens have at most 16: larger n are not told apart.
  static constexpr std::size_t kCounted = 16;
  static constexpr std::size_t kAll = kCounted + 1;
  // Safe tokens lie in tries by their number of characters, so that a walk can leave out whole tries.
  static constexpr std::size_t kSlices = 3;
  static constexpr std::array<std::size_t, kSlices + 1> kBounds{0, 4, 16,
                                                                std::numeric_limits<std::size_t>::max()};

  // tokens[i]: the bytes of token i. Those without bytes, `forbidden` ones and `ends` are no text; an end is
  // allowed where a word may end. Preconditions: fewer than 2^31 - 1 tokens, ids below their number.
  Vocabulary(std::span<const std::string_view> tokens, std::span<const TokenId> forbidden,
             std::span<const TokenId> ends);

  std::size_t size() const noexcept { return size_; }
  std::size_t words() const noexcept { return (size_ + 63) / 64; }  // of a mask
  std::uint32_t longest() const noexcept { return longest_; }       // token, in bytes

  // Safe tokens of over kBounds[i] and up to kBounds[i + 1] characters.
  const Trie& slice(std::size_t i) const { return tries_[i]; }
  const Trie& rest() const { return tries_[kSlices]; }  // all other tokens
  // The safe tokens of up to so many characters, of any number for kAll.
  std::span<const std::uint64_t> bits(std::size_t characters) const { return bits_[characters]; }
  std::size_t count(std::size_t characters) const { return counts_[characters]; }  // of those
  std::span<const TokenId> ends() const noexcept { return ends_; }

  // Calls f(id) for every other token with the bytes of `token`, which is one of a trie.
  template <class F>
  void each_twin(TokenId token, F f) const {
    for (const Twin& twin : twins_of(token)) f(twin.twin);
  }
  std::size_t memory() const noexcept;

 private:
  struct Twin {
    TokenId token = 0, twin = 0;  // `token` is the one in the trie
    auto operator<=>(const Twin&) const = default;
  };
  std::span<const Twin> twins_of(TokenId token) const;
  Trie make_trie(std::vector<TokenId> tokens, std::span<const std::string_view> bytes);

  std::size_t size_ = 0;
  std::uint32_t longest_ = 0;
  std::array<Trie, kSlices + 1> tries_;
  std::array<std::vector<std::uint64_t>, kAll + 1> bits_;
  std::array<std::size_t, kAll + 1> counts_{};
  std::vector<Twin> twins_;  // in order
  std::vector<TokenId> ends_;
};

}  // namespace flyball::constrain
