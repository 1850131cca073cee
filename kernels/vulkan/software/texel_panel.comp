#version 460
#extension GL_GOOGLE_include_directive : require
// The product of software devices for several tokens. A work-group decodes a panel of weights into what the compiler keeps
// on its stack: 4 rows times the subgroup's invocations, and 16 columns times them, a half block for each. It multiplies token
// after token with it, adding to y in memory. So the loop that does the work is one token long and fits where processors keep
// decoded instructions. In it an invocation has columns: it fetches its own 16 values of x, nothing is passed on, and the
// middle is multiplications and additions alone. A token's sums over the invocations come out of a tree, each at the
// invocation that has its row. With 8 invocations the panel is 32 rows of 128 columns: 16 KB leave room in a first-level
// cache for x and y, and for a neighbour on the same core. Built for the formats of texel_matmul.
#define X_IN_LINE
#include "../../formats/format_table.h"
// What an invocation reads of a block, and how far behind the first half's that of the second lies.
#if defined(FORMAT_F16) || defined(FORMAT_BF16)
#define READ_BYTES 32
#define SECOND_AT 32
#elif defined(FORMAT_Q4_0)
#define READ_BYTES 18  // all of it: a half is the low bits, the other the high ones
#define SECOND_AT 0
#else
#define READ_BYTES 18  // a half and the two bytes before it, which before the first are the scale
#define SECOND_AT 16
#endif
#include "texel.glsl"
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// y, too: rows * n sums from byte push.y[0] on, a multiple of 16, and rows are a multiple of 4. Stored by a descriptor: that
// takes one loop over the lanes for 4 sums, by address it is one for each.
// Read as an image, which may change while the kernel runs; by the sampled view of the same bytes it may not.
layout(set = 2, binding = 2, rgba32ui) uniform coherent uimageBuffer y_texels;
layout(set = 2, binding = 1, scalar) coherent buffer Sums { u64vec2 sums[]; };

const uint kLine = 64, kLines = (WG / 2 * BLOCK_BYTES + kLine - 1) / kLine;

float from(float value, uint bit) { return subgroupShuffle(value, gl_SubgroupInvocationID ^ bit); }
bool has(uint bit) { return (gl_SubgroupInvocationID & bit) != 0; }

// Groups: the row groups, folded into x and y, for kTokens tokens after the other: groups that follow each other read the
// same tokens, which a second-level cache holds.
void main() {
  const uint part = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint rows = push.rows[0], lane = gl_SubgroupInvocationID, first_row = (part * WG + lane) * kRows;
  const uint first_token = gl_WorkGroupID.z * kTokens, end = min(first_token + kTokens, push.n);
  const uint parts = push.cols / kPart;
  for (uint panel = 0; panel < parts; panel += WG / 2) {
    const uint mine = panel + lane / 2;
    const uint there = mine < parts ? kAllBits : 0u;  // beyond the last part x is 0
    float weight[kRows][WG][kHalf], scale[kRows][WG];  // [r][l]: of row r of invocation l, what this one has
    // Touched by as many rows at a time as there are invocations: what follows goes row by row, and would wait for each.
    uint touched = 0;
    const uint panel_bytes = min(WG / 2, parts - panel) * BLOCK_BYTES;
    EACH(r, kRows) EACH(k, kLines) {
      const uint at = min(first_row + r, rows - 1) * push.row_bytes + panel * BLOCK_BYTES + min(k * kLine, panel_bytes - 1);
      touched |= texelFetch(weight_texels, int((uint(push.w[0]) + at) / 16)).x;
    }
    EACH(r, kRows) EACH(l, WG) {
      const uint row = min((part * WG + l) * kRows + r, rows - 1) + (touched & push.zero);
      uint words[MOST_WORDS];
      read_blocks(uint(push.w[0]) + row * push.row_bytes + min(mine, parts - 1) * BLOCK_BYTES + lane % 2 * SECOND_AT, words);
      scale[r][l] = scale_at(words[0], 0);
#if defined(FORMAT_Q8_0)
      // Who has the second half gets it from who has the first; by lanes that the compiler knows it would in the loop.
      scale[r][l] = subgroupShuffle(scale[r][l], (lane & ~1u) + passing_zero());
#elif defined(FORMAT_Q4_0)
      EACH(i, kWords) words[i] = lane % 2 != 0 ? words[i] >> 4 : words[i];
#endif
      EACH(i, kHalf) weight[r][l][i] = weight_at(words[place_of(0, i) / 4], place_of(0, i), i);
    }
    const bool adds = panel != 0 || push.add != 0;
    uint x = uint(push.x) / 16 + first_token * (push.cols / 4) + min(mine, parts - 1) * kTexels + lane % 2 * (kHalf / 4);
    uint y = uint(push.y[0]) / 16 + (first_token * rows + first_row) / 4;
    for (uint t = first_token; t < end; ++t) {
      float own[kHalf], sum[kRows];
      EACH(j, kHalf / 4) {
        const uvec4 four = FETCH_X(x_texels, int(x + j));
        EACH(c, 4) own[j * 4 + c] = uintBitsToFloat(four[c] & there);
      }
      EACH(q, kRows / 4) {
        const uvec4 four = imageLoad(y_texels, int(y + q));
        EACH(c, 4) sum[q * 4 + c] = adds ? uintBitsToFloat(four[c]) : 0.0;
      }
      EACH(r, kRows) {
        precise float over[WG];  // in the order of texel_matmul, bit for bit
        EACH(l, WG) over[l] = weight[r][l][0] * own[0];
        EACH(i, kHalf - 1) EACH(l, WG) over[l] = fma(weight[r][l][i + 1], own[i + 1], over[l]);
        EACH(l, WG) over[l] *= scale[r][l];
        EACH(k, kLog) {
          const uint bit = WG >> (k + 1);
          EACH(l, bit) {
            const float low = over[l], high = over[l + bit];
            over[l] = mix(low, from(high, bit), has(bit)) + mix(from(low, bit), high, has(bit));
          }
        }
        sum[r] += over[0];
      }
      if (first_row < rows)
        EACH(q, kRows / 4)
          sums[y + q] = u64vec2(packed(sum[q * 4], sum[q * 4 + 1]), packed(sum[q * 4 + 2], sum[q * 4 + 3]));
      x += push.cols / 4;
      y += rows / 4;
    }
  }
}
