#version 460
#extension GL_GOOGLE_include_directive : require
// Rotary position embedding [arXiv:2104.09864] of q, in place, and of k on its way to one layer's pages
// (kernels/formats/kv_page.hpp), where v goes, too. An invocation takes two values of a head at a time, or where pages are
// q8_0 a block of 32 of k or v.
#include "common.glsl"
#include "../formats/format_table.h"

layout(constant_id = 1) const uint kInterleaved = 1;  // pairs (2i, 2i + 1); 0: pairs (i, i + rope_dim / 2)
layout(constant_id = 2) const uint kQ8_0 = 0;

PUSH(RopeKvStorePush);

struct Heads {  // of k, and of v, counted through; where they go is one row's slot
  uint row, block, place;
};
Floats head_of(Heads heads, uint head) {
  const bool key = head < push.n_kv_heads;
  return floats(key ? push.k : push.v, heads.row * push.n_kv_heads + head % push.n_kv_heads, push.head_dim);
}
Address page_of(Heads heads, uint head) {
  const uint64_t values = uint64_t(push.block_size) * push.head_dim;
  const uint64_t bytes = kQ8_0 != 0 ? values / FLYBALL_Q8_0_VALUES * FLYBALL_Q8_0_FILE_BYTES : 2 * values;
  return (head < push.n_kv_heads ? push.keys : push.values) +
         (uint64_t(heads.block) * push.n_kv_heads + head % push.n_kv_heads) * bytes;
}

// Pair i of a head's rotated values.
uvec2 pair_of(uint i) { return kInterleaved != 0 ? uvec2(2 * i, 2 * i + 1) : uvec2(i, i + push.rope_dim / 2); }
vec2 rotated(float a, float b, Floats rotation, uint i) {
  const float c = rotation.v[2 * i], s = rotation.v[2 * i + 1];
  return vec2(a * c - b * s, a * s + b * c);
}

void rotate_q(uint row, uint e, Floats rotation) {
  const uint pairs = push.rope_dim / 2, i = e % pairs;
  const uvec2 d = pair_of(i);
  Floats x = floats(push.q, row * push.n_heads + e / pairs, push.head_dim);
  const vec2 pair = rotated(x.v[d.x], x.v[d.y], rotation, i);
  x.v[d.x] = pair.x;
  x.v[d.y] = pair.y;
}

void store_pair(Heads heads, uint head, uint i, Floats rotation) {
  const bool rotates = head < push.n_kv_heads && i < push.rope_dim / 2;
  const uvec2 d = rotates ? pair_of(i) : uvec2(2 * i, 2 * i + 1);
  Floats x = head_of(heads, head);
  const vec2 as_is = vec2(x.v[d.x], x.v[d.y]), other = rotated(as_is.x, as_is.y, rotation, rotates ? i : 0);
  Halves to = Halves(page_of(heads, head) + 2ul * heads.place * push.head_dim);
  to.v[d.x] = uint16_t(f16_from(rotates ? other.x : as_is.x));
  to.v[d.y] = uint16_t(f16_from(rotates ? other.y : as_is.y));
}

float value(Floats x, Floats rotation, bool key, uint d) {
  if (!key || d >= push.rope_dim) return x.v[d];
  const uint i = kInterleaved != 0 ? d / 2 : d % (push.rope_dim / 2);
  const uvec2 both = pair_of(i);
  const vec2 pair = rotated(x.v[both.x], x.v[both.y], rotation, i);
  return d == both.x ? pair.x : pair.y;
}

void store_block(Heads heads, uint head, uint block, Floats rotation) {
  const bool key = head < push.n_kv_heads;
  const uint first = block * FLYBALL_Q8_0_VALUES;
  Floats x = head_of(heads, head);
  float largest = 0.0;
  bool finite = true;
  for (uint d = first; d < first + FLYBALL_Q8_0_VALUES; ++d) {
    const float one = value(x, rotation, key, d);
    finite = finite && (floatBitsToUint(one) & 0x7f800000u) != 0x7f800000u;
    largest = max(largest, abs(one));
  }
  const uint scale = finite ? f16_from(largest * (1.0 / 127.0)) : 0x7e00u;  // NaN: it must show in what reads it
  const float stored = f16_of(scale);
  const float inverse = stored > 0.0 ? 1.0 / stored : 0.0;
  const Address page = page_of(heads, head);
  Uints to = Uints(page + uint64_t(heads.place) * push.head_dim);
  for (uint d = first; d < first + FLYBALL_Q8_0_VALUES; d += 4) {
    uint quants = 0;
    EACH(j, 4) {
      const float one = value(x, rotation, key, d + j) * inverse;
      quants |= (finite ? uint(int(clamp(roundEven(one), -127.0, 127.0))) & 0xffu : 0u) << (8 * j);
    }
    to.v[d / 4] = quants;
  }
  Halves(page + uint64_t(push.block_size) * push.head_dim)
      .v[(heads.place * push.head_dim + first) / FLYBALL_Q8_0_VALUES] = uint16_t(scale);
}

// A loop for each kind of work: a software device computes all branches of one.
void main() {
  const uint row = gl_WorkGroupID.y, first = gl_GlobalInvocationID.x, stride = gl_NumWorkGroups.x * WG;
  Floats q_rotation = floats(push.q_rotations, row, push.rope_dim);
  for (uint e = first; e < push.n_heads * (push.rope_dim / 2); e += stride) rotate_q(row, e, q_rotation);
  Floats rotation = floats(push.rotations, row, push.rope_dim);
  const uint slot = Uints(push.slots).v[row], parts = push.head_dim / (kQ8_0 != 0 ? FLYBALL_Q8_0_VALUES : 2);
  const Heads heads = Heads(row, slot / push.block_size, slot % push.block_size);
  for (uint e = first; e < 2 * push.n_kv_heads * parts; e += stride) {
    if (kQ8_0 != 0)
      store_block(heads, e / parts, e % parts, rotation);
    else
      store_pair(heads, e / parts, e % parts, rotation);
  }
}
