#version 460
#extension GL_GOOGLE_include_directive : require
// How fast this device multiplies and adds f32: independent chains of fma in registers, no memory. An invocation does
// 2 * kChains * rounds operations.
#include "common.glsl"

const uint kChains = 12;  // at least latency x pipes: 4 x 2 on current processors

PUSH(MultiplyAddPush);

void main() {
  float sum[kChains];
  EACH(k, kChains) sum[k] = float(k);
  for (uint i = 0; i < push.rounds; ++i) EACH(k, kChains) sum[k] = fma(sum[k], push.factor, push.term);
  float all = sum[0];
  EACH(k, kChains - 1) all += sum[k + 1];
  Floats(push.to).v[gl_GlobalInvocationID.x] = all;
}
