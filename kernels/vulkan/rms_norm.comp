#version 460
#extension GL_GOOGLE_include_directive : require
// Root mean square normalisation [arXiv:1910.07467]: out = x / sqrt(mean(x^2) + eps) * weight, a row a work-group.
#include "common.glsl"
#include "reduce.glsl"

PUSH(RmsNormPush);

void main() {
  const uint lane = gl_LocalInvocationID.x;
  Floats x = floats(push.x, gl_WorkGroupID.y, push.cols), weight = Floats(push.weight),
               to = floats(push.to, gl_WorkGroupID.y, push.cols);
  float sum = 0.0;
  for (uint i = lane; i < push.cols; i += WG) sum = fma(x.v[i], x.v[i], sum);
  const float scale = 1.0 / sqrt(group_sum(sum) / float(push.cols) + push.eps);
  for (uint i = lane; i < push.cols; i += WG) to.v[i] = x.v[i] * scale * weight.v[i];
}
