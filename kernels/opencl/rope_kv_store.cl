// Rotary position embedding [arXiv:2104.09864] of q and k, in place, and the appending of k and v of new tokens to one
// layer's paged cache. q: [rows, n_heads, head_dim], k, v: [rows, n_kv_heads, head_dim] f32; q_rotations of q,
// rotations of k: [rows, rope_dim / 2, 2] cosine and sine, made by the host for each position; slots: [rows] block id * block_size + place in
// the block; caches: [block][kv head] pages (kernels/formats/kv_page.hpp), f16 [place][head_dim] rounded to nearest
// even, or q8_0: int8 [place][head_dim], then f16 scales [place][head_dim / 32].
// Global sizes: work-items of a head, which are one work-group; heads of q, of k and of v; rows.
#ifndef INTERLEAVED
#define INTERLEAVED 1  // pairs (2i, 2i+1); 0: pairs (i, i + rope_dim / 2)
#endif
#ifndef KV_Q8_0
#define KV_Q8_0 0  // 1: caches are q8_0, and head_dim a multiple of 32
#endif

void rotate_head(__global float* x, __global const float* rotations, uint rope_dim) {
  for (uint i = get_local_id(0); i < rope_dim / 2; i += get_local_size(0)) {
#if INTERLEAVED
    const uint a = 2 * i, b = 2 * i + 1;
#else
    const uint a = i, b = i + rope_dim / 2;
#endif
    const float va = x[a], vb = x[b], c = rotations[2 * i], s = rotations[2 * i + 1];
    x[a] = va * c - vb * s;
    x[b] = va * s + vb * c;
  }
}

#if KV_Q8_0
typedef __global char* Cache;

// 32 values: their scale, and what they are on what that reads back as. fmax drops a NaN, the sum does not.
void store_block(__global const float* x, __global char* quants, __global half* scale) {
  const float16 a = vload16(0, x), b = vload16(1, x);
  const float16 most = fmax(fabs(a), fabs(b)), none = a * 0.0f + b * 0.0f;
  const float8 most8 = fmax(most.lo, most.hi), none8 = none.lo + none.hi;
  const float4 most4 = fmax(most8.lo, most8.hi), none4 = none8.lo + none8.hi;
  const float largest = fmax(fmax(most4.x, most4.y), fmax(most4.z, most4.w));
  vstore_half_rte(largest * (1.0f / 127.0f) + ((none4.x + none4.y) + (none4.z + none4.w)), 0, scale);
  const float stored = vload_half(0, scale);
  const float inverse = stored > 0.0f ? 1.0f / stored : 0.0f;
  vstore16(convert_char16_sat_rte(fmax(a * inverse, -127.0f)), 0, quants);
  vstore16(convert_char16_sat_rte(fmax(b * inverse, -127.0f)), 1, quants);
}

void store_head(__global const float* x, Cache page, uint place, uint head_dim, uint block_size) {
  __global half* scales = (__global half*)(page + block_size * head_dim) + place * (head_dim / 32);
  for (uint i = get_local_id(0); i < head_dim / 32; i += get_local_size(0))
    store_block(x + i * 32, page + place * head_dim + i * 32, scales + i);
}
#else
typedef __global half* Cache;

void store_head(__global const float* x, Cache page, uint place, uint head_dim, uint block_size) {
  __global half* to = page + place * head_dim;
  for (uint i = get_local_id(0) * 8; i < head_dim; i += get_local_size(0) * 8) {
    if (i + 8 <= head_dim)
      vstore_half8_rte(vload8(0, x + i), 0, to + i);
    else
      for (uint j = i; j < head_dim; ++j) vstore_half_rte(x[j], j, to);
  }
}
#endif

__kernel void rope_kv_store(__global float* q, __global float* k, __global const float* v,
                            __global const float* q_rotations, __global const float* rotations,
                            __global const uint* slots, Cache k_cache, Cache v_cache, uint n_heads, uint n_kv_heads, uint head_dim, uint rope_dim,
                            uint block_size) {
  const uint head = get_group_id(1);
  const size_t row = get_group_id(2);
  if (head < n_heads) {
    rotate_head(q + (row * n_heads + head) * head_dim, q_rotations + row * rope_dim, rope_dim);
    return;
  }
  const uint place = head - n_heads, kv_head = place % n_kv_heads;
  const size_t from = (row * n_kv_heads + kv_head) * head_dim;
  const uint slot = slots[row];
#if KV_Q8_0
  const size_t page_size = (size_t)block_size * (head_dim / 32) * 34;
#else
  const size_t page_size = (size_t)block_size * head_dim;
#endif
  const size_t page = ((size_t)(slot / block_size) * n_kv_heads + kv_head) * page_size;
  if (place < n_kv_heads) {
    rotate_head(k + from, rotations + row * rope_dim, rope_dim);
    barrier(CLK_GLOBAL_MEM_FENCE);  // what follows reads others' pairs
    store_head(k + from, k_cache + page, slot % block_size, head_dim, block_size);
  } else {
    store_head(v + from, v_cache + page, slot % block_size, head_dim, block_size);
  }
}
