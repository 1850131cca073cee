#version 460
#extension GL_GOOGLE_include_directive : require
// Up to three matrices of one format over the same x (product.glsl). Groups: the row groups of the matrices one after
// the other, folded into x and y; z: chunks of kTokens tokens.
#include "product.glsl"

PUSH(MatmulPush);

uint groups_of(uint rows) { return (rows + kGroupRows - 1) / kGroupRows; }

void main() {
  uint part = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, which = 0;
  while (which < 3 && part >= groups_of(push.rows[which])) part -= groups_of(push.rows[which++]);
  if (which == 3) return;  // what rounds up the grid
  const uint first = gl_WorkGroupID.z * kTokens, n = min(push.n - first, kTokens);
  Address x[kTokens], y[kTokens];
  EACH(t, kTokens) {
    const uint64_t token = first + min(t, n - 1);
    x[t] = push.x + token * x_bytes(push.cols);
    y[t] = push.y[which] + 4 * token * push.rows[which];
  }
  multiply(push.w[which], 0, push.row_bytes, push.rows[which], push.cols, part * kGroupRows, x, y, n, push.add != 0);
}
