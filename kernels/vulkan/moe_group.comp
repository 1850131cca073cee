#version 460
#extension GL_GOOGLE_include_directive : require
// Pairs (row, chosen expert) grouped by expert, in order of pair: what moe_matmul reads. A counting sort whose every
// invocation counts for one expert, so that nothing depends on timing. One work-group.
#include "common.glsl"

PUSH(MoeGroupPush);

void main() {
  Uints experts = Uints(push.experts), offsets = Uints(push.offsets), order = Uints(push.order);
  for (uint e = gl_LocalInvocationID.x; e < push.n_experts; e += WG) {
    uint before = 0, mine = 0;
    for (uint p = 0; p < push.pairs; ++p) {
      before += uint(experts.v[p] < e);
      mine += uint(experts.v[p] == e);
    }
    offsets.v[e] = before;
    if (e + 1 == push.n_experts) offsets.v[push.n_experts] = push.pairs;
    for (uint p = 0; mine > 0; ++p) {
      if (experts.v[p] != e) continue;
      order.v[before++] = p;
      --mine;
    }
  }
}
