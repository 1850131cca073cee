// Root mean square normalisation [arXiv:1910.07467]: out = x / sqrt(mean(x^2) + eps) * weight, a row a work-group.
// x, out: [rows, dim] f32, may be the same; weight: [dim] f32 at an offset of `weight_at` values.
// WG work-items share a row. WG 1 is for processors: one work-item with vectors does the row by itself.
#ifndef WG
#define WG 1
#endif

float sum_of_squares(__global const float* row, uint dim, uint lane) {
  float8 sum = 0.0f;
  for (uint i = lane * 8; i + 8 <= dim; i += WG * 8) {
    const float8 v = vload8(0, row + i);
    sum += v * v;
  }
  const float4 half_sum = sum.lo + sum.hi;
  float total = (half_sum.x + half_sum.y) + (half_sum.z + half_sum.w);
  if (lane == 0)
    for (uint i = dim / 8 * 8; i < dim; ++i) total += row[i] * row[i];
  return total;
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void rms_norm(__global const float* x,
                                                                       __global const float* weight,
                                                                       uint weight_at, __global float* out,
                                                                       uint dim, float eps) {
  const uint lane = get_local_id(0);
  const size_t at = get_group_id(1) * (size_t)dim;
  float total = sum_of_squares(x + at, dim, lane);
#if WG > 1
  __local float partial[WG];
  partial[lane] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint width = WG / 2; width > 0; width /= 2) {
    if (lane < width) partial[lane] += partial[lane + width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  total = partial[0];
#endif
  const float scale = 1.0f / sqrt(total / (float)dim + eps);
  weight += weight_at;
  for (uint i = lane * 8; i + 8 <= dim; i += WG * 8)
    vstore8(vload8(0, x + at + i) * scale * vload8(0, weight + i), 0, out + at + i);
  if (lane == 0)
    for (uint i = dim / 8 * 8; i < dim; ++i) out[at + i] = x[at + i] * scale * weight[i];
}
