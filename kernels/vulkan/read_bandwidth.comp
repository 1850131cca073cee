#version 460
#extension GL_GOOGLE_include_directive : require
// How fast kernels on this device can read: a work-group reads its share of `words` pairs of 64 bits once, as one run,
// its invocations next to each other, four loads at a time, and keeps their xor.
#include "common.glsl"

PUSH(ReadBandwidthPush);

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Pairs { u64vec2 v[]; };

void main() {
  const uint share = push.words / gl_NumWorkGroups.x;
  Pairs from = Pairs(push.from + 16ul * share * gl_WorkGroupID.x);
  u64vec2 all = u64vec2(0);
  for (uint i = gl_LocalInvocationID.x; i < share; i += 4 * WG) EACH(j, 4) all ^= from.v[i + j * WG];
  const uint64_t folded = all.x ^ all.y;
  Uints(push.to).v[gl_GlobalInvocationID.x] = uint(folded) ^ uint(folded >> 32);
}
