// residual += sum over a row's experts, in order of choice, of weight * y. y: [rows, n_used, cols], weights: [rows,
// n_used], residual: [rows, cols], f32. A work-item takes 8 neighbouring values of one row.
__kernel void moe_add(__global const float* y, __global const float* weights, __global float* residual, uint n_used,
                      uint cols) {
  const uint c = get_global_id(0) * 8;
  const size_t row = get_global_id(1);
  residual += row * cols + c;
  y += row * n_used * cols + c;
  weights += row * n_used;
  if (c + 8 <= cols) {
    float8 sum = vload8(0, residual);
    for (uint u = 0; u < n_used; ++u) sum += vload8(0, y + (size_t)u * cols) * weights[u];
    vstore8(sum, 0, residual);
  } else {
    for (uint i = 0; c + i < cols; ++i) {
      float sum = residual[i];
      for (uint u = 0; u < n_used; ++u) sum += y[(size_t)u * cols + i] * weights[u];
      residual[i] = sum;
    }
  }
}
