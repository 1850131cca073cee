// How a product is cut: an invocation takes kRows rows, and every kSlices-th chunk of columns of each; kSlices neighbours
// share a row, so that they read neighbouring memory (GPUs), or kSlices is 1 (processors).
#ifndef FLYBALL_CUT_GLSL
#define FLYBALL_CUT_GLSL
#include "common.glsl"

layout(constant_id = 2) const uint kSlices = 1;  // divides the work-group
layout(constant_id = 3) const uint kRows = 1;
layout(constant_id = 4) const uint kTokens = 1;  // those that are not there repeat the last and are not stored

const uint kApart = gl_WorkGroupSize.x / kSlices;  // from one row of an invocation to its next
const uint kGroupRows = kApart * kRows;
const uint kSums = kTokens * kRows;  // of an invocation

shared float slice_sums[kSlices > 1 ? kSums * gl_WorkGroupSize.x : 1];

// sum: [token][row of the invocation], of its slice. first_row: the invocation's. The first slice adds up, in order. All
// invocations of the work-group come here.
void store(float sum[kSums], uint first_row, uint rows, Address y[kTokens], uint n, bool add) {
  const uint lane = gl_LocalInvocationID.x;
  if (kSlices > 1) {
    barrier();  // a sum of before is read
    EACH(i, kSums) slice_sums[i * gl_WorkGroupSize.x + lane] = sum[i];
    barrier();
    if (lane % kSlices == 0)
      EACH(i, kSums)
        for (uint other = 1; other < kSlices; ++other) sum[i] += slice_sums[i * gl_WorkGroupSize.x + lane + other];
  }
  if (lane % kSlices != 0) return;
  EACH(t, kTokens) EACH(r, kRows) {
    const uint at = first_row + r * kApart;
    if (t >= n || at >= rows) continue;
    if (add) sum[t * kRows + r] += Floats(y[t]).v[at];
    Floats(y[t]).v[at] = sum[t * kRows + r];
  }
}

#endif
