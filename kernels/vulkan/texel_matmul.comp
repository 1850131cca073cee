#version 460
#extension GL_GOOGLE_include_directive : require
// matmul.comp for software devices, whose loads by address loop over their lanes and cost as much as twenty products; a
// texel of 16 bytes comes for a few. An invocation has kRows rows of its own; of x it loads one texel, and values go round
// in the subgroup, which is the work-group. Weights are decoded once for all the tokens of a work-group. A sum goes by
// parts of 32 columns, in order, whatever the number of tokens. Built for the formats below; columns are a multiple of 32.
#include "common.glsl"
#include "../formats/block_layout.h"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 1) const uint kRows = 1;
layout(constant_id = 2) const uint kTokens = 1;  // those that are not there repeat the last and are not stored
layout(constant_id = 3) const uint kBlocks = 1;  // of 32 columns, read at a time: 1, or 4 where 4 are a multiple of 8 bytes
layout(constant_id = 4) const uint kAligned = 2;  // what rows' first bytes are multiples of: 2, 8 or 16

// In this kernel x and w are bytes into what the sets hold, from its first byte on.
layout(set = 0, binding = 0) uniform usamplerBuffer weight_texels;
layout(set = 1, binding = 0) uniform usamplerBuffer x_texels;  // f32
PUSH(MatmulPush);

const uint kPart = 32;  // columns: FLYBALL_STEP_COLUMNS
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

// Of 32 values of x, from texel `first` on, what this invocation keeps.
void keep(uint first, out float kept[kPart]) {
  EACH(j, kLoads) {
    const uvec4 four = texelFetch(x_texels, int(first + (j * WG + gl_SubgroupInvocationID) % kTexels));
    EACH(c, 4) kept[4 * j + c] = uintBitsToFloat(four[c]);
  }
}

// Value i of them. Every invocation comes here.
float passed(float kept[kPart], uint i) { return subgroupShuffle(kept[i / 4 / WG * 4 + i % 4], i / 4 % WG); }

uint groups_of(uint rows) { return (rows + WG * kRows - 1) / (WG * kRows); }

// Groups: chunks of kTokens tokens, so that groups which follow each other read the same weights; the row groups of the
// matrices one after the other, folded into y and z.
void main() {
  uint part = gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y, which = 0;
  while (which < 3 && part >= groups_of(push.rows[which])) part -= groups_of(push.rows[which++]);
  if (which == 3) return;  // what rounds up the grid
  const uint first_token = gl_WorkGroupID.x * kTokens, n = min(push.n - first_token, kTokens);
  const uint rows = push.rows[which], first_row = part * WG * kRows + gl_SubgroupInvocationID;
  uint row[kRows], x[kTokens];
  EACH(r, kRows) row[r] = uint(push.w[which]) + min(first_row + r * WG, rows - 1) * push.row_bytes;
  EACH(t, kTokens) x[t] = uint(push.x) / 16 + (first_token + min(t, n - 1)) * (push.cols / 4);
  float sum[kTokens * kRows];
  EACH(i, kTokens * kRows) sum[i] = 0.0;
  for (uint chunk = 0; chunk * kBlocks * kPart < push.cols; ++chunk) {
    uint words[kRows][MOST_WORDS];
    EACH(r, kRows) read_blocks(row[r] + chunk * kBytes, words[r]);
    EACH(b, kBlocks) {
      float weight[kRows][kPart], scale[kRows];
      EACH(r, kRows) decode(words[r], b, weight[r], scale[r]);
      EACH(t, kTokens) {
        float kept[kPart], part_sum[kRows];
        keep(x[t] + (chunk * kBlocks + b) * kTexels, kept);
        EACH(r, kRows) part_sum[r] = 0.0;
        EACH(i, kPart) {
          const float value = passed(kept, i);
          EACH(r, kRows) part_sum[r] = fma(weight[r][i], value, part_sum[r]);
        }
        EACH(r, kRows) sum[t * kRows + r] = fma(part_sum[r], scale[r], sum[t * kRows + r]);
      }
    }
  }
  EACH(t, kTokens) EACH(r, kRows) {
    const uint at = first_row + r * WG;
    if (t >= n || at >= rows) continue;
    Floats y = floats(push.y[which], first_token + t, rows);
    if (push.add != 0) sum[t * kRows + r] += y.v[at];
    y.v[at] = sum[t * kRows + r];
  }
}
