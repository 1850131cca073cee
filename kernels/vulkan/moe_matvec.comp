#version 460
#extension GL_GOOGLE_include_directive : require
// One token each with the matrix of its expert (product.glsl): y[p] = x[p / per_row] * w[experts[p]], kTokens being 1.
// Groups: row groups; y: pairs.
#include "product.glsl"

PUSH(MoeMatmulPush);

void main() {
  const uint p = gl_WorkGroupID.y;
  Address x[kTokens], y[kTokens];
  EACH(t, kTokens) {
    x[t] = push.x + (p / push.per_row) * x_bytes(push.cols);
    y[t] = push.y + 4ul * p * push.rows;
  }
  multiply(push.w, uint64_t(Uints(push.experts).v[p]) * push.rows, push.row_bytes, push.rows, push.cols,
           gl_WorkGroupID.x * kGroupRows, x, y, 1, false);
}
