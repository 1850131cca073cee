#version 460
#extension GL_GOOGLE_include_directive : require
// Prompts: a work-group takes all positions of an item's rows, split by split, for one KV head with its query heads.
#define ROWS kItemRows
#include "attend_item.glsl"

void main() {
  Item item = item_of(gl_WorkGroupID.z);
  const uint kv_head = gl_WorkGroupID.y;
  load_queries(item, kv_head);
  float all_max[kQueries], all_sum[kQueries], all[kQueries * kMine];
  EACH(m, kQueries) {
    all_max[m] = minus_infinity();
    all_sum[m] = 0.0;
    EACH(i, kMine) all[m * kMine + i] = 0.0;
  }
  for (uint split = item.first_split; split < item.splits; ++split) {
    attend_split(item, kv_head, split);
    EACH(m, kQueries) {
      const float most = max(all_max[m], split_max[m]);
      const float old_scale = weight_of(all_max[m], most), new_scale = weight_of(split_max[m], most);
      all_sum[m] = fma(split_sum[m], new_scale, all_sum[m] * old_scale);
      all_max[m] = most;
      EACH(i, kMine) all[m * kMine + i] = fma(split_values[m * kMine + i], new_scale, all[m * kMine + i] * old_scale);
    }
  }
  EACH(m, kQueries) {
    if (m / kGroup >= item.rows) continue;
    Floats to = out_of(item.first_row + m / kGroup, kv_head * kGroup + m % kGroup);
    EACH(i, kMine) {
      const uint d = (i / kVector * WG + gl_SubgroupInvocationID) * kVector + i % kVector;
      if (d < kHeadDim) to.v[d] = all[m * kMine + i] / all_sum[m];
    }
  }
}
