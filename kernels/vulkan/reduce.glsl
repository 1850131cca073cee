// Sums and maxima over a work-group whose size is a power of two: trees, so that the order is the same every time.
#ifndef FLYBALL_REDUCE_GLSL
#define FLYBALL_REDUCE_GLSL

shared float sum_tree[WG];
shared uint64_t max_tree[WG];

// For all invocations, which all come here.
float group_sum(float mine) {
  const uint lane = gl_LocalInvocationID.x;
  sum_tree[lane] = mine;
  barrier();
  for (uint width = WG / 2; width > 0; width /= 2) {
    if (lane < width) sum_tree[lane] += sum_tree[lane + width];
    barrier();
  }
  mine = sum_tree[0];
  barrier();
  return mine;
}

uint64_t group_max(uint64_t mine) {
  const uint lane = gl_LocalInvocationID.x;
  max_tree[lane] = mine;
  barrier();
  for (uint width = WG / 2; width > 0; width /= 2) {
    if (lane < width) max_tree[lane] = max(max_tree[lane], max_tree[lane + width]);
    barrier();
  }
  mine = max_tree[0];
  barrier();
  return mine;
}

#endif
