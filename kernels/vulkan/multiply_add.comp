#version 460
#extension GL_GOOGLE_include_directive : require
// How fast this device multiplies and adds f32, in registers. An invocation does 2 * kChains * rounds operations. A sum
// takes its neighbour's value of the round before, or compilers would do one chain after the other and wait for each sum;
// and rounds are unrolled, because software devices mask and store what a loop carries from one to the next.
#include "common.glsl"

const uint kChains = 12;  // at least latency x pipes: 4 x 2 on current processors
const uint kUnrolled = 64;  // divides push.rounds

PUSH(MultiplyAddPush);

void main() {
  float sum[kChains];
  EACH(k, kChains) sum[k] = push.first;
  for (uint i = 0; i < push.rounds; i += kUnrolled)
    EACH(j, kUnrolled) EACH(k, kChains) sum[k] = fma(sum[k], sum[(k + 1) % kChains], push.term);
  float all = sum[0];
  EACH(k, kChains - 1) all += sum[k + 1];
  Floats(push.to).v[gl_GlobalInvocationID.x] = all;
}
