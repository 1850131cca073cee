// product.glsl for quantized weights where the device has packed 4 x 8 bit dot products: x is what prepare_activations made
// of it, sums of 16 or 32 products are exact integers, and what follows is f32, in an order that depends on kSlices
// alone.
#include "weights.glsl"
#include "cut.glsl"
#include "packed_dot.glsl"
#include "prepared.glsl"

// As float_product.glsl's.
void multiply(Address w, uint64_t begin, uint row_bytes, uint rows, uint cols, uint first_row, Address x[kTokens],
              Address y[kTokens], uint n, bool add) {
  const uint slice = gl_LocalInvocationID.x % kSlices;
  first_row += gl_LocalInvocationID.x / kSlices;
  Row row[kRows];
  EACH(r, kRows) row[r] = row_of(matrix_of(w), begin + min(first_row + r * kApart, rows - 1), row_bytes, cols);
  float sum[kSums];
  EACH(i, kSums) sum[i] = 0.0;
  for (uint chunk = slice; chunk * kChunk < cols; chunk += kSlices) {
    Raw raw[kRows];
    EACH(r, kRows) raw[r] = raw_of(row[r], chunk);
    EACH(part, kChunk / kPart) {
      uint quants[kRows * kQuads];
      Scales scales[kRows];
      EACH(r, kRows) {
        uint some[kQuads];
        quants_of(raw[r], chunk, part, some);
        EACH(i, kQuads) quants[r * kQuads + i] = some[i];
        scales[r] = scales_of(raw[r], chunk, part);
      }
      EACH(t, kTokens) {
        const Prepared values = prepared(x[t], chunk * (kChunk / kPart) + part);
        EACH(r, kRows) {
          int low = -kOffset * values.sums.x, high = -kOffset * values.sums.y;
          EACH(i, kQuads / 2) {
            low += packed_dot(quants[r * kQuads + i], values.quants[i], 0);
            high += packed_dot(quants[r * kQuads + kQuads / 2 + i], values.quants[kQuads / 2 + i], 0);
          }
#if HALVES
          float part_sum = fma(float(high), scales[r].factor.y, float(low) * scales[r].factor.x);
#else
          float part_sum = float(low + high) * scales[r].factor.x;
#endif
#if MINIMA
          part_sum = fma(float(values.sums.x + values.sums.y), scales[r].zero, part_sum);
#endif
          sum[t * kRows + r] = fma(part_sum, values.scale, sum[t * kRows + r]);
        }
      }
    }
  }
  store(sum, first_row, rows, y, n, add);
}
