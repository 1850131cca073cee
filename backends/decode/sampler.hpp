// One token from one row of logits. Order as in llama.cpp: logit_bias, penalties (repetition, frequency,
// presence), then greedy at temperature 0, or top-k, typical, top-p, min-p, temperature, draw. Repetition
// penalty (CTRL, Keskar et al. 2019) sees prompt and answer; frequency and presence penalties (OpenAI) see
// the answer alone. The draw of token i is a pure function of (seed, i): a resumed stream draws the same
// tokens.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "backends/backend.hpp"
#include "backends/decode/candidates.hpp"
#include "config/error.hpp"

namespace flyball::decode {

// Uniform in [0, 1), 53 bits: SplitMix64 (Steele, Lea, Flood 2014) used as a counter-based generator.
double uniform(std::uint64_t seed, std::uint64_t index) noexcept;

// Working memory for rows of one vocabulary, shared by the samplers of an engine (one thread).
struct SamplerScratch {
  std::vector<float> logits;
  std::vector<Likely> candidates;
  std::vector<double> sums;
};

class Sampler {
 public:
  // Params have passed check(); tokens in logit_bias that are not below vocab_size are ignored.
  Sampler(const SamplingParams& params, std::uint32_t vocab_size);

  // Tokens of the prompt: only the repetition penalty looks at them.
  void accept_prompt(std::span<const Token> tokens);
  // A token of the answer, in order, also those of a resumed stream.
  void accept(Token token);

  // The next token; does not accept it. logits: [vocab_size], finite (see all_finite).
  Token sample(std::span<const float> logits, SamplerScratch& scratch) const;

  // The next token among those whose bit is set in `allowed` (bit t % 64 of word t / 64). Preconditions: at
  // least one is, below vocab_size; allowed has words for the whole row: (logits.size() + 63) / 64 or more.
  // Filters see only these tokens.
  Token sample(std::span<const float> logits, std::span<const std::uint64_t> allowed,
               SamplerScratch& scratch) const;

  // How many of a row's likeliest decide the next token just as the whole row does; 0: only the whole row
  // does.
  std::uint32_t candidates() const noexcept;
  // The token that the whole row gives. At least candidates() of it, finite; or all, where it has fewer.
  Token sample(const Candidates& row, SamplerScratch& scratch) const;

 private:
  bool adjusts() const noexcept;
  void adjust(std::span<float> logits) const;
  bool filters() const noexcept;
  bool greedy() const noexcept { return params_.temperature == 0.0F || params_.top_k == 1; }
  float floor_below(float best) const noexcept;
  Token choose(std::span<const float> logits, SamplerScratch& scratch) const;  // of adjusted logits
  Token draw(std::vector<Likely>& candidates) const;

  SamplingParams params_;
  std::uint64_t n_accepted_ = 0;                        // index of the next draw
  std::unordered_map<Token, std::uint32_t> generated_;  // counts, for frequency and presence
  std::unordered_map<Token, std::uint32_t> seen_;       // prompt and answer, for repetition
};

// False: some value is NaN or infinite, the model's arithmetic broke.
bool all_finite(std::span<const float> logits) noexcept;
// The first of the largest. Precondition: not empty.
Token argmax(std::span<const float> logits) noexcept;

}  // namespace flyball::decode
