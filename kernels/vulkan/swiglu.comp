#version 460
#extension GL_GOOGLE_include_directive : require
// SwiGLU's elementwise part [arXiv:2002.05202], over `count` values: x = silu(x) * y; silu(x) = x / (1 + e^-x).
#include "common.glsl"

PUSH(ElementwisePush);

void main() {
  Floats x = Floats(push.x), y = Floats(push.y);
  for (uint i = gl_GlobalInvocationID.x; i < push.count; i += gl_NumWorkGroups.x * WG) {
    const float gate = x.v[i];
    x.v[i] = gate / (1.0 + exp(-gate)) * y.v[i];
  }
}
