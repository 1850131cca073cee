#version 460
#extension GL_GOOGLE_include_directive : require
// x = x / sqrt(mean(x^2) + eps) * weight for every head by itself, in place; an invocation does whole heads of a row.
#include "common.glsl"

PUSH(HeadNormPush);

void main() {
  Floats weight = Floats(push.weight);
  for (uint head = gl_LocalInvocationID.x; head < push.heads; head += WG) {
    Floats x = floats(push.x, gl_WorkGroupID.y * push.heads + head, push.head_dim);
    float sum = 0.0;
    for (uint i = 0; i < push.head_dim; ++i) sum = fma(x.v[i], x.v[i], sum);
    const float scale = 1.0 / sqrt(sum / float(push.head_dim) + push.eps);
    for (uint i = 0; i < push.head_dim; ++i) x.v[i] = x.v[i] * scale * weight.v[i];
  }
}
