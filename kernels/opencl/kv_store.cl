// Appends the keys and values of new tokens to one layer's paged cache. k, v: [rows, n_kv_heads, head_dim] f32;
// slots: [rows] block id * block_size + place in the block; caches: [block][kv head] pages
// (kernels/formats/kv_page.hpp), f16 [place][head_dim] rounded to nearest even, or q8_0: int8 [place][head_dim], then
// f16 scales [place][head_dim / 32].
// Global sizes: work-items that share a head, kv heads, rows.
#ifndef KV_Q8_0
#define KV_Q8_0 0  // 1: caches are q8_0, and head_dim a multiple of 32
#endif

#if KV_Q8_0
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

__kernel void kv_store(__global const float* k, __global const float* v, __global const uint* slots,
                       __global char* k_cache, __global char* v_cache, uint n_kv_heads, uint head_dim,
                       uint block_size) {
  const uint head = get_global_id(1);
  const size_t row = get_global_id(2);
  const size_t from = (row * n_kv_heads + head) * head_dim;
  const uint slot = slots[row], place = slot % block_size, blocks = head_dim / 32;
  const size_t page = ((size_t)(slot / block_size) * n_kv_heads + head) * block_size * blocks * 34;
  const size_t scales = page + (size_t)block_size * head_dim + 2 * place * blocks;
  for (uint i = get_global_id(0); i < blocks; i += get_global_size(0)) {
    const size_t at = page + (size_t)place * head_dim + i * 32;
    store_block(k + from + i * 32, k_cache + at, (__global half*)(k_cache + scales) + i);
    store_block(v + from + i * 32, v_cache + at, (__global half*)(v_cache + scales) + i);
  }
}
#else
__kernel void kv_store(__global const float* k, __global const float* v, __global const uint* slots,
                       __global half* k_cache, __global half* v_cache, uint n_kv_heads, uint head_dim,
                       uint block_size) {
  const uint head = get_global_id(1);
  const size_t row = get_global_id(2);
  const size_t from = (row * n_kv_heads + head) * head_dim;
  const uint slot = slots[row];
  const size_t place =
      ((size_t)(slot / block_size) * n_kv_heads + head) * block_size + slot % block_size;
  __global half* k_to = k_cache + place * head_dim;
  __global half* v_to = v_cache + place * head_dim;
  for (uint i = get_global_id(0) * 8; i < head_dim; i += get_global_size(0) * 8) {
    if (i + 8 <= head_dim) {
      vstore_half8_rte(vload8(0, k + from + i), 0, k_to + i);
      vstore_half8_rte(vload8(0, v + from + i), 0, v_to + i);
    } else {
      for (uint j = i; j < head_dim; ++j) {
        vstore_half_rte(k[from + j], j, k_to);
        vstore_half_rte(v[from + j], j, v_to);
      }
    }
  }
}
#endif
