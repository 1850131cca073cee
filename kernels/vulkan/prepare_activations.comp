#version 460
#extension GL_GOOGLE_include_directive : require
// Rounds activations to signed bytes, 32 of them with one scale, for products by the packed dot product (prepared.glsl). An
// invocation rounds 32 values.
#include "prepared.glsl"

PUSH(PrepareActivationsPush);

const float kSmallest = 2e-36;  // a peak below this is zero: its scale would be no normal number, and GPUs take those as 0

void main() {
  for (uint block = gl_GlobalInvocationID.x; block < push.blocks; block += gl_NumWorkGroups.x * WG) {
    Words from = Words(push.x + 4ul * FLYBALL_PREPARED_VALUES * block);
    float x[FLYBALL_PREPARED_VALUES], peak = 0.0;
    bool finite = true;
    EACH(i, FLYBALL_PREPARED_VALUES / 2) {
      const uvec2 two = unpackUint2x32(from.v[i]);
      EACH(c, 2) {
        x[2 * i + c] = uintBitsToFloat(two[c]);
        finite = finite && (two[c] & 0x7f800000u) != 0x7f800000u;
        peak = max(peak, abs(x[2 * i + c]));
      }
    }
    Prepared p;
    p.scale = finite ? peak * (1.0 / 127.0) : uintBitsToFloat(0x7fc00000u);
    p.sums = ivec2(0);
    // 1 / scale, not 127 / peak: a GPU multiplies by the divisor's inverse, and that of the largest peaks is no normal number.
    const float inverse = finite && peak > kSmallest ? 1.0 / p.scale : 0.0;
    EACH(i, 8) {
      p.quants[i] = 0;
      EACH(c, 4) {
        const int quant = finite ? int(clamp(roundEven(x[4 * i + c] * inverse), -127.0, 127.0)) : 0;
        p.sums[i / 4] += quant;
        p.quants[i] |= (uint(quant) & 0xffu) << (8 * c);
      }
    }
    store_prepared(push.to, block, p);
  }
}
