#version 460
#extension GL_GOOGLE_include_directive : require
// rms_norm.comp for software devices: rows of a multiple of eight values, a row a work-group, which is a subgroup.
#include "eights.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

// Places are bytes into what the sets hold, multiples of 32, from its first byte on.
layout(set = 0, binding = 0) uniform usamplerBuffer x_texels;
layout(set = 1, binding = 0) uniform usamplerBuffer weight_texels;
layout(set = 2, binding = 1, scalar) buffer Out { u64vec4 to[]; };
PUSH(RmsNormPush);

void main() {
  const uint lane = gl_SubgroupInvocationID, eights = push.cols / 8, row = gl_WorkGroupID.y * eights;
  const uint x_at = uint(push.x) / 32 + row, to_at = uint(push.to) / 32 + row, weight_at = uint(push.weight) / 32;
  float x[8], weight[8], sum = 0.0;
  for (uint i = lane; i < eights; i += WG) {
    fetch(x_texels, x_at + i, x);
    EACH(c, 8) sum = fma(x[c], x[c], sum);
  }
  const float scale = 1.0 / sqrt(subgroupAdd(sum) / float(push.cols) + push.eps);
  for (uint i = lane; i < eights; i += WG) {
    fetch(x_texels, x_at + i, x);
    fetch(weight_texels, weight_at + i, weight);
    EACH(c, 8) x[c] = x[c] * scale * weight[c];
    to[to_at + i] = packed_eight(x);
  }
}
