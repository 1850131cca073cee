// product.glsl for every format, x being f32. The invocations of a subgroup, where each has rows of its own, pass each other
// the values of x (processors, where a load costs as much as twenty products). A sum goes by parts of 32 columns, and its
// order depends on kSlices alone.
#include "weights.glsl"
#include "cut.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 5) const uint kSubgroup = 0;  // invocations that pass x on: the subgroup's size; 0: each reads it
layout(constant_id = 6) const uint kTail = 0;      // columns are no multiple of 32: formats without blocks only

const uint kPassing = kSubgroup == 0 ? 1 : kSubgroup;
const uint kWidth = kTail != 0 ? 1 : 2;  // values of x that an invocation loads at once
const uint kLoads = (kPart / kWidth + kPassing - 1) / kPassing;

uint64_t x_bytes(uint cols) { return 4ul * cols; }

// Of a part's values of x what this invocation keeps.
void keep(Address x, uint first, uint cols, out float kept[kPart]) {
  if (kSubgroup == 0) {
    EACH(i, kPart) kept[i] = kTail == 0 || first + i < cols ? Floats(x).v[first + i] : 0.0;
  } else {
    EACH(j, kLoads) {
      const uint i = (j * kPassing + gl_SubgroupInvocationID) % (kPart / kWidth);
      if (kTail != 0) {
        kept[j] = first + i < cols ? Floats(x).v[first + i] : 0.0;
      } else {
        const uint64_t two = Words(x + 4ul * first).v[i];
        kept[2 * j] = uintBitsToFloat(uint(two));
        kept[2 * j + 1] = uintBitsToFloat(uint(two >> 32));
      }
    }
  }
}

// Value i of the part. Every invocation of the subgroup comes here.
float passed(float kept[kPart], uint i) {
  if (kSubgroup == 0) return kept[i];
  const uint at = i / kWidth;
  return subgroupShuffle(kept[at / kPassing * kWidth + i % kWidth], at % kPassing);
}

// Rows [first_row, first_row + kGroupRows) of the matrix that begins at row `begin` of w, times tokens t < n, whose
// inputs are at x[t] and whose outputs, or what they are added to, at y[t]. All invocations of the work-group come here.
void multiply(Address w, uint64_t begin, uint row_bytes, uint rows, uint cols, uint first_row, Address x[kTokens],
              Address y[kTokens], uint n, bool add) {
  const uint slice = gl_LocalInvocationID.x % kSlices;
  first_row += gl_LocalInvocationID.x / kSlices;
  const Matrix matrix = matrix_of(w);
  Row row[kRows];
  EACH(r, kRows) row[r] = row_of(matrix, begin + min(first_row + r * kApart, rows - 1), row_bytes, cols);
  float sum[kSums];
  EACH(i, kSums) sum[i] = 0.0;
  for (uint chunk = slice; chunk * kChunk < cols; chunk += kSlices) {
    Raw raw[kRows];
    const bool whole = kTail == 0 || (chunk + 1) * kChunk <= cols;
    if (whole) EACH(r, kRows) raw[r] = raw_of(row[r], chunk);
    EACH(part, kChunk / kPart) {
      const uint first = chunk * kChunk + part * kPart;
      float weight[kRows * kPart];
      if (whole) {
        EACH(r, kRows) {
          float decoded[kPart];
          decode(raw[r], chunk, part, decoded);
          EACH(i, kPart) weight[r * kPart + i] = decoded[i];
        }
      }
#if ELEMENTS
      else {
        EACH(r, kRows) EACH(i, kPart) weight[r * kPart + i] = first + i < cols ? element(row[r], first + i) : 0.0;
      }
#endif
      EACH(t, kTokens) {
        float kept[kPart];
        keep(x[t], first, cols, kept);
        float part_sum[kRows];
        EACH(r, kRows) part_sum[r] = 0.0;
        EACH(i, kPart) {
          const float value = passed(kept, i);
          EACH(r, kRows) part_sum[r] = fma(weight[r * kPart + i], value, part_sum[r]);
        }
        EACH(r, kRows) sum[t * kRows + r] += part_sum[r];
      }
    }
  }
  store(sum, first_row, rows, y, n, add);
}
