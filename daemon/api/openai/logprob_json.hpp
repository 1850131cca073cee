// Log probabilities as chat completions and responses have them.
#pragma once

#include <cstddef>
#include <string>

#include "daemon/api/packed_logprobs.hpp"

namespace flyball::api::openai {

// A logprob of minus infinity has no JSON; the API's own spelling of "impossible" is -9999.
void append_logprob(std::string& out, float value);
// {"token","logprob","bytes","top_logprobs":[{"token","logprob","bytes"}]}
void append_token_logprob(std::string& out, const LogprobView& token);
// The most bytes that this appends.
std::size_t most_json_bytes(const TokenLogprob& token) noexcept;

}  // namespace flyball::api::openai
