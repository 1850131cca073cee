// The router of a mixture of experts [arXiv:2401.04088]: for each row the n_used likeliest of n_experts, likeliest first
// and of equals the lower id, weighed by the softmax of their own values: the softmax over all, divided by the chosen
// ones' share. router: [rows, n_experts] f32; experts, weights: [rows, n_used].
// WG work-items share a row; 1 on processors.
#ifndef WG
#define WG 1
#endif

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void moe_route(__global const float* router,
                                                                        __global uint* experts,
                                                                        __global float* weights, uint n_experts,
                                                                        uint n_used) {
  __local float values[WG];
  __local uint ids[WG];
  const uint lane = get_local_id(0);
  const size_t row = get_group_id(1);
  router += row * n_experts;
  experts += row * n_used;
  weights += row * n_used;
  // What comes after the last one chosen, in the order of choice, is still to be had: no marks are needed.
  float last = INFINITY, most = 0.0f;
  uint last_id = 0;
  float sum = 0.0f;
  for (uint use = 0; use < n_used; ++use) {
    float best = -INFINITY;
    uint id = 0xffffffffu;
    for (uint e = lane; e < n_experts; e += WG) {
      const float v = router[e];
      const bool left = use == 0 || v < last || (v == last && e > last_id);
      if (left && (id == 0xffffffffu || v > best)) {
        best = v;
        id = e;
      }
    }
    values[lane] = best;
    ids[lane] = id;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint width = WG / 2; width > 0; width /= 2) {
      if (lane < width) {
        const float v = values[lane + width];
        const uint e = ids[lane + width];
        if (e != 0xffffffffu && (ids[lane] == 0xffffffffu || v > values[lane] || (v == values[lane] && e < ids[lane]))) {
          values[lane] = v;
          ids[lane] = e;
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    last = values[0];
    // A row of NaNs chooses nothing: the last expert stands in, and the NaN shows in the logits.
    last_id = min(ids[0], n_experts - 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (use == 0) most = last;
    const float weight = exp(last - most);
    sum += weight;
    if (lane == 0) {
      experts[use] = last_id;
      weights[use] = weight;
    }
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  for (uint use = lane; use < n_used; use += WG) weights[use] /= sum;
}
