// out[i] = x[rows[i]]: [rows wanted, cols] f32. A work-item takes 8 neighbouring values of one row.
__kernel void gather(__global const float* x, __global const uint* rows, __global float* out, uint cols) {
  const uint c = get_global_id(0) * 8;
  const uint i = get_global_id(1);
  x += rows[i] * (size_t)cols + c;
  out += i * (size_t)cols + c;
  if (c + 8 <= cols) {
    vstore8(vload8(0, x), 0, out);
  } else {
    for (uint j = 0; c + j < cols; ++j) out[j] = x[j];
  }
}
