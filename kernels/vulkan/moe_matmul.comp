#version 460
#extension GL_GOOGLE_include_directive : require
// The pairs of each expert together (product.glsl): those of expert e are order[offsets[e] .. offsets[e + 1]].
// Groups: row groups; y: experts.
#include "product.glsl"

PUSH(MoeMatmulPush);

void main() {
  const uint e = gl_WorkGroupID.y, end = Uints(push.offsets).v[e + 1];
  for (uint first = Uints(push.offsets).v[e]; first < end; first += kTokens) {
    const uint n = min(end - first, kTokens);
    Address x[kTokens], y[kTokens];
    EACH(t, kTokens) {
      const uint p = Uints(push.order).v[first + min(t, n - 1)];
      x[t] = push.x + (p / push.per_row) * x_bytes(push.cols);
      y[t] = push.y + 4ul * p * push.rows;
    }
    multiply(push.w, uint64_t(e) * push.rows, push.row_bytes, push.rows, push.cols, gl_WorkGroupID.x * kGroupRows, x, y,
             n, false);
  }
}
