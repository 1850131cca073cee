// One item's rows over one split, by a work-group: ROWS rows of kGroup query heads each.
#include "attend.glsl"

const uint kQueries = ROWS * kGroup;

float q_kept[kQueries * kKept * kVector];            // vectors j * WG + lane of query m
float split_max[kQueries], split_sum[kQueries];
float split_values[kQueries * kMine];                // not divided by the sum

void load_queries(Item item, uint kv_head) {
  EACH(m, kQueries) {
    const uint row = item.first_row + min(m / kGroup, item.rows - 1);
    Floats q = floats(push.q, row * push.n_kv_heads * kGroup + kv_head * kGroup + m % kGroup, kHeadDim);
    EACH(j, kKept) EACH(c, kVector) {
      const uint d = (j * WG + gl_SubgroupInvocationID) * kVector + c;
      q_kept[(m * kKept + j) * kVector + c] = d < kHeadDim ? q.v[d] * push.scale : 0.0;
    }
  }
}

// Positions [begin, min(begin + WG, end)). Those that are missing are the last one to read, and weigh nothing.
void attend_tile(Item item, uint kv_head, uint begin, uint end) {
  const uint lane = gl_SubgroupInvocationID, position = min(begin + lane, end - 1);
  const uint block = item.table.v[position / kBlock], place = position % kBlock;
  const Address keys = page_of(push.keys, block, kv_head);
  float score[kQueries];
  EACH(m, kQueries) score[m] = 0.0;
  // A loop, because a driver that keeps what it compiled keeps megabytes of it unrolled. Vectors beyond the head are 0 in
  // q, whatever is read instead of them.
  for (uint from = 0; from < min(WG, kVectors); ++from) {
    EACH(j, kKept) {
      const vec4 key = cached(keys, place, min(j * WG + from, kVectors - 1));
      EACH(c, kVector) EACH(m, kQueries)
        score[m] = fma(key[c], subgroupShuffle(q_kept[(m * kKept + j) * kVector + c], from), score[m]);
    }
  }
  EACH(m, kQueries) {
    const uint row = item.first_position + m / kGroup;
    const bool seen = begin + lane < end && position <= row && position >= first_seen(row);
    if (kCap != 0.0) score[m] = kCap * (1.0 - 2.0 / (exp(score[m] * (2.0 / kCap)) + 1.0));
    const float most = max(split_max[m], subgroupMax(seen ? score[m] : minus_infinity()));
    const float weight = seen ? exp(score[m] - most) : 0.0, old = weight_of(split_max[m], most);
    split_sum[m] = fma(split_sum[m], old, subgroupAdd(weight));
    split_max[m] = most;
    score[m] = weight;
    EACH(i, kMine) split_values[m * kMine + i] *= old;
  }
  for (uint t = 0; t < min(end - begin, WG); ++t) {
    const Address values = page_of(push.values, subgroupShuffle(block, t), kv_head);
    const uint value_place = subgroupShuffle(place, t);
    vec4 value[kMine / kVector];
    EACH(j, kMine / kVector) value[j] = cached(values, value_place, min(j * WG + lane, kVectors - 1));
    EACH(m, kQueries) {
      const float weight = subgroupShuffle(score[m], t);
      EACH(j, kMine / kVector) EACH(c, kVector) {
        const uint at = m * kMine + j * kVector + c;
        split_values[at] = fma(value[j][c], weight, split_values[at]);
      }
    }
  }
}

void attend_split(Item item, uint kv_head, uint split) {
  EACH(m, kQueries) {
    split_max[m] = minus_infinity();
    split_sum[m] = 0.0;
    EACH(i, kMine) split_values[m * kMine + i] = 0.0;
  }
  const uint end = min(item.positions, (split + 1) * kSplit);
  uint begin = split * kSplit;
  if (item.first_seen > begin) begin += (item.first_seen - begin) / WG * WG;  // tiles nobody sees change nothing
  for (; begin < end; begin += WG) attend_tile(item, kv_head, begin, end);
}
