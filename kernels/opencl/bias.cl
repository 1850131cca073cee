// x += b on every row: x [rows, cols] f32, b [cols] f32 at an offset of `b_at` values. A work-item takes 8
// neighbouring values of one row.
__kernel void bias(__global float* x, __global const float* b, uint b_at, uint cols) {
  const uint c = get_global_id(0) * 8;
  const size_t at = get_global_id(1) * (size_t)cols + c;
  b += b_at + c;
  if (c + 8 <= cols) {
    vstore8(vload8(0, x + at) + vload8(0, b), 0, x + at);
  } else {
    for (uint i = 0; c + i < cols; ++i) x[at + i] += b[i];
  }
}
