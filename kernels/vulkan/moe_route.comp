#version 460
#extension GL_GOOGLE_include_directive : require
// The router of a mixture of experts [arXiv:2401.04088]: for each row the n_used likeliest of n_experts, likeliest first
// and of equals the lower id, weighed by the softmax of their own values: the softmax over all, divided by the chosen
// ones' share. A row a work-group.
#include "common.glsl"
#include "rank.glsl"
#include "reduce.glsl"

PUSH(MoeRoutePush);

void main() {
  const uint lane = gl_LocalInvocationID.x, row = gl_WorkGroupID.y;
  Floats router = floats(push.router, row, push.n_experts), weights = floats(push.weights, row, push.n_used);
  Uints experts = Uints(push.experts + 4ul * row * push.n_used);
  bool broken = false;
  for (uint e = 0; e < push.n_experts; ++e) broken = broken || isnan(router.v[e]);
  uint64_t last = ~0ul;  // what ranks below it is still to be had: no marks are needed
  float most = 0.0, sum = 0.0;
  for (uint use = 0; use < push.n_used; ++use) {
    uint64_t best = 0;
    for (uint e = lane; e < push.n_experts; e += WG) {
      const uint64_t rank = rank_of(router.v[e], e);
      if (rank < last) best = max(best, rank);
    }
    last = group_max(best);
    // A row with a NaN chooses nothing: the last experts stand in, and the NaN shows in the logits. Each once, as of
    // any row: what multiplies by experts counts on it.
    const uint id = broken ? push.n_experts - 1 - use : id_of(last);
    const float value = router.v[id];
    if (use == 0) most = value;
    const float weight = broken ? uintBitsToFloat(0x7fc00000u) : exp(value - most);
    sum += weight;
    if (lane == 0) {
      experts.v[use] = id;
      weights.v[use] = weight;
    }
  }
  if (lane == 0)
    for (uint use = 0; use < push.n_used; ++use) weights.v[use] /= sum;
}
