#version 460
#extension GL_GOOGLE_include_directive : require
// Decode: a work-group takes one split of an item of one row, and one KV head with its query heads. What it finds goes
// to `partial` for attend_combine, or is the result where the split is the only one.
#define ROWS 1
#include "attend_item.glsl"

void main() {
  Item item = item_of(gl_WorkGroupID.z);
  const uint split = gl_WorkGroupID.x, kv_head = gl_WorkGroupID.y;
  if (split >= item.splits || split < item.first_split) return;
  load_queries(item, kv_head);
  attend_split(item, kv_head, split);
  EACH(m, kQueries) {
    const uint head = kv_head * kGroup + m;
    Floats to = out_of(item.first_row, head);
    if (item.splits > 1)
      to = floats(push.partial, (gl_WorkGroupID.z * push.max_splits + split) * push.n_kv_heads * kGroup + head, kRecord);
    EACH(i, kMine) {
      const uint d = (i / kVector * WG + gl_SubgroupInvocationID) * kVector + i % kVector;
      const float value = split_values[m * kMine + i];
      if (d < kHeadDim) to.v[d] = item.splits > 1 ? value : value / split_sum[m];
    }
    if (item.splits > 1 && gl_SubgroupInvocationID == 0) {
      to.v[kHeadDim] = split_max[m];
      to.v[kHeadDim + 1] = split_sum[m];
    }
  }
}
