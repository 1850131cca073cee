#version 460
#extension GL_GOOGLE_include_directive : require
// How fast kernels on this device can read: every invocation reads its share of `words` pairs of 64 bits once, four
// loads at a time, neighbours next to each other, and keeps their xor.
#include "common.glsl"

PUSH(ReadBandwidthPush);

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Pairs { u64vec2 v[]; };

void main() {
  const uint item = gl_GlobalInvocationID.x, items = gl_NumWorkGroups.x * WG;
  Pairs from = Pairs(push.from);
  u64vec2 all = u64vec2(0);
  for (uint i = item; i < push.words; i += 4 * items) EACH(j, 4) all ^= from.v[i + j * items];
  const uint64_t folded = all.x ^ all.y;
  Uints(push.to).v[item] = uint(folded) ^ uint(folded >> 32);
}
