// Appends the keys and values of new tokens to one layer's paged cache. k, v: [rows, n_kv_heads, head_dim] f32;
// slots: [rows] block id * block_size + place in the block; caches: [block][kv head][place][head_dim] f16, rounded to
// nearest even.
// Global sizes: work-items that share a head, kv heads, rows.
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
