// Finds the tokens that prompts share which begin with a given one: two prompts go on differently, so that
// nothing is assumed of the model's template. A prompt that merges its own first characters with the last
// ones of the text shares a token or two less.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "config/error.hpp"

namespace flyball::engine {

// The prompt, gone on with in two ways: a chat that ends with a system message by a user message, one that
// ends with a user message by more of its content, a text by more text. Other prompts cannot be gone on with:
// invalid_value.
Result<std::array<Prompt, 2>> continued_in_two_ways(const Prompt& prompt);

// The number of tokens that both begin with.
std::size_t common_length(std::span<const Token> a, std::span<const Token> b) noexcept;

}  // namespace flyball::engine
