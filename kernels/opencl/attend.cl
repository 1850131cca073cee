// Causal softmax attention over a paged KV cache, for prompts and for decode. Flash attention [arXiv:2205.14135]: keys
// and values pass by in tiles of STAGE positions under an online softmax. Positions are cut into splits of SPLIT (flash
// decoding): with SPLITS_APART every split is a work-group of its own and attend_combine adds them up; otherwise one
// work-group takes them in order. Both merge the same way and every row counts by itself, so that a row's result does
// not depend on how many rows or splits shared its work-group. WG 1 is for processors: one work-item with vectors.
//
// q, out: [rows, n_heads, HEAD_DIM] f32. Caches: [block][kv head] pages (kernels/formats/kv_page.hpp), f16
// [TILE][HEAD_DIM], or q8_0: int8 [TILE][HEAD_DIM], then f16 scales [TILE][HEAD_DIM / 32]; a block is one tile.
// work: [n][4] first row, rows (at most TQ), position of the first row, where its sequence's block ids begin in
// `tables`. A work-group reads for GROUP query heads of one KV head.
// partial: [rows of work][split][n_heads][HEAD_DIM + 2] accumulator, maximum, sum.
#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef GROUP
#define GROUP 1  // query heads per KV head
#endif
#ifndef TQ
#define TQ 1  // rows of one work-group
#endif
#ifndef TILE
#define TILE 16  // positions of a KV block
#endif
#ifndef STAGE
#define STAGE TILE  // positions that are in local memory at a time; divides TILE
#endif
#ifndef KV_Q8_0
#define KV_Q8_0 0  // 1: caches are q8_0, and HEAD_DIM a multiple of 32
#endif
#ifndef SPLIT
#define SPLIT 256  // a multiple of TILE
#endif
#ifndef SPLITS_APART
#define SPLITS_APART 1
#endif
#ifndef WINDOWED
#define WINDOWED 0  // 1: a row sees `window` positions, its own included; 0: all
#endif
// CAP: a score x becomes CAP * tanh(x / CAP); not defined: it stays.
#ifndef WG
#define WG 1  // work-items; 1 on processors
#endif
// The widest vector that head_dim is a multiple of, up to 16: a register of a processor, and four loads of a GPU.
#if HEAD_DIM % 16 == 0
#define V 16
#define FV float16
#define VLOAD vload16
#define VLOAD_HALF vload_half16
#define VSTORE vstore16
#elif HEAD_DIM % 8 == 0
#define V 8
#define FV float8
#define VLOAD vload8
#define VLOAD_HALF vload_half8
#define VSTORE vstore8
#else
#define V 2
#define FV float2
#define VLOAD vload2
#define VLOAD_HALF vload_half2
#define VSTORE vstore2
#endif

#define M (TQ * GROUP)                 // query vectors of a work-group
#define CHUNKS (HEAD_DIM / V)          // vectors of a head
#define MINE ((M * CHUNKS + WG - 1) / WG)  // accumulator vectors of a work-item

float sum_of(FV v) {
#if V == 16
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  return (b.x + b.y) + (b.z + b.w);
#elif V == 8
  const float4 b = v.lo + v.hi;
  return (b.x + b.y) + (b.z + b.w);
#else
  return v.x + v.y;
#endif
}

#if KV_Q8_0
#define KV char
#define PAGE (TILE * HEAD_DIM / 32 * 34)
#else
#define KV half
#define PAGE (TILE * HEAD_DIM)
#endif

// Positions [place, place + n) of a page as f32, [n][HEAD_DIM], by the work-group together.
void stage(__global const KV* page, uint place, uint n, __local float* to) {
#if KV_Q8_0
  __global const half* scales = (__global const half*)(page + TILE * HEAD_DIM);
  for (uint e = get_local_id(0); e < n * (HEAD_DIM / 32); e += WG) {
    const uint at = place * (HEAD_DIM / 32) + e;
    const float scale = vload_half(at, scales);
    VSTORE(convert_float16(VLOAD(2 * at, page)) * scale, 2 * e, to);
    VSTORE(convert_float16(VLOAD(2 * at + 1, page)) * scale, 2 * e + 1, to);
  }
#else
  for (uint e = get_local_id(0); e < n * CHUNKS; e += WG) VSTORE(VLOAD_HALF(place * CHUNKS + e, page), e, to);
#endif
}

