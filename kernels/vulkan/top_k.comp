#version 460
#extension GL_GOOGLE_include_directive : require
// The k likeliest of each asked row of logits, by value, equal ones by index; and the sum of e^(x - best), from which
// probabilities follow. A tournament: value i plays in share i % kShares, the best of the shares' best is taken, and
// its share alone is looked through again. A row a work-group. Unrolled, its loops have some 51,000 turns for 4,194,304
// values, k = 64 and work-groups of 64: llvmpipe would end them after 65,535.
#include "common.glsl"
#include "rank.glsl"
#include "reduce.glsl"

const uint kShares = 256;  // a multiple of WG; more: less to look through again, more bests to compare

PUSH(TopKPush);

shared uint64_t best[kShares];  // of what is left in each share; 0: nothing is

// The invocation's part. In stretches, so that no sum has more than some hundred terms.
float sum_of_exp(Floats row, uint n, float most) {
  float sum = 0.0;
  for (uint first = 0; first < n; first += 256 * WG) {
    float stretch = 0.0;
    for (uint i = first + gl_LocalInvocationID.x; i < min(first + 256 * WG, n); i += 4 * WG)
      EACH(j, 4)
        if (i + j * WG < n) stretch += exp(row.v[i + j * WG] - most);
    sum += stretch;
  }
  return sum;
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  Uints asked = Uints(push.asked + 20ul * gl_WorkGroupID.y);
  const uint k = asked.v[1], n = asked.v[2];
  Floats row = floats(push.logits, asked.v[0], push.cols);
  Uints to = Uints(push.to + 8ul * asked.v[4]);

  // An invocation owns the shares s % WG == lane, here and below; the barriers of group_max() show them to all.
  for (uint s = lane; s < kShares; s += WG) best[s] = 0;
  barrier();
  uint broken = 0;
  for (uint at = 0; at < n; at += kShares)
    EACH(j, kShares / WG) {
      const uint s = j * WG + lane;
      if (at + s < n) {
        const float x = row.v[at + s];
        broken |= uint((floatBitsToUint(x) & 0x7f800000u) == 0x7f800000u);
        best[s] = max(best[s], rank_of(x, at + s));
      }
    }
  broken = uint(group_max(broken));

  float sum = 0.0;
  for (uint taken = 0; taken < k; ++taken) {
    uint64_t top = 0;
    for (uint s = lane; s < kShares; s += WG) top = max(top, best[s]);
    top = group_max(top);
    const uint id = id_of(top);
    const float value = row.v[id];
    if (lane == 0) {
      to.v[2 * (1 + taken)] = id;
      to.v[2 * (1 + taken) + 1] = floatBitsToUint(value);
    }
    if (taken == 0 && asked.v[3] != 0) sum = group_sum(sum_of_exp(row, n, value));
    if (taken + 1 == k) break;

    const uint share = id % kShares;
    uint64_t next = 0;
    for (uint i = share + lane * kShares; i < n; i += WG * kShares) {
      const uint64_t rank = rank_of(row.v[i], i);
      if (rank < top) next = max(next, rank);
    }
    next = group_max(next);
    if (lane == 0) best[share] = next;
    barrier();
  }
  if (lane == 0) {
    to.v[0] = broken;
    to.v[1] = floatBitsToUint(sum);
  }
}
