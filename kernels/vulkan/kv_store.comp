#version 460
#extension GL_GOOGLE_include_directive : require
// Appends the keys and values of new tokens to one layer's pages (kernels/formats/kv_page.hpp), a row a work-group. An
// invocation rounds two values to f16, or a block of 32 to q8_0.
#include "common.glsl"
#include "../formats/block_layout.h"

layout(constant_id = 1) const uint kQ8_0 = 0;

PUSH(KvStorePush);

void store_f16(Floats x, Address page, uint place, uint first) {
  Halves to = Halves(page + 2ul * place * push.head_dim);
  for (uint i = first; i < min(first + 2, push.head_dim); ++i) to.v[i] = uint16_t(f16_from(x.v[i]));
}

void store_q8_0(Floats x, Address page, uint place, uint first) {
  float largest = 0.0;
  bool finite = true;
  for (uint i = first; i < first + FLYBALL_Q8_0_VALUES; ++i) {
    finite = finite && (floatBitsToUint(x.v[i]) & 0x7f800000u) != 0x7f800000u;
    largest = max(largest, abs(x.v[i]));
  }
  const uint scale = finite ? f16_from(largest * (1.0 / 127.0)) : 0x7e00u;  // NaN: it must show in what reads it
  const float stored = f16_of(scale);
  const float inverse = stored > 0.0 ? 1.0 / stored : 0.0;
  Uints to = Uints(page + uint64_t(place) * push.head_dim);
  for (uint i = first; i < first + FLYBALL_Q8_0_VALUES; i += 4) {
    uint quants = 0;
    EACH(j, 4) {
      const int quant = finite ? int(clamp(roundEven(x.v[i + j] * inverse), -127.0, 127.0)) : 0;
      quants |= (uint(quant) & 0xffu) << (8 * j);
    }
    to.v[i / 4] = quants;
  }
  Halves(page + uint64_t(push.block_size) * push.head_dim)
      .v[(place * push.head_dim + first) / FLYBALL_Q8_0_VALUES] = uint16_t(scale);
}

void main() {
  const uint row = gl_WorkGroupID.y, slot = Uints(push.slots).v[row];
  const uint block = slot / push.block_size, place = slot % push.block_size;
  const uint width = kQ8_0 != 0 ? FLYBALL_Q8_0_VALUES : 2, parts = (push.head_dim + width - 1) / width;
  const uint64_t values = uint64_t(push.block_size) * push.head_dim;
  const uint64_t page_bytes = kQ8_0 != 0 ? values / FLYBALL_Q8_0_VALUES * FLYBALL_Q8_0_FILE_BYTES : 2 * values;
  for (uint e = gl_LocalInvocationID.x; e < 2 * push.n_kv_heads * parts; e += WG) {
    const uint part = e % parts, head = e / parts % push.n_kv_heads;
    const bool key = e / parts < push.n_kv_heads;
    Floats x = floats(key ? push.k : push.v, row * push.n_kv_heads + head, push.head_dim);
    const Address page = (key ? push.keys : push.values) + (uint64_t(block) * push.n_kv_heads + head) * page_bytes;
    if (kQ8_0 != 0)
      store_q8_0(x, page, place, part * width);
    else
      store_f16(x, page, place, part * width);
  }
}
