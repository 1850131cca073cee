#version 460
#extension GL_GOOGLE_include_directive : require
// residual += sum over a row's experts, in order of choice, of weight * y: [rows, n_used, cols] f32. An invocation does
// four values.
#include "common.glsl"

PUSH(MoeAddPush);

void main() {
  const uint row = gl_WorkGroupID.y;
  Floats residual = floats(push.residual, row, push.cols), weights = floats(push.weights, row, push.n_used),
               y = floats(push.y, row * push.n_used, push.cols);
  EACH(j, 4) {
    const uint i = (gl_WorkGroupID.x * 4 + j) * WG + gl_LocalInvocationID.x;
    if (i >= push.cols) continue;
    float sum = residual.v[i];
    for (uint use = 0; use < push.n_used; ++use) sum = fma(y.v[use * push.cols + i], weights.v[use], sum);
    residual.v[i] = sum;
  }
}
