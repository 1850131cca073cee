// What weights.glsl reads, not decoded: the integers of a part of 32 columns, four to a word as the packed dot product
// takes them, and what their products are scaled by. A weight is (quant - kOffset) * factor + zero.
#ifndef FLYBALL_QUANTS_GLSL
#define FLYBALL_QUANTS_GLSL
#include "weights.glsl"

const uint kQuads = kPart / 4;

struct Scales {
  vec2 factor;  // of the first 16 columns, and of the others
  float zero;
};

#if FORMAT == FLYBALL_FORMAT_Q4_0
const int kOffset = 8;

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, 4) {
    const uint both = (raw.words[i] >> 16) | (raw.words[i + 1] << 16);
    q[i] = both & 0x0f0f0f0fu;
    q[i + 4] = (both >> 4) & 0x0f0f0f0fu;
  }
}

Scales scales_of(Raw raw, uint chunk, uint part) { return Scales(vec2(f16_of(raw.words[0] & 0xffffu)), 0.0); }

#elif FORMAT == FLYBALL_FORMAT_Q8_0
const int kOffset = 0;

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, kQuads) q[i] = (raw.words[i] >> 16) | (raw.words[i + 1] << 16);
}

Scales scales_of(Raw raw, uint chunk, uint part) { return Scales(vec2(f16_of(raw.words[0] & 0xffffu)), 0.0); }

#elif FORMAT == FLYBALL_FORMAT_Q4_K || FORMAT == FLYBALL_FORMAT_Q5_K
#define MINIMA 1
const int kOffset = 0;

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, kQuads) {
    q[i] = (raw.quants[i] >> (4 * part)) & 0x0f0f0f0fu;
#if FORMAT == FLYBALL_FORMAT_Q5_K
    q[i] |= ((raw.fifth[i] >> sub_block(chunk, part)) & 0x01010101u) << 4;
#endif
  }
}

Scales scales_of(Raw raw, uint chunk, uint part) {
  const vec2 scale = factor_and_zero(raw, sub_block(chunk, part));
  return Scales(vec2(scale.x), scale.y);
}

#elif FORMAT == FLYBALL_FORMAT_Q6_K
#define HALVES 1
const int kOffset = 32;

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, kQuads)
    q[i] = ((raw.low[part % 2 * 8 + i] >> (part / 2 * 4)) & 0x0f0f0f0fu) |
           (((raw.high[i] >> (2 * part)) & 0x03030303u) << 4);
}

Scales scales_of(Raw raw, uint chunk, uint part) {
  return Scales(vec2(factor_of(raw, part, 0), factor_of(raw, part, 1)), 0.0);
}
#endif

#endif
