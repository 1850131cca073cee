// out[i] = row tokens[i] of the embedding table, decoded by dequantize.cl, which stands in front of this file.
// table: rows of `row_bytes` bytes from byte `table_at` on; out: [rows, cols] f32.
// Global sizes: work-items that share a row, rows.
__kernel void embed(__global const uchar* table, ulong table_at, ulong row_bytes, __global const int* tokens,
                    __global float* out, uint cols) {
  const uint i = get_global_id(1);
  __global const uchar* row = table + table_at + tokens[i] * row_bytes;
  out += i * (size_t)cols;
  for (uint c = get_global_id(0); c < cols; c += get_global_size(0)) out[c] = weight_at(row, c);
}
