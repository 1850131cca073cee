#version 460
#extension GL_GOOGLE_include_directive : require
// matmul.comp for software devices: one token, or kTokens where texel_panel.comp does not fit. Weights are read once for all
// the tokens of a work-group; those that are not there repeat the last and are not stored. Built for some formats.
#include "texel.glsl"

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
  const uint zero = passing_zero();
  float sum[kTokens * kRows];
  EACH(t, kTokens) EACH(r, kRows) {
    sum[t * kRows + r] = 0.0;
    if (push.add == 0) continue;
    sum[t * kRows + r] = floats(push.y[which], first_token + min(t, n - 1), rows).v[min(first_row + r * WG, rows - 1)];
  }
  for (uint chunk = 0; chunk * kBlocks * kPart < push.cols; ++chunk) {
    uint words[kRows][MOST_WORDS];
    EACH(r, kRows) read_blocks(row[r] + chunk * kBytes, words[r]);
    EACH(b, kBlocks) EACH(t, kTokens) {
      float kept[kPart], part_sum[kRows];
      keep(x[t] + (chunk * kBlocks + b) * kTexels, kAllBits, kept);
      EACH(r, kRows) part_sum[r] = 0.0;
      EACH(i, kPart) {
        const float value = passed(kept, i, zero);
        const uint at = place_of(b, i);
        // Decoded where it is needed, which compilers do once for all tokens: what is decoded ahead goes by the stack.
        EACH(r, kRows) part_sum[r] = fma(weight_at(words[r][at / 4], at, i), value, part_sum[r]);
      }
      const uint at = place_of_scale(b);
      EACH(r, kRows) sum[t * kRows + r] = fma(part_sum[r], scale_at(words[r][at / 4], at), sum[t * kRows + r]);
    }
  }
  EACH(t, kTokens) EACH(r, kRows) {
    const uint at = first_row + r * WG;
    if (t >= n || at >= rows) continue;
    floats(push.y[which], first_token + t, rows).v[at] = sum[t * kRows + r];
  }
}
