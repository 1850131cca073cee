// Activations as dot_product.glsl takes them: 32 values are a record of 40 bytes, the scale (f32; NaN where a value was no
// number), the sums of the first 16 and of the other quants (16 bits each) and the quants, four to a word.
#ifndef FLYBALL_PREPARED_GLSL
#define FLYBALL_PREPARED_GLSL
#include "common.glsl"

const uint kPreparedBytes = FLYBALL_PREPARED_BYTES, kPreparedWords = kPreparedBytes / 8;

struct Prepared {
  float scale;
  ivec2 sums;
  uint quants[8];
};

uint64_t x_bytes(uint cols) { return uint64_t(cols / FLYBALL_PREPARED_VALUES) * kPreparedBytes; }

Prepared prepared(Address x, uint block) {
  Words from = Words(x + block * kPreparedBytes);
  uint words[2 * kPreparedWords];
  EACH(i, kPreparedWords) {
    const uint64_t two = from.v[i];
    words[2 * i] = uint(two);
    words[2 * i + 1] = uint(two >> 32);
  }
  Prepared p;
  p.scale = uintBitsToFloat(words[0]);
  p.sums = ivec2(int(words[1] << 16) >> 16, int(words[1]) >> 16);
  EACH(i, 8) p.quants[i] = words[2 + i];
  return p;
}

void store_prepared(Address to, uint block, Prepared p) {
  Words at = Words(to + uint64_t(block) * kPreparedBytes);
  at.v[0] = packUint2x32(uvec2(floatBitsToUint(p.scale), (uint(p.sums.x) & 0xffffu) | (uint(p.sums.y) << 16)));
  EACH(i, 4) at.v[1 + i] = packUint2x32(uvec2(p.quants[2 * i], p.quants[2 * i + 1]));
}

#endif
