#version 460
#extension GL_GOOGLE_include_directive : require
// Proof that a device computes what matmul_dot stands on: y[i] = x[2i] . x[2i + 1], words of four signed bytes.
// x: [count, 2] uint, y: [count] int.
#include "common.glsl"
#include "packed_dot.glsl"

PUSH(ElementwisePush);

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < push.count) Ints(push.y).v[i] = packed_dot(Uints(push.x).v[2 * i], Uints(push.x).v[2 * i + 1], 0);
}
