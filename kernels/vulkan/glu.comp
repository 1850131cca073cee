#version 460
#extension GL_GOOGLE_include_directive : require
// A gated linear unit's elementwise part [arXiv:2002.05202], over `count` values: x = activation(x) * y.
#include "common.glsl"

layout(constant_id = 1) const uint kGelu = 0;  // else silu: kernels/formats/activation.hpp

PUSH(ElementwisePush);

void main() {
  Floats x = Floats(push.x), y = Floats(push.y);
  for (uint i = gl_GlobalInvocationID.x; i < push.count; i += gl_NumWorkGroups.x * WG) {
    const float gate = x.v[i];
    const float exponent = kGelu != 0 ? -1.5957691 * fma(0.044715 * gate * gate, gate, gate) : -gate;
    x.v[i] = gate / (1.0 + exp(exponent)) * y.v[i];
  }
}
