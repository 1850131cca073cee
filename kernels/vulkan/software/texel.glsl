// What the products of software devices share. A load by address loops over their lanes and costs as much as twenty
// products; a texel of 16 bytes comes for a few. A work-group is a subgroup. A sum goes by half blocks of 16 columns, in
// order, times the scale; a tree adds as many of them as the subgroup has invocations, of which the first meets the middle
// one; and these are added one after the other to what was there, whatever the number of tokens. Columns are a multiple of
// 32.
#include "../common.glsl"
#include "../../formats/format_table.h"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 1) const uint kRows = 1;     // of an invocation
layout(constant_id = 2) const uint kTokens = 1;   // of a work-group
layout(constant_id = 3) const uint kBlocks = 1;   // of 32 columns, read at a time: 1, 4 or 8, multiples of 2, 8 or 16 bytes
layout(constant_id = 4) const uint kAligned = 2;  // what rows' first bytes are multiples of: 2, 8 or 16
// 1: values are passed on from lanes whose numbers the compiler does not know: llvmpipe then takes one instruction (AVX2's)
// instead of two. Elsewhere it takes a loop.
layout(constant_id = 5) const uint kPermutes = 0;

// x and w are bytes into what the sets hold, from its first byte on.
// With X_IN_LINE x is an image: llvmpipe calls a function for a texel of a sampled view, and has one of an image in line.
layout(set = 0, binding = 0) uniform usamplerBuffer weight_texels;
#ifdef X_IN_LINE
layout(set = 1, binding = 2, rgba32ui) readonly uniform uimageBuffer x_texels;  // f32
#define FETCH_X imageLoad
#else
layout(set = 1, binding = 0) uniform usamplerBuffer x_texels;
#define FETCH_X texelFetch
#endif
PUSH(MatmulPush);

const uint kPart = 32;  // columns: FLYBALL_STEP_COLUMNS
const uint kHalf = 16;  // of them
const uint kLog = 6;    // at least log2 of the subgroup's size
const uint kAllBits = 0xffffffffu;
#if defined(FORMAT_F16) || defined(FORMAT_BF16)
#define BLOCK_BYTES 64  // of 32 columns
#elif defined(FORMAT_Q4_0)
#define BLOCK_BYTES FLYBALL_Q4_0_FILE_BYTES
#else
#define BLOCK_BYTES FLYBALL_Q8_0_FILE_BYTES
#endif
#if defined(FORMAT_F16) || defined(FORMAT_BF16)
#define MOST_BLOCKS 1
#else
#define MOST_BLOCKS 8
#endif
#define MOST_WORDS ((MOST_BLOCKS * BLOCK_BYTES + 29) / 16 * 4)
// What the first bytes of what is read are multiples of.
const uint kStep = BLOCK_BYTES % 16 == 0 || kAligned < 8 ? kAligned : kBlocks == 8 ? 16 : kBlocks == 4 ? 8 : 2;
#ifdef READ_BYTES
const uint kBytes = READ_BYTES;
#else
const uint kBytes = kBlocks * BLOCK_BYTES;
#endif
const uint kWords = (kBytes + 16 - kStep + 15) / 16 * 4;

// kBytes from byte `at` on: whole texels, shifted into place. So up to 16 bytes around them are read, too.
void read_blocks(uint at, out uint words[MOST_WORDS]) {
  EACH(i, kWords / 4) {
    const uvec4 four = texelFetch(weight_texels, int(at / 16 + i));
    EACH(c, 4) words[4 * i + c] = four[c];
  }
  const bool skip_two = (at & 8u) != 0, skip_word = (at & 4u) != 0, skip_half = (at & 2u) != 0;
  if (kStep < 16) EACH(i, kWords - 2) words[i] = skip_two ? words[i + 2] : words[i];
  if (kStep < 8) {
    EACH(i, kWords - 2) words[i] = skip_word ? words[i + 1] : words[i];
    EACH(i, kWords - 2) words[i] = skip_half ? (words[i] >> 16) | (words[i + 1] << 16) : words[i];
  }
}

int signed_byte(uint word, uint i) { return int(word << (24 - 8 * i)) >> 24; }

// Column i of block b is weight_at() of its place times scale_at() of the scale's. Places are bytes; a word is the one that
// a place lies in.
uint place_of_scale(uint b) { return b * BLOCK_BYTES; }
uint place_of(uint b, uint i) {
#if defined(FORMAT_F16) || defined(FORMAT_BF16)
  return b * BLOCK_BYTES + 2 * i;
#elif defined(FORMAT_Q4_0)
  return b * BLOCK_BYTES + 2 + i % 16;
#else
  return b * BLOCK_BYTES + 2 + i;
#endif
}
float weight_at(uint word, uint place, uint i) {
#if defined(FORMAT_F16)
  return unpackHalf2x16(word)[place / 2 % 2];
#elif defined(FORMAT_BF16)
  return uintBitsToFloat(place % 4 == 0 ? word << 16 : word & 0xffff0000u);
#elif defined(FORMAT_Q4_0)
  return float(int((word >> (place % 4 * 8 + i / 16 * 4)) & 15u) - 8);
#else
  return float(signed_byte(word, place % 4));
#endif
}
float scale_at(uint word, uint place) {
#if defined(FORMAT_F16) || defined(FORMAT_BF16)
  return 1.0;
#else
  return f16_of((word >> (place % 4 * 8)) & 0xffffu);
#endif
}

const uint kTexels = kPart / 4, kLoads = (kTexels + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;

// Of 32 values of x, from texel `first` on, what this invocation keeps: their bits, where `bits` has them.
void keep(uint first, uint bits, out float kept[kPart]) {
  EACH(j, kLoads) {
    const uvec4 four = FETCH_X(x_texels, int(first + (j * WG + gl_SubgroupInvocationID) % kTexels));
    EACH(c, 4) kept[4 * j + c] = uintBitsToFloat(four[c] & bits);
  }
}

// Value i of them. Every invocation comes here. zero: passing_zero().
float passed(float kept[kPart], uint i, uint zero) {
  return subgroupShuffle(kept[i / 4 / WG * 4 + i % 4], i / 4 % WG + zero);
}
uint passing_zero() { return kPermutes != 0 ? push.zero : 0; }
