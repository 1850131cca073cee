// What the gate of a gated feed-forward goes through.
#pragma once

#include <cstdint>

namespace flyball::kernels {

enum class Activation : std::uint8_t {
  silu,  // x / (1 + e^-x)
  // By tanh [arXiv:1606.08415], x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3), which is
  // x / (1 + e^-2u).
  gelu,
};

}  // namespace flyball::kernels
