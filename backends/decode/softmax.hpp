// What the tokens of a whole row weigh, e^((logit - best) / temperature), summed and drawn from by weight:
// for rows as long as vocabularies, so written for a vectorizing compiler.
#pragma once

#include <span>
#include <vector>

#include "backends/backend.hpp"

namespace flyball::decode {

// Tokens that weigh less than e^-40 of the best: with any vocabulary their sum is below float's resolution,
// so they cannot change a draw.
inline constexpr float kNegligible = 40.0F;

struct Softmax {
  float best = 0.0F;         // the row's largest logit
  float temperature = 1.0F;  // above 0

  // Off by less than one part in a million; 0 where it is negligible.
  float weight(float logit) const noexcept;
  double sum(std::span<const float> logits) const noexcept;
  // The token at `share`, in [0, 1), of the weights laid end to end in order of id. sums: working memory.
  Token at(double share, std::span<const float> logits, std::vector<double>& sums) const;
};

}  // namespace flyball::decode
