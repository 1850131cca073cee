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

// The greatest and the sum of the invocations' values. Software devices make a loop of what reduces a subgroup. At most 128
// invocations, a power of two.
float greatest(float x) {
  if (kShuffles == 0) return subgroupMax(x);
  EACH(i, 7) if (1u << i < WG) x = max(x, subgroupShuffleXor(x, 1u << i));
  return x;
}
float total(float x) {
  if (kShuffles == 0) return subgroupAdd(x);
  EACH(i, 7) if (1u << i < WG) x += subgroupShuffleXor(x, 1u << i);
  return x;
}

// A tile: positions [begin, min(begin + WG, end)), one an invocation. Those that are missing are the last one to read, and
// weigh nothing.
struct Tile {
  uint kv_head, block, place;  // of the invocation's position
  float score[kQueries];       // then what it weighs
};

// What vectors j * WG + from of q and of the keys add to scores. Vectors beyond the head are 0 in q, whatever is read
// instead of them.
void add_scores(inout Tile tile, uint from) {
  const Address keys = page_of(push.keys, tile.block, tile.kv_head);
  EACH(j, kKept) {
    const vec4 key = cached(keys, tile.place, min(j * WG + from, kVectors - 1));
    EACH(c, kVector) EACH(m, kQueries)
      tile.score[m] = fma(key[c], subgroupShuffle(q_kept[(m * kKept + j) * kVector + c], from), tile.score[m]);
  }
}

void add_values(Tile tile, uint from) {
  const Address values = page_of(push.values, subgroupShuffle(tile.block, from), tile.kv_head);
  const uint place = subgroupShuffle(tile.place, from);
  vec4 value[kMine / kVector];
  EACH(j, kMine / kVector) value[j] = cached(values, place, min(j * WG + gl_SubgroupInvocationID, kVectors - 1));
  EACH(m, kQueries) {
    const float weight = subgroupShuffle(tile.score[m], from);
    EACH(j, kMine / kVector) EACH(c, kVector) {
      const uint at = m * kMine + j * kVector + c;
      split_values[at] = fma(value[j][c], weight, split_values[at]);
    }
  }
}

// In loops, because a driver that keeps what it compiled keeps megabytes of it unrolled; unrolled where loops would have too
// many turns for a driver (plan_attend).
void attend_tile(Item item, uint kv_head, uint begin, uint end) {
  const uint lane = gl_SubgroupInvocationID, position = min(begin + lane, end - 1);
  Tile tile;
  tile.kv_head = kv_head;
  tile.block = item.table.v[position / kBlock];
  tile.place = position % kBlock;
  EACH(m, kQueries) tile.score[m] = 0.0;
  if (kUnrolled != 0)
    EACH(from, min(WG, kVectors)) add_scores(tile, from);
  else
    for (uint from = 0; from < min(WG, kVectors); ++from) add_scores(tile, from);
  EACH(m, kQueries) {
    const uint row = item.first_position + m / kGroup;
    const bool seen = begin + lane < end && position <= row && position >= first_seen(row);
    if (kCap != 0.0) tile.score[m] = kCap * (1.0 - 2.0 / (exp(tile.score[m] * (2.0 / kCap)) + 1.0));
    const float most = max(split_max[m], greatest(seen ? tile.score[m] : minus_infinity()));
    const float weight = seen ? exp(tile.score[m] - most) : 0.0, old = weight_of(split_max[m], most);
    split_sum[m] = fma(split_sum[m], old, total(weight));
    split_max[m] = most;
    tile.score[m] = weight;
    EACH(i, kMine) split_values[m * kMine + i] *= old;
  }
  if (kUnrolled != 0)
    EACH(from, WG) add_values(tile, from);
  else
    for (uint from = 0; from < min(end - begin, WG); ++from) add_values(tile, from);
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
