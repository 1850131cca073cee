// x = cap * tanh(x / cap), rows of `cols` f32. A work-item takes 8 neighbouring values of one row.
__kernel void softcap(__global float* x, float cap, uint cols) {
  const uint c = get_global_id(0) * 8;
  const size_t at = get_global_id(1) * (size_t)cols + c;
  if (c + 8 <= cols) {
    vstore8(cap * tanh(vload8(0, x + at) / cap), 0, x + at);
  } else {
    for (uint i = 0; c + i < cols; ++i) x[at + i] = cap * tanh(x[at + i] / cap);
  }
}
