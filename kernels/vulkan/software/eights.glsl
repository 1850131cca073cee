// What the elementwise kernels of software devices share: an invocation takes eight values at a time, reads them as two
// texels (a load by address is a loop over the lanes for each value) and stores them by one loop over the lanes.
#include "../common.glsl"

// Eight values from texel 2 * `at` on.
void fetch(usamplerBuffer from, uint at, out float x[8]) {
  EACH(half_of, 2) {
    const uvec4 four = texelFetch(from, int(2 * at + half_of));
    EACH(c, 4) x[4 * half_of + c] = uintBitsToFloat(four[c]);
  }
}

u64vec4 packed_eight(float x[8]) {
  return u64vec4(packed(x[0], x[1]), packed(x[2], x[3]), packed(x[4], x[5]), packed(x[6], x[7]));
}
