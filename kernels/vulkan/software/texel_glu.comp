#version 460
#extension GL_GOOGLE_include_directive : require
// glu.comp for software devices: a multiple of eight values.
#include "eights.glsl"
#include "../glu.glsl"

// Places are bytes into what the sets hold, multiples of 32, from its first byte on. Each value is read once, and then
// written by who read it.
layout(set = 0, binding = 0) uniform usamplerBuffer x_texels;
layout(set = 0, binding = 1, scalar) buffer Out { u64vec4 to[]; };
layout(set = 1, binding = 0) uniform usamplerBuffer y_texels;
PUSH(ElementwisePush);

void main() {
  const uint x_at = uint(push.x) / 32, y_at = uint(push.y) / 32;
  for (uint i = gl_GlobalInvocationID.x; i < push.count / 8; i += gl_NumWorkGroups.x * WG) {
    float x[8], y[8];
    fetch(x_texels, x_at + i, x);
    fetch(y_texels, y_at + i, y);
    EACH(c, 8) x[c] = gated(x[c], y[c]);
    to[x_at + i] = packed_eight(x);
  }
}
