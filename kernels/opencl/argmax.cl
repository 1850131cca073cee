// The likeliest token of each row of logits, the first of equals: what greedy decoding needs of them.
// logits: [rows, vocab] f32; out: [rows][2] the token, and 1 where some logit is NaN or infinite.
// One work-group a row; WG 1 on processors.
#ifndef WG
#define WG 1
#endif

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void argmax(__global const float* logits,
                                                                     __global uint* out, uint vocab) {
  const uint lane = get_local_id(0);
  const uint row = get_group_id(1);
  logits += row * (size_t)vocab;
  float8 best = -INFINITY;
  int8 best_at = 0;
  int8 broken = 0;
  uint i = lane * 8;
  for (; i + 8 <= vocab; i += WG * 8) {
    const float8 x = vload8(0, logits + i);
    const int8 better = x > best;
    best = select(best, x, better);
    best_at = select(best_at, (int8)((int)i), better);
    broken |= ~isfinite(x);
  }
  float value = -INFINITY;
  uint at = 0xffffffffu;
  uint bad = 0;
  const float values[8] = {best.s0, best.s1, best.s2, best.s3, best.s4, best.s5, best.s6, best.s7};
  const int places[8] = {best_at.s0, best_at.s1, best_at.s2, best_at.s3,
                         best_at.s4, best_at.s5, best_at.s6, best_at.s7};
  for (uint j = 0; j < 8; ++j)
    if (values[j] > value || (values[j] == value && places[j] + j < at)) {
      value = values[j];
      at = places[j] + j;
    }
  if (any(broken)) bad = 1;
  if (lane == 0)
    for (uint j = vocab / 8 * 8; j < vocab; ++j) {
      if (!isfinite(logits[j])) bad = 1;
      if (logits[j] > value) {
        value = logits[j];
        at = j;
      }
    }
#if WG > 1
  __local float values_of[WG];
  __local uint places_of[WG];
  __local uint bad_of[WG];
  values_of[lane] = value;
  places_of[lane] = at;
  bad_of[lane] = bad;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint width = WG / 2; width > 0; width /= 2) {
    if (lane < width) {
      const float other = values_of[lane + width];
      const uint place = places_of[lane + width];
      if (other > values_of[lane] || (other == values_of[lane] && place < places_of[lane])) {
        values_of[lane] = other;
        places_of[lane] = place;
      }
      bad_of[lane] |= bad_of[lane + width];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  at = places_of[0];
  bad = bad_of[0];
#endif
  if (lane == 0) {
    out[2 * row] = at;
    out[2 * row + 1] = bad;
  }
}
