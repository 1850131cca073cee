// The k likeliest of each asked row of logits, by value, equal ones by index; and the sum of e^(x - best), from which
// probabilities follow. A tournament: value i plays in share i % SHARES, the best of the shares' best is taken, and its
// share alone is looked through again. logits: [rows, cols] f32; out: pairs, see below. A row is a work-group of WG
// work-items; 1 on processors, where the shares are what is vectorized.
#ifndef WG
#define WG 1
#endif
// More shares, less to look through again (vocabulary / SHARES values per candidate), more bests to compare. WG divides it.
#ifndef SHARES
#define SHARES 256
#endif

// Orders values as floats do, whatever the device makes of subnormal ones, and equal ones by falling index. No two are
// alike and none is 0. NaNs have some place or other.
ulong rank_of(float x, uint i) {
  uint bits = as_uint(x);
  if (bits == 0x80000000u) bits = 0;  // -0 equals 0
  bits ^= (uint)((int)bits >> 31) | 0x80000000u;
  return upsample(bits, ~i);
}

// The largest of the group's, for all of it. `tree` is free again afterwards.
ulong group_max(ulong mine, uint lane, __local ulong* tree) {
#if WG > 1
  tree[lane] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint width = WG / 2; width > 0; width /= 2) {
    if (lane < width) tree[lane] = max(tree[lane], tree[lane + width]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  mine = tree[0];
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
  return mine;
}

float group_sum(float mine, uint lane, __local float* tree) {
#if WG > 1
  tree[lane] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint width = WG / 2; width > 0; width /= 2) {
    if (lane < width) tree[lane] += tree[lane + width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  mine = tree[0];
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
  return mine;
}

// The work-item's part. In stretches, so that no sum has more than some hundred terms.
float sum_of_exp(__global const float* row, uint n, float best, uint lane) {
  const uint vectors = n / 8;
  float8 sums = 0.0f;
  for (uint first = 0; first < vectors; first += 64 * WG) {
    const uint end = min(first + 64 * WG, vectors);
    float8 stretch = 0.0f;
    for (uint v = first + lane; v < end; v += WG) stretch += exp(vload8(v, row) - best);
    sums += stretch;
  }
  const float4 half_sum = sums.lo + sums.hi;
  float sum = (half_sum.x + half_sum.y) + (half_sum.z + half_sum.w);
  if (lane == 0)
    for (uint i = vectors * 8; i < n; ++i) sum += exp(row[i] - best);
  return sum;
}

// asked: [groups][5]: row, k, n (of its first n values, n <= cols), whether the sum is wanted, and the pair in `out` where
// the answer begins: {1 if a value is NaN or infinite, the sum}, then k of {index, value}.
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void top_k(__global const float* logits,
                                                                    __global const uint* asked,
                                                                    __global uint2* out, uint cols) {
  __local ulong best[SHARES];  // of what is left in each share; 0: nothing is
  __local ulong tree[WG];
  __local float sums[WG];
  const uint lane = get_local_id(0);
  asked += get_group_id(1) * 5;
  const uint k = asked[1], n = asked[2];
  __global const float* row = logits + asked[0] * (size_t)cols;
  out += asked[4];

  for (uint s = lane; s < SHARES; s += WG) best[s] = 0;
  uint broken = 0;
  for (uint at = 0; at < n; at += SHARES) {
    const uint width = min((uint)SHARES, n - at);
    for (uint s = lane; s < width; s += WG) {
      const float x = row[at + s];
      broken |= (as_uint(x) & 0x7f800000u) == 0x7f800000u;
      best[s] = max(best[s], rank_of(x, at + s));
    }
  }
  broken = (uint)group_max(broken, lane, tree);

  float sum = 0.0f;
  for (uint taken = 0; taken < k; ++taken) {
    ulong top = 0;
    for (uint s = lane; s < SHARES; s += WG) top = max(top, best[s]);
    top = group_max(top, lane, tree);
    const uint id = ~(uint)top;
    if (lane == 0) out[1 + taken] = (uint2)(id, as_uint(row[id]));
    if (taken == 0 && asked[3] != 0) sum = group_sum(sum_of_exp(row, n, row[id], lane), lane, sums);
    if (taken + 1 == k) break;

    const uint share = id % SHARES;
    ulong next = 0;
    for (uint i = share + lane * SHARES; i < n; i += WG * SHARES) {
      const ulong rank = rank_of(row[i], i);
      if (rank < top) next = max(next, rank);
    }
    next = group_max(next, lane, tree);
    if (lane == 0) best[share] = next;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0) out[0] = (uint2)(broken, as_uint(sum));
}
