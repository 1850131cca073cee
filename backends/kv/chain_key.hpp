// What the KV of a block is a function of, in 32 bytes: whose it is, the model and the form it was computed
// in, and every token up to the block's end. By it a block is found outside of the device's memory. SHA-256:
// nobody can choose tokens that lead to another's.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backends/backend.hpp"

namespace flyball::kv {

struct ChainKey {
  std::array<std::byte, 32> bytes{};
  auto operator<=>(const ChainKey&) const = default;
};

// Of everything that is kept in one form: `description` names model, engine, KV type, layout and version.
ChainKey space_key(std::string_view description);
// Of the prompts of one owner, before their first token.
ChainKey root_key(const ChainKey& space, std::string_view owner);
// Of a block with these tokens, after the one (or the root) with the key `before`.
ChainKey next_key(const ChainKey& before, std::span<const Token> tokens);

}  // namespace flyball::kv
