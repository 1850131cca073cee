// The router of a mixture of experts [arXiv:2401.04088] in double precision.
#pragma once

#include <cstdint>

namespace flyball::kernels::reference {

// Softmax over all n_experts logits; the n_used likeliest, likeliest first and of equal ones the lower id;
// their probabilities divided by their sum.
void moe_route(const float* logits, std::uint32_t n_experts, std::uint32_t n_used, std::uint32_t* experts,
               double* weights);

}  // namespace flyball::kernels::reference
