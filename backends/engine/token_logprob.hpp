// A token's log probability as clients get it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/backend.hpp"
#include "backends/decode/logprobs.hpp"
#include "backends/text/tokenizer.hpp"

namespace flyball::engine {

// row: finite logits, or candidates with exp_sum, in which the token is. n_top: of the likeliest, at most 20.
// bytes: those of a token, as a string.
template <class Row, class Bytes>
TokenLogprob token_logprob(const text::Tokenizer& tokenizer, const Row& row, Token token, std::int32_t n_top,
                           const Bytes& bytes) {
  const auto lp = decode::logprobs(row, token, static_cast<std::uint32_t>(n_top));
  TokenLogprob out;
  out.token = token;
  out.bytes = bytes(token);
  out.logprob = lp.chosen;
  out.in_text = !tokenizer.bytes(token).empty();
  for (const decode::Likely& t : lp.top) out.top.emplace_back(bytes(t.token), t.value);
  return out;
}
template <class Row>
TokenLogprob token_logprob(const text::Tokenizer& tokenizer, const Row& row, Token token,
                           std::int32_t n_top) {
  return token_logprob(tokenizer, row, token, n_top,
                       [&](Token t) { return std::string(tokenizer.bytes(t, true)); });
}

}  // namespace flyball::engine
