// A row of logits cut down to what its sampler looks at: what a device hands over where whole rows would have
// to be copied to the host.
#pragma once

#include <cstdint>
#include <span>

#include "backends/backend.hpp"

namespace flyball::decode {

struct Likely {
  Token token = 0;
  float value = 0.0F;
};

struct Candidates {
  std::span<const Likely> likeliest;  // the row's, by logit; equal ones by id
  float exp_sum = 0.0F;  // over the row, of e^(logit - the best one's); 0 where it was not asked for
  bool finite = true;    // false: some logit of the row is NaN or infinite, and the rest means nothing
};

inline bool all_finite(const Candidates& row) noexcept {
  return row.finite;
}

}  // namespace flyball::decode
