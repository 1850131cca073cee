// What every kernel stands on: the calling convention, buffers by device address, and values of formats that are
// smaller than a word. Files are compiled with --target-env=vulkan1.2.
#ifndef FLYBALL_COMMON_GLSL
#define FLYBALL_COMMON_GLSL
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "push.h"

layout(local_size_x_id = 0) in;
#define WG gl_WorkGroupSize.x

// A push block holds one struct of push.h.
#define PUSH(Type) layout(push_constant, scalar) uniform PushBlock { Type push; }

#define EACH(i, n) [[unroll]] for (uint i = 0; i < (n); ++i)

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Ints { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Uints { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Words { uint64_t v[]; };  // the widest load there is

Floats floats(Address base, uint row, uint cols) {  // of row `row` of [rows, cols] f32
  return Floats(base + 4ul * row * cols);
}

uint64_t packed(float low, float high) { return packUint2x32(uvec2(floatBitsToUint(low), floatBitsToUint(high))); }

float f16_of(uint bits) { return unpackHalf2x16(bits).x; }

// Round to nearest even, as kernels/formats/f16.hpp: packHalf2x16 leaves the rounding to the device.
uint f16_from(float x) {
  const uint bits = floatBitsToUint(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u)
    return sign | 0x7c00u | (magnitude > 0x7f800000u ? 0x200u | ((magnitude >> 13) & 0x3ffu) : 0u);
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude < 0x33000000u) return sign;
  if (magnitude < 0x38800000u) {  // subnormal: units of 2^-24
    const uint shift = 126u - (magnitude >> 23), fraction = (magnitude & 0x7fffffu) | 0x800000u;
    const uint kept = fraction >> shift, rest = fraction & ((1u << shift) - 1u), tie = 1u << (shift - 1u);
    return sign | (kept + uint(rest > tie || (rest == tie && (kept & 1u) != 0u)));
  }
  const uint rebased = magnitude - 0x38000000u;
  return sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13);
}

#endif
