// Rotary position embedding [arXiv:2104.09864] of q and k, in place. q: [rows, n_heads, head_dim], k: [rows,
// n_kv_heads, head_dim] f32; rotations: [rows, rope_dim / 2, 2] cosine and sine, made by the host for each position.
// Global sizes: work-items that share the pairs of a head, heads of q and of k, rows.
#ifndef INTERLEAVED
#define INTERLEAVED 1  // pairs (2i, 2i+1); 0: pairs (i, i + rope_dim / 2)
#endif

__kernel void rope(__global float* q, __global float* k, __global const float* rotations, uint n_heads,
                   uint n_kv_heads, uint head_dim, uint rope_dim) {
  const uint head = get_global_id(1);
  const size_t row = get_global_id(2);
  __global float* x = head < n_heads ? q + (row * n_heads + head) * head_dim
                                     : k + (row * n_kv_heads + (head - n_heads)) * head_dim;
  __global const float* r = rotations + row * rope_dim;
  for (uint i = get_global_id(0); i < rope_dim / 2; i += get_global_size(0)) {
#if INTERLEAVED
    const uint a = 2 * i, b = 2 * i + 1;
#else
    const uint a = i, b = i + rope_dim / 2;
#endif
    const float va = x[a], vb = x[b], c = r[2 * i], s = r[2 * i + 1];
    x[a] = va * c - vb * s;
    x[b] = va * s + vb * c;
  }
}
