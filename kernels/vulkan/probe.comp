#version 460
#extension GL_GOOGLE_include_directive : require
// Proof that a device computes: element i becomes i * 2654435761 + its value (backends/device_report.hpp), by the calling
// convention of all kernels. x: [count] uint.
#include "common.glsl"

PUSH(ElementwisePush);

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < push.count) Uints(push.x).v[i] += i * 2654435761u;
}
