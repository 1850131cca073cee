#version 460
#extension GL_GOOGLE_include_directive : require
// matmul.comp for software devices: one token, or kTokens where texel_panel.comp does not fit. Weights are read once for all
// the tokens of a work-group; those that are not there repeat the last and are not stored. Built for some formats.
#include "texel.glsl"

// Parts of a turn: those of a tree, or of several. Rows are a multiple of what is read at a time, and not of every tree.
const uint kSpan = kBlocks > WG / 2 ? kBlocks : WG / 2;
const bool kWhole = kBlocks >= WG / 2;

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
  const uint parts = push.cols / kPart;
  for (uint first = 0; first < parts; first += kSpan) {
    uint words[kRows][MOST_WORDS];
    precise float half_sum[kTokens * kRows][WG];
    EACH(p, kSpan) {
      const uint b = p % kBlocks, part = b + (kWhole ? first + p - b : min(first + p - b, parts - kBlocks));
      const uint there = kWhole || first + p < parts ? kAllBits : 0u;  // beyond the last part x is 0
      if (b == 0) EACH(r, kRows) read_blocks(row[r] + part * BLOCK_BYTES, words[r]);
      EACH(t, kTokens) {
        float kept[kPart];
        keep(x[t] + part * kTexels, there, kept);
        EACH(i, kPart) {
          const float value = passed(kept, i, zero);
          const uint at = place_of(b, i), scale = place_of_scale(b), h = (2 * p + i / kHalf) % WG;
          // Decoded where it is needed, which compilers do once for all tokens: what is decoded ahead goes by the stack.
          EACH(r, kRows) {
            const float weight = weight_at(words[r][at / 4], at, i);
            const uint s = t * kRows + r;
            half_sum[s][h] = i % kHalf == 0 ? weight * value : fma(weight, value, half_sum[s][h]);
            if (i % kHalf == kHalf - 1) half_sum[s][h] *= scale_at(words[r][scale / 4], scale);
          }
        }
      }
      if (p % (WG / 2) == WG / 2 - 1) EACH(s, kTokens * kRows) {
        EACH(k, kLog) {
          const uint bit = WG >> (k + 1);
          EACH(h, bit) half_sum[s][h] += half_sum[s][h + bit];
        }
        sum[s] += half_sum[s][0];
      }
    }
  }
  EACH(t, kTokens) EACH(r, kRows) {
    const uint at = first_row + r * WG;
    if (t >= n || at >= rows) continue;
    floats(push.y[which], first_token + t, rows).v[at] = sum[t * kRows + r];
  }
}
