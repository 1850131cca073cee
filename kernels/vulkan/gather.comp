#version 460
#extension GL_GOOGLE_include_directive : require
// out[i] = x[rows[i]]: [rows wanted, cols] f32. An invocation does four values.
#include "common.glsl"

PUSH(GatherPush);

void main() {
  Floats x = floats(push.x, Uints(push.rows).v[gl_WorkGroupID.y], push.cols),
               to = floats(push.to, gl_WorkGroupID.y, push.cols);
  EACH(j, 4) {
    const uint i = (gl_WorkGroupID.x * 4 + j) * WG + gl_LocalInvocationID.x;
    if (i < push.cols) to.v[i] = x.v[i];
  }
}
