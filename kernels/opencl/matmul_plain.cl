// y[t, r] = sum_c x[t, c] * w[r, c], one work-item a result and one value at a time, decoded by dequantize.cl, which
// stands in front of this file: what the tuned kernels are tested against. w: [rows, cols] in the file's format from
// byte `w_at` on; x: [tokens, cols], y: [tokens, rows] f32. ADD: y += instead.
#ifndef ADD
#define ADD 0
#endif
__kernel void matmul_plain(__global const uchar* w, ulong w_at, ulong row_bytes, __global const float* x,
                           __global float* y, uint rows, uint cols) {
  const uint r = get_global_id(0);
  const size_t t = get_global_id(1);
  if (r >= rows) return;
  __global const uchar* row = w + w_at + r * row_bytes;
  float sum = 0.0f;
  for (uint c = 0; c < cols; ++c) sum += x[t * cols + c] * weight_at(row, c);
#if ADD
  y[t * rows + r] += sum;
#else
  y[t * rows + r] = sum;
#endif
}