// exp(x - m) that is 0 where nothing was seen: x of -INFINITY weighs nothing, whatever m is.
float weight_of(float x, float m) {
  return x == -INFINITY ? 0.0f : exp(x - m);
}

// The first position that the row at `position` sees.
uint first_seen(uint position, uint window) {
#if WINDOWED
  return position >= window ? position + 1 - window : 0;
#else
  return 0;
#endif
}

#ifdef CAP
#define CAPPED(score) (CAP * tanh((score) / CAP))
#else
#define CAPPED(score) (score)
#endif

// On processors one work-item takes 16 positions at a time in vectors that span them.
#define BY_SIXTEEN (WG == 1 && V == 16 && STAGE % 16 == 0)
#if BY_SIXTEEN
#define ROUNDS _Pragma("unroll") for (uint i = 0; i < 16; ++i)
// Query vectors that share what is loaded of keys and values, and vectors of a head that are summed at a time: up to 16
// sums in registers.
#define QUERIES (M % 4 == 0 ? 4 : M % 3 == 0 ? 3 : M % 2 == 0 ? 2 : M % 7 == 0 ? 7 : M % 5 == 0 ? 5 : 1)
#define SUMS (CHUNKS % 4 == 0 && QUERIES <= 4 ? 4 : CHUNKS % 2 == 0 ? 2 : 1)
#define EACH_QUERY _Pragma("unroll") for (uint i = 0; i < QUERIES; ++i)
#define EACH_SUM _Pragma("unroll") for (uint c = 0; c < SUMS; ++c)

// Values [16 chunk, 16 chunk + 16) of a position in a page.
float16 cached(__global const KV* page, uint position, uint chunk) {
#if KV_Q8_0
  __global const half* scales = (__global const half*)(page + TILE * HEAD_DIM);
  return convert_float16(vload16(position * CHUNKS + chunk, page)) *
         vload_half(position * (HEAD_DIM / 32) + chunk / 2, scales);
#else
  return VLOAD_HALF(position * CHUNKS + chunk, page);
#endif
}

float largest_of(float16 v) {
  const float8 a = fmax(v.lo, v.hi);
  const float4 b = fmax(a.lo, a.hi);
  return fmax(fmax(b.x, b.y), fmax(b.z, b.w));
}

