// Appends the keys and values of new tokens to one layer's paged cache. k, v: [rows, n_kv_heads, head_dim] f32;
// slots: [rows] block id * block_size + place in the block; caches: [block][kv head][place][head_dim] f16 (rounded to
// nearest even), or with KV_Q8 groups of 32 signed bytes and an f16 scale (34 bytes, as in GGUF's Q8_0).
// Global sizes: work-items that share a head (its 16ths, or its groups), kv heads, rows.
#ifndef KV_Q8
#define KV_Q8 0
#endif

#if KV_Q8
void store_group(__global const float* x, __global char* out) {
  float most = 0.0f;
  for (uint i = 0; i < 32; ++i) most = fmax(most, fabs(x[i]));
  const float d = most / 127.0f;
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  vstore_half_rte(d, 0, (__global half*)out);
  for (uint i = 0; i < 32; ++i) out[2 + i] = convert_char_sat_rte(x[i] * inverse);
}
#endif

__kernel void kv_store(__global const float* k, __global const float* v, __global const uint* slots,
                       __global void* k_cache, __global void* v_cache, uint n_kv_heads, uint head_dim,
                       uint block_size) {
  const uint head = get_global_id(1);
  const size_t row = get_global_id(2);
  const size_t from = (row * n_kv_heads + head) * head_dim;
  const uint slot = slots[row];
  const size_t place =
      ((size_t)(slot / block_size) * n_kv_heads + head) * block_size + slot % block_size;
#if KV_Q8
  const size_t to = place * (head_dim / 32 * 34);
  for (uint g = get_global_id(0); g < head_dim / 32; g += get_global_size(0)) {
    store_group(k + from + g * 32, (__global char*)k_cache + to + g * 34);
    store_group(v + from + g * 32, (__global char*)v_cache + to + g * 34);
  }
#else
  __global half* k_to = (__global half*)k_cache + place * head_dim;
  __global half* v_to = (__global half*)v_cache + place * head_dim;
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
#endif
}
