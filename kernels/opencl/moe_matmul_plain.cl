// y[i, r] = sum_c x[i / share, c] * w[experts[i], r, c]: matmul_plain with a matrix chosen for each row of the result.
// w: [experts, rows, cols] in the file's format from byte `w_at` on, decoded by dequantize.cl, which stands in front of
// this file; x: f32 [results / share, cols]; y: [results, rows] f32.
__kernel void moe_matmul_plain(__global const uchar* w, ulong w_at, ulong row_bytes, __global const float* x,
                               __global float* y, __global const uint* experts, uint share, uint rows, uint cols) {
  const uint r = get_global_id(0);
  const size_t i = get_global_id(1);
  if (r >= rows) return;
  __global const uchar* row = w + w_at + ((ulong)experts[i] * rows + r) * row_bytes;
  x += i / share * (size_t)cols;
  float sum = 0.0f;
  for (uint c = 0; c < cols; ++c) sum += x[c] * weight_at(row, c);
  y[i * rows + r] = sum;
}
