// The likeliest of a row of logits, and the sum that turns logits into probabilities, in double precision.
#pragma once

#include <cstdint>

namespace flyball::kernels::reference {

// ids: [k], by value, equal ones (0 and -0 are) by id. Returns the sum of e^(x - best) over the n values.
// Preconditions: 1 <= k <= n; no value is NaN.
double top_k(const float* logits, std::uint32_t n, std::uint32_t k, std::uint32_t* ids);

}  // namespace flyball::kernels::reference
