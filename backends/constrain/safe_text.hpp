// The text that stands for itself inside a JSON string: well-formed UTF-8 without quotes, backslashes and
// control characters, as an automaton over bytes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace flyball::constrain::safe_text {

using State = std::uint8_t;
inline constexpr State kBetween = 0;  // between characters; the others are within one

struct Edge {
  std::uint8_t from, to;  // both within
  State next;
};

// The edges of a state in the order of their bytes (Unicode 15, table 3-7).
std::span<const Edge> edges(State state) noexcept;

// The number of characters of a whole text; nullopt if the text is not safe.
std::optional<std::size_t> characters(std::string_view text) noexcept;

}  // namespace flyball::constrain::safe_text
