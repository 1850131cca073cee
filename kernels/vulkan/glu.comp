#version 460
#extension GL_GOOGLE_include_directive : require
// x = activation(x) * y, over `count` values.
#include "common.glsl"
#include "glu.glsl"

PUSH(ElementwisePush);

void main() {
  Floats x = Floats(push.x), y = Floats(push.y);
  for (uint i = gl_GlobalInvocationID.x; i < push.count; i += gl_NumWorkGroups.x * WG) x.v[i] = gated(x.v[i], y.v[i]);
}
