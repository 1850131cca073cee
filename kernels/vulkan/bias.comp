#version 460
#extension GL_GOOGLE_include_directive : require
// x += bias on every row: [rows, cols] f32. An invocation does four values.
#include "common.glsl"

PUSH(BiasPush);

void main() {
  Floats x = floats(push.x, gl_WorkGroupID.y, push.cols), bias = Floats(push.bias);
  EACH(j, 4) {
    const uint i = (gl_WorkGroupID.x * 4 + j) * WG + gl_LocalInvocationID.x;
    if (i < push.cols) x.v[i] += bias.v[i];
  }
}
