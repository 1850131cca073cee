// Pairs (row, chosen expert) grouped by expert, in order of pair: what moe_matmul_* reads. A counting sort whose every
// work-item counts for one expert, so that nothing depends on timing.
#ifndef ITEMS
#define ITEMS 64  // work-items of the one work-group
#endif

// experts: [pairs] ids below n_experts. offsets: [n_experts + 1]; order: [pairs].
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void moe_group(__global const uint* experts, uint pairs,
                                                                          uint n_experts, __global uint* offsets,
                                                                          __global uint* order) {
  for (uint e = get_local_id(0); e < n_experts; e += ITEMS) {
    uint before = 0, mine = 0;
    for (uint p = 0; p < pairs; ++p) {
      before += experts[p] < e;
      mine += experts[p] == e;
    }
    offsets[e] = before;
    if (e + 1 == n_experts) offsets[n_experts] = pairs;
    for (uint p = 0; mine > 0; ++p) {
      if (experts[p] != e) continue;
      order[before++] = p;
      --mine;
    }
  }
}
