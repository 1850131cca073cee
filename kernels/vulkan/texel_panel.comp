#version 460
#extension GL_GOOGLE_include_directive : require
// The product of software devices for several tokens. A work-group has 4 rows of each invocation; of them it decodes a panel
// of 128 columns into what the compiler keeps on its stack, and multiplies token after token with it, adding to y in memory.
// So the loop that does the work is one token long and fits where processors keep decoded instructions, and all that it
// fetches it fetches first. 16 KB of weights leave room in a first-level cache for x and y, and for a neighbour on the same
// core: with 8 rows of 96 columns it was 8 % faster alone and 10 % slower beside one. Built for the formats of texel_matmul.
#define X_IN_LINE
#include "texel.glsl"
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// y, too: rows * n sums from byte push.y[0] on, a multiple of 16, and rows are a multiple of 4. Stored by a descriptor: that
// takes one loop over the lanes for 4 sums, by address it is one for each.
// Read as an image, which may change while the kernel runs; by the sampled view of the same bytes it may not.
layout(set = 2, binding = 2, rgba32ui) uniform coherent uimageBuffer y_texels;
layout(set = 2, binding = 1, scalar) coherent buffer Sums { u64vec2 sums[]; };

const uint kParts = 4;   // of a panel (kPanelColumns in matmul_plan.cpp)
const uint kBeside = 2;  // parts whose sums go side by side: a chain of additions waits for itself

// Groups: the row groups, folded into x and y, for kTokens tokens after the other: groups that follow each other read the
// same tokens, which a second-level cache holds.
void main() {
  const uint part = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint rows = push.rows[0], first_row = (part * WG + gl_SubgroupInvocationID) * kRows;
  const uint first_token = gl_WorkGroupID.z * kTokens, end = min(first_token + kTokens, push.n);
  const uint parts = push.cols / kPart, zero = passing_zero();
  uint row[kRows];
  EACH(r, kRows) row[r] = uint(push.w[0]) + min(first_row + r, rows - 1) * push.row_bytes;
  for (uint panel = 0; panel < parts; panel += kParts) {
    float weight[kParts][kRows][kPart], scale[kParts][kRows];
    uint there[kParts];  // parts beyond the last are 0 times 0
    EACH(p, kParts) {
      const uint at = min(panel + p, parts - 1);
      there[p] = panel + p < parts ? kAllBits : 0u;
      EACH(r, kRows) {
        uint words[MOST_WORDS];
        read_blocks(row[r] + at * BLOCK_BYTES, words);
        EACH(i, kWords) words[i] &= there[p];
        EACH(i, kPart) weight[p][r][i] = weight_at(words[place_of(0, i) / 4], place_of(0, i), i);
        scale[p][r] = scale_at(words[0], 0);
      }
    }
    const bool adds = panel != 0 || push.add != 0;
    uint x = uint(push.x) / 16 + first_token * (push.cols / 4) + panel * kTexels;
    uint y = uint(push.y[0]) / 16 + (first_token * rows + first_row) / 4;
    for (uint t = first_token; t < end; ++t) {
      float kept[kParts][kPart], sum[kRows];
      EACH(p, kParts) keep(x + p * kTexels, there[p], kept[p]);
      EACH(q, kRows / 4) {
        const uvec4 four = imageLoad(y_texels, int(y + q));
        EACH(c, 4) sum[q * 4 + c] = adds ? uintBitsToFloat(four[c]) : 0.0;
      }
      [[unroll]] for (uint p = 0; p < kParts; p += kBeside) {
        float part_sum[kBeside][kRows];
        EACH(b, kBeside) EACH(r, kRows) part_sum[b][r] = 0.0;
        EACH(i, kPart) EACH(b, kBeside) {
          const float value = passed(kept[p + b], i, zero);
          EACH(r, kRows) part_sum[b][r] = fma(weight[p + b][r][i], value, part_sum[b][r]);
        }
        EACH(b, kBeside) EACH(r, kRows) sum[r] = fma(part_sum[b][r], scale[p + b][r], sum[r]);
      }
      if (first_row < rows)
        EACH(q, kRows / 4)
          sums[y + q] = u64vec2(packed(sum[q * 4], sum[q * 4 + 1]), packed(sum[q * 4 + 2], sum[q * 4 + 3]));
      x += push.cols / 4;
      y += rows / 4;
    }
  }
}
