#version 460
#extension GL_GOOGLE_include_directive : require
// Rotary position embedding [arXiv:2104.09864] of q and k, in place, a row a work-group.
#include "common.glsl"

layout(constant_id = 1) const uint kInterleaved = 1;  // pairs (2i, 2i + 1); 0: pairs (i, i + rope_dim / 2)

PUSH(RopePush);

void main() {
  const uint row = gl_WorkGroupID.y, pairs = push.rope_dim / 2;
  Floats rotation = floats(push.rotations, row, push.rope_dim);
  for (uint e = gl_LocalInvocationID.x; e < (push.n_heads + push.n_kv_heads) * pairs; e += WG) {
    const uint head = e / pairs, i = e % pairs;
    Floats x = head < push.n_heads
                         ? floats(push.q, row * push.n_heads + head, push.head_dim)
                         : floats(push.k, row * push.n_kv_heads + (head - push.n_heads), push.head_dim);
    const uint a = kInterleaved != 0 ? 2 * i : i, b = kInterleaved != 0 ? 2 * i + 1 : i + pairs;
    const float va = x.v[a], vb = x.v[b], c = rotation.v[2 * i], s = rotation.v[2 * i + 1];
    x.v[a] = va * c - vb * s;
    x.v[b] = va * s + vb * c;
  }
}
