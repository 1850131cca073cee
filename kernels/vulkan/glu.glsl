// A gated linear unit's elementwise part [arXiv:2002.05202].
layout(constant_id = 1) const uint kGelu = 0;  // else silu: kernels/formats/activation.hpp

float gated(float gate, float up) {
  const float exponent = kGelu != 0 ? -1.5957691 * fma(0.044715 * gate * gate, gate, gate) : -gate;
  return gate / (1.0 + exp(exponent)) * up;
}
