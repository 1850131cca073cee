// x = x / sqrt(mean(x^2) + eps) * weight for every head by itself, in place. x: [rows, heads, head_dim] f32; weight:
// [head_dim] f32 at an offset of `weight_at` values. A work-item does one head.
// Global sizes: heads, rows.
__kernel void head_norm(__global float* x, __global const float* weight, uint weight_at, uint head_dim, float eps) {
  x += (get_global_id(1) * get_global_size(0) + get_global_id(0)) * head_dim;
  weight += weight_at;
  float8 sum = 0.0f;
  const uint even = head_dim / 8 * 8;
  for (uint i = 0; i < even; i += 8) {
    const float8 v = vload8(0, x + i);
    sum += v * v;
  }
  const float4 half_sum = sum.lo + sum.hi;
  float total = (half_sum.x + half_sum.y) + (half_sum.z + half_sum.w);
  for (uint i = even; i < head_dim; ++i) total += x[i] * x[i];
  const float scale = 1.0f / sqrt(total / (float)head_dim + eps);
  for (uint i = 0; i < even; i += 8) vstore8(vload8(0, x + i) * scale * vload8(0, weight + i), 0, x + i);
  for (uint i = even; i < head_dim; ++i) x[i] = x[i] * scale * weight[i];
}
