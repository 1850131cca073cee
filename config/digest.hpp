// A short name for a text (FNV-1a, 64 bits). Tells the house's own texts apart; no defence against a text that
// somebody made to collide.
#pragma once

#include <cstdint>
#include <string_view>

namespace flyball::config {

constexpr std::uint64_t digest(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace flyball::config
