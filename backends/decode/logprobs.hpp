// Log-probabilities of a row of logits as the model gave it: log-softmax over the full vocabulary, before
// bias, penalties and temperature (what OpenAI's logprobs mean).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/decode/sampler.hpp"

namespace flyball::decode {

struct Logprobs {
  float chosen = 0.0F;
  std::vector<Likely> top;  // value: log-probability; likeliest first, equal ones by id
};

// One pass over the vocabulary, no sort. Preconditions: logits finite; chosen is an index of them.
Logprobs logprobs(std::span<const float> logits, Token chosen, std::uint32_t n_top);
// The same of the row these were cut from. Preconditions: finite, with exp_sum; chosen is one of the
// likeliest, of which there are n_top (or all that the row has).
Logprobs logprobs(const Candidates& row, Token chosen, std::uint32_t n_top);

}  // namespace flyball::decode
