// What the products of software devices share. A load by address loops over their lanes and costs as much as twenty
// products; a texel of 16 bytes comes for a few. An invocation has rows of its own; of x it loads one texel, and values go
// round in the subgroup, which is the work-group. A sum goes by parts of 32 columns, in order, from what it is added to on,
// whatever the number of tokens. Columns are a multiple of 32.
#include "common.glsl"
#include "../formats/block_layout.h"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 1) const uint kRows = 1;     // of an invocation
layout(constant_id = 2) const uint kTokens = 1;   // of a work-group
layout(constant_id = 3) const uint kBlocks = 1;   // of 32 columns, read at a time: 1, or 4 where 4 are a multiple of 8 bytes
layout(constant_id = 4) const uint kAligned = 2;  // what rows' first bytes are multiples of: 2, 8 or 16
// 1: values are passed on from lanes whose numbers the compiler does not know: llvmpipe then takes one instruction (AVX2's)
// instead of two. Elsewhere it takes a loop.
layout(constant_id = 5) const uint kPermutes = 0;

// x and w are bytes into what the sets hold, from its first byte on.
layout(set = 0, binding = 0) uniform usamplerBuffer weight_texels;
layout(set = 1, binding = 0) uniform usamplerBuffer x_texels;  // f32
PUSH(MatmulPush);

const uint kPart = 32;  // columns: FLYBALL_STEP_COLUMNS
const uint kAllBits = 0xffffffffu;
#if FORMAT == FLYBALL_FORMAT_F16 || FORMAT == FLYBALL_FORMAT_BF16
#define BLOCK_BYTES 64  // of 32 columns
#elif FORMAT == FLYBALL_FORMAT_Q4_0
#define BLOCK_BYTES FLYBALL_Q4_0_FILE_BYTES
#else
#define BLOCK_BYTES FLYBALL_Q8_0_FILE_BYTES
#endif
#define MOST_WORDS ((4 * BLOCK_BYTES + 29) / 16 * 4)
// What the first bytes of what is read are multiples of.
const uint kStep = BLOCK_BYTES % 16 == 0 || kAligned < 8 ? kAligned : kBlocks == 4 ? 8 : 2;
const uint kBytes = kBlocks * BLOCK_BYTES;
const uint kWords = (kBytes + 16 - kStep + 15) / 16 * 4;

// kBlocks blocks from byte `at` on: whole texels, shifted into place. So up to 14 bytes around them are read, too.
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

// Block b of what was read: w * scale.
void decode(uint words[MOST_WORDS], uint b, out float w[kPart], out float scale) {
  const uint at = b * BLOCK_BYTES;
#if FORMAT == FLYBALL_FORMAT_F16
  scale = 1.0;
  EACH(i, kPart / 2) {
    const vec2 both = unpackHalf2x16(words[at / 4 + i]);
    w[2 * i] = both.x;
    w[2 * i + 1] = both.y;
  }
#elif FORMAT == FLYBALL_FORMAT_BF16
  scale = 1.0;
  EACH(i, kPart / 2) {
    w[2 * i] = uintBitsToFloat(words[at / 4 + i] << 16);
    w[2 * i + 1] = uintBitsToFloat(words[at / 4 + i] & 0xffff0000u);
  }
#else
  scale = f16_of((words[at / 4] >> (8 * (at % 4))) & 0xffffu);
#if FORMAT == FLYBALL_FORMAT_Q4_0
  EACH(i, kPart / 2) {
    const uint both = words[(at + 2 + i) / 4] >> (8 * ((at + 2 + i) % 4));
    w[i] = float(int(both & 15u) - 8);
    w[i + 16] = float(int((both >> 4) & 15u) - 8);
  }
#else
  EACH(i, kPart) w[i] = float(signed_byte(words[(at + 2 + i) / 4], (at + 2 + i) % 4));
#endif
#endif
}

const uint kTexels = kPart / 4, kLoads = (kTexels + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;

// Of 32 values of x, from texel `first` on, what this invocation keeps: their bits, where `bits` has them.
void keep(uint first, uint bits, out float kept[kPart]) {
  EACH(j, kLoads) {
    const uvec4 four = texelFetch(x_texels, int(first + (j * WG + gl_SubgroupInvocationID) % kTexels));
    EACH(c, 4) kept[4 * j + c] = uintBitsToFloat(four[c] & bits);
  }
}

// Value i of them. Every invocation comes here. zero: passing_zero().
float passed(float kept[kPart], uint i, uint zero) {
  return subgroupShuffle(kept[i / 4 / WG * 4 + i % 4], i / 4 % WG + zero);
}
uint passing_zero() { return kPermutes != 0 ? push.zero : 0; }
