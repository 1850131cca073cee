#version 460
#extension GL_GOOGLE_include_directive : require
// out = the splits of one row and head, merged in order of position; an invocation does some of the dimensions. Rows with
// one split are already done.
#include "attend.glsl"

void main() {
  const uint head = gl_WorkGroupID.x, n_heads = push.n_kv_heads * kGroup;
  Item item = item_of(gl_WorkGroupID.y);
  if (item.splits == 1) return;
  for (uint d = gl_LocalInvocationID.x; d < kHeadDim; d += WG) {
    float all = 0.0, all_max = minus_infinity(), all_sum = 0.0;
    for (uint split = item.first_split; split < item.splits; ++split) {
      Floats from = floats(push.partial, (gl_WorkGroupID.y * push.max_splits + split) * n_heads + head, kRecord);
      const float most = max(all_max, from.v[kHeadDim]);
      const float old_scale = weight_of(all_max, most), new_scale = weight_of(from.v[kHeadDim], most);
      all_sum = fma(from.v[kHeadDim + 1], new_scale, all_sum * old_scale);
      all = fma(from.v[d], new_scale, all * old_scale);
      all_max = most;
    }
    out_of(item.first_row, head).v[d] = all / all_sum;
  }
}
