// x += y, rows of `cols` f32. A work-item takes 8 neighbouring values of one row.
__kernel void add(__global float* x, __global const float* y, uint cols) {
  const uint c = get_global_id(0) * 8;
  const size_t at = get_global_id(1) * (size_t)cols + c;
  if (c + 8 <= cols) {
    vstore8(vload8(0, x + at) + vload8(0, y + at), 0, x + at);
  } else {
    for (uint i = 0; c + i < cols; ++i) x[at + i] += y[at + i];
  }
}