// rows[i][j] and rows[j][i] change places: four times, the address of each value turns by one bit.
#define ZIP(a, b) \
  (float16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
void transpose(float16* rows) {
#pragma unroll
  for (uint turn = 0; turn < 4; ++turn) {
    float16 turned[16];
#pragma unroll
    for (uint i = 0; i < 8; ++i) {
      turned[2 * i] = ZIP(rows[i].lo, rows[i + 8].lo);
      turned[2 * i + 1] = ZIP(rows[i].hi, rows[i + 8].hi);
    }
    ROUNDS rows[i] = turned[i];
  }
}

// Pages lie anywhere: a processor's own prefetchers begin anew in each.
void prefetch_page(__global const KV* page, uint place) {
#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
  const size_t at = (size_t)(page + place * HEAD_DIM);
  for (uint i = 0; i < 16 * HEAD_DIM * sizeof(KV); i += 64) __builtin_prefetch((const void*)(at + i));
#endif
#endif
}

// The first n of positions [begin, begin + 16), which lie at `place` in their pages, for all query vectors. The last
// one stands in for those that are missing: nobody sees them.
void sixteen(__global const KV* k_page, __global const KV* v_page, uint place, uint begin, uint n,
             uint first_position, uint window, const __local float* q_tile, __local float16* k_tile,
             __local float16* v_tile, __local float16* weights, __local float* row_max, __local float* row_sum, __local float* row_scale,
             float16* mine) {
  for (uint chunk = 0; chunk < CHUNKS; ++chunk) {
    float16 keys[16];
    ROUNDS keys[i] = cached(k_page, place + min(i, n - 1), chunk);
    ROUNDS v_tile[i * CHUNKS + chunk] = cached(v_page, place + min(i, n - 1), chunk);
    transpose(keys);
    ROUNDS k_tile[chunk * 16 + i] = keys[i];  // [dimension][position]
  }
  const int16 position = (int)begin + (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (uint m = 0; m < M; m += QUERIES) {
    float16 score[QUERIES];
    EACH_QUERY score[i] = 0.0f;
    for (uint d = 0; d < HEAD_DIM; ++d) {
      const float16 key = k_tile[d];
      EACH_QUERY score[i] = fma(key, (float16)(q_tile[(m + i) * HEAD_DIM + d]), score[i]);
    }
    EACH_QUERY {
      const uint row = first_position + (m + i) / GROUP;
      const int16 seen = position <= (int)row && position >= (int)first_seen(row, window);
      score[i] = select((float16)(-INFINITY), CAPPED(score[i]), seen);
      const float most = fmax(row_max[m + i], largest_of(score[i]));
      const float16 weight = select((float16)(0.0f), exp(score[i] - most), seen);
      row_scale[m + i] = weight_of(row_max[m + i], most);
      row_max[m + i] = most;
      row_sum[m + i] = row_sum[m + i] * row_scale[m + i] + sum_of(weight);
      weights[m + i] = weight;
    }
  }
  for (uint m = 0; m < M; m += QUERIES) {
    for (uint chunk = 0; chunk < CHUNKS; chunk += SUMS) {
      float16 sum[QUERIES][SUMS];
      EACH_QUERY EACH_SUM sum[i][c] = mine[(m + i) * CHUNKS + chunk + c] * row_scale[m + i];
      for (uint t = 0; t < 16; ++t) {
        float16 value[SUMS];
        EACH_SUM value[c] = v_tile[t * CHUNKS + chunk + c];
        EACH_QUERY EACH_SUM sum[i][c] = fma(value[c], (float16)(((const __local float*)(weights + m + i))[t]), sum[i][c]);
      }
      EACH_QUERY EACH_SUM mine[(m + i) * CHUNKS + chunk + c] = sum[i][c];
    }
  }
}
#endif

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void attend(
    __global const float* q, __global const KV* k_cache, __global const KV* v_cache,
    __global const uint* work, __global const uint* tables, __global float* out, __global float* partial,
    uint n_kv_heads, float scale, uint max_splits, uint window) {
  __local FV q_vectors[M * CHUNKS], k_vectors[STAGE * CHUNKS], v_vectors[STAGE * CHUNKS];
  __local float* q_tile = (__local float*)q_vectors;
#if BY_SIXTEEN
  __local float16 weights[M];
#else
  __local float* k_tile = (__local float*)k_vectors;
  __local float* v_tile = (__local float*)v_vectors;
  __local float scores[M * STAGE];
#endif
  __local float row_max[M], row_sum[M], row_scale[M];
#if !SPLITS_APART
  __local float all_max[M], all_sum[M], old_scale[M], new_scale[M];
  FV all[MINE];
  for (uint j = 0; j < MINE; ++j) all[j] = 0.0f;
#endif
  const uint lane = get_local_id(0);
  const uint kv_head = get_group_id(1);
  const uint item = get_group_id(2);
  const uint n_heads = n_kv_heads * GROUP;
  const uint first_row = work[4 * item], n_rows = work[4 * item + 1], first_position = work[4 * item + 2];
  __global const uint* table = tables + work[4 * item + 3];
  const uint n_positions = first_position + n_rows;  // that the last row sees
  const uint n_splits = (n_positions + SPLIT - 1) / SPLIT;

  const uint first = first_seen(first_position, window);  // by the first row

#if SPLITS_APART
  const uint split_begin = get_group_id(0);
  const uint split_end = split_begin < first / SPLIT ? 0 : min(split_begin + 1, n_splits);
#else
  const uint split_begin = first / SPLIT, split_end = n_splits;
#endif

  for (uint e = lane; e < M * CHUNKS; e += WG) {
    const uint m = e / CHUNKS, chunk = e % CHUNKS, r = m / GROUP;
    const size_t at = ((size_t)(first_row + r) * n_heads + kv_head * GROUP + m % GROUP) * HEAD_DIM + chunk * V;
    VSTORE(r < n_rows ? VLOAD(0, q + at) * scale : (FV)(0.0f), 0, q_tile + e * V);
  }
#if !SPLITS_APART
  for (uint m = lane; m < M; m += WG) {
    all_max[m] = -INFINITY;
    all_sum[m] = 0.0f;
  }
#endif

  FV mine[MINE];
  for (uint split = split_begin; split < split_end; ++split) {
    for (uint j = 0; j < MINE; ++j) mine[j] = 0.0f;
    for (uint m = lane; m < M; m += WG) {
      row_max[m] = -INFINITY;
      row_sum[m] = 0.0f;
    }
    const uint end = min(n_positions, (split + 1) * SPLIT);
    const uint unseen = max(first, split * SPLIT) - split * SPLIT;  // tiles nobody sees change nothing
#if BY_SIXTEEN
    for (uint begin = split * SPLIT + unseen / 16 * 16; begin < end; begin += 16) {
      const size_t page = ((size_t)table[begin / TILE] * n_kv_heads + kv_head) * PAGE;
      if (begin + 16 < end) {
        const size_t next = ((size_t)table[(begin + 16) / TILE] * n_kv_heads + kv_head) * PAGE;
        prefetch_page(k_cache + next, (begin + 16) % TILE);
        prefetch_page(v_cache + next, (begin + 16) % TILE);
      }
      sixteen(k_cache + page, v_cache + page, begin % TILE, begin, min(end - begin, 16u), first_position, window, q_tile,
              k_vectors, v_vectors, weights, row_max, row_sum, row_scale, mine);
    }
#else
    for (uint begin = split * SPLIT + unseen / STAGE * STAGE; begin < end; begin += STAGE) {
      const uint n = min(end - begin, (uint)STAGE);
      const size_t page = ((size_t)table[begin / TILE] * n_kv_heads + kv_head) * PAGE;
      barrier(CLK_LOCAL_MEM_FENCE);
      stage(k_cache + page, begin % TILE, n, k_tile);
      stage(v_cache + page, begin % TILE, n, v_tile);
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint e = lane; e < M * n; e += WG) {
        const uint m = e / n, t = e % n, row = first_position + m / GROUP;
        FV sum = 0.0f;
        for (uint chunk = 0; chunk < CHUNKS; ++chunk)
          sum += VLOAD(0, q_tile + m * HEAD_DIM + chunk * V) * VLOAD(0, k_tile + t * HEAD_DIM + chunk * V);
        const bool seen = begin + t <= row && begin + t >= first_seen(row, window);
        scores[m * STAGE + t] = seen ? CAPPED(sum_of(sum)) : -INFINITY;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint m = lane; m < M; m += WG) {
        float most = row_max[m];
        for (uint t = 0; t < n; ++t) most = fmax(most, scores[m * STAGE + t]);
        row_scale[m] = weight_of(row_max[m], most);
        float sum = row_sum[m] * row_scale[m];
        for (uint t = 0; t < n; ++t) {
          const float w = weight_of(scores[m * STAGE + t], most);
          scores[m * STAGE + t] = w;
          sum += w;
        }
        row_max[m] = most;
        row_sum[m] = sum;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint j = 0, e = lane; e < M * CHUNKS; ++j, e += WG) {
        const uint m = e / CHUNKS, chunk = e % CHUNKS;
        FV a = mine[j] * row_scale[m];
        for (uint t = 0; t < n; ++t) a += VLOAD(0, v_tile + t * HEAD_DIM + chunk * V) * scores[m * STAGE + t];
        mine[j] = a;
      }
    }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
#if SPLITS_APART
    const bool alone = n_splits == 1;
    for (uint j = 0, e = lane; e < M * CHUNKS; ++j, e += WG) {
      const uint m = e / CHUNKS, chunk = e % CHUNKS, r = m / GROUP;
      if (r >= n_rows) continue;
      const uint head = kv_head * GROUP + m % GROUP;
      if (alone) {
        VSTORE(mine[j] / row_sum[m], 0, out + ((size_t)(first_row + r) * n_heads + head) * HEAD_DIM + chunk * V);
      } else {
        __global float* to = partial + (((size_t)item * max_splits + split) * n_heads + head) * (HEAD_DIM + 2);
        VSTORE(mine[j], 0, to + chunk * V);
        if (chunk == 0) {
          to[HEAD_DIM] = row_max[m];
          to[HEAD_DIM + 1] = row_sum[m];
        }
      }
    }
#else
    for (uint m = lane; m < M; m += WG) {
      const float most = fmax(all_max[m], row_max[m]);
      old_scale[m] = weight_of(all_max[m], most);
      new_scale[m] = weight_of(row_max[m], most);
      all_sum[m] = all_sum[m] * old_scale[m] + row_sum[m] * new_scale[m];
      all_max[m] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0, e = lane; e < M * CHUNKS; ++j, e += WG) {
      const uint m = e / CHUNKS;
      all[j] = all[j] * old_scale[m] + mine[j] * new_scale[m];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
  }
#if !SPLITS_APART
  for (uint j = 0, e = lane; e < M * CHUNKS; ++j, e += WG) {
    const uint m = e / CHUNKS, chunk = e % CHUNKS, r = m / GROUP;
    if (r >= n_rows) continue;
    const uint head = kv_head * GROUP + m % GROUP;
    VSTORE(all[j] / all_sum[m], 0, out + ((size_t)(first_row + r) * n_heads + head) * HEAD_DIM + chunk * V);
  }
#endif
}

#if SPLITS_APART
// out = the splits of each row and head, merged in order of position. Rows with one split are already done.
// Global sizes: heads, rows of work.
__kernel void attend_combine(__global const uint* work, __global const float* partial, __global float* out,
                             uint n_heads, uint max_splits, uint window) {
  const uint head = get_global_id(0);
  const uint item = get_global_id(1);
  const uint n_positions = work[4 * item + 2] + 1;
  const uint n_splits = (n_positions + SPLIT - 1) / SPLIT;
  if (n_splits == 1) return;
  FV all[CHUNKS];
  for (uint chunk = 0; chunk < CHUNKS; ++chunk) all[chunk] = 0.0f;
  float all_max = -INFINITY, all_sum = 0.0f;
  for (uint split = first_seen(n_positions - 1, window) / SPLIT; split < n_splits; ++split) {
    __global const float* from = partial + (((size_t)item * max_splits + split) * n_heads + head) * (HEAD_DIM + 2);
    const float most = fmax(all_max, from[HEAD_DIM]);
    const float old_scale = weight_of(all_max, most), new_scale = weight_of(from[HEAD_DIM], most);
    all_sum = all_sum * old_scale + from[HEAD_DIM + 1] * new_scale;
    all_max = most;
    for (uint chunk = 0; chunk < CHUNKS; ++chunk)
      all[chunk] = all[chunk] * old_scale + VLOAD(0, from + chunk * V) * new_scale;
  }
  out += ((size_t)work[4 * item] * n_heads + head) * HEAD_DIM;
  for (uint chunk = 0; chunk < CHUNKS; ++chunk) VSTORE(all[chunk] / all_sum, 0, out + chunk * V);
}
#endif
