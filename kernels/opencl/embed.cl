// out[i] = row tokens[i] of the embedding table times `scale`, decoded by weights.cl, which stands in front of this file.
// table: rows of `row_bytes` bytes from byte `table_at` on; of affine formats also rows of `scale_row_bytes` from bytes
// `scales_at` and `biases_at` on. out: [rows, cols] f32.
// Global sizes: work-items that share a row, rows.
__kernel void embed(__global const uchar* table, ulong table_at, ulong row_bytes, ulong scales_at, ulong biases_at,
                    ulong scale_row_bytes, __global const int* tokens, __global float* out, uint cols, float scale) {
  const uint i = get_global_id(1);
  __global const uchar* row = table + table_at + tokens[i] * row_bytes;
  out += i * (size_t)cols;
#ifdef FORMAT_AFFINE
  __global const uchar* scales = table + scales_at + tokens[i] * scale_row_bytes;
  __global const uchar* biases = table + biases_at + tokens[i] * scale_row_bytes;
  for (uint c = get_global_id(0); c < cols; c += get_global_size(0)) out[c] = affine_at(row, scales, biases, c) * scale;
#else
  for (uint c = get_global_id(0); c < cols; c += get_global_size(0)) out[c] = weight_at(row, c) * scale;
#endif
}
