#version 460
#extension GL_GOOGLE_include_directive : require
// x = cap * tanh(x / cap), over `count` values. tanh(x) = 1 - 2 / (e^2x + 1), which ends at 1 whatever exp does
// beyond its range.
#include "common.glsl"

PUSH(SoftcapPush);

void main() {
  Floats x = Floats(push.x);
  for (uint i = gl_GlobalInvocationID.x; i < push.count; i += gl_NumWorkGroups.x * WG)
    x.v[i] = push.cap * (1.0 - 2.0 / (exp(x.v[i] * (2.0 / push.cap)) + 1.0));
}
