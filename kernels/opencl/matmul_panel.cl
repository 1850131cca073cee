// y[t, r] = sum_c x[t, c] * w[r, c] for many tokens on processors: one work-item unpacks a panel of weights, small
// enough for the first cache, and meets it with TOKENS tokens at a time in registers. Stands behind format_table.h
// and weights.cl. The sums are matvec.cl's with one slice, operation for operation: a token's result does
// not depend on how many tokens there are.
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef TOKENS
#define TOKENS 8  // x VECTORS sums, and as many parts, in registers: 32 in all
#endif
#ifndef PANEL_STEPS
#define PANEL_STEPS 4  // of 32 columns: 16 KiB of floats for 32 rows, half of a first cache
#endif
#ifndef CHUNK
#define CHUNK 128  // tokens a work-item computes: sums of 16 KiB, and each unpacking paid by so many tokens
#endif
#ifndef ADD
#define ADD 0
#endif
#define ITEM_ROWS (VECTOR * VECTORS)
#define EACH_TOKEN _Pragma("unroll") for (int t = 0; t < TOKENS; ++t)
#define EACH_VECTOR _Pragma("unroll") for (int v = 0; v < VECTORS; ++v)

typedef struct {
  FloatV columns[PANEL_STEPS * STEP][VECTORS];
#if !FOLDED && !defined(ELEMENT_BYTES)
  FloatV factors[PANEL_STEPS * HALVES][VECTORS];
#endif
} Panel;

// Columns [first, first + n) of rows [r, r + ITEM_ROWS) of the group. first is a multiple of 32.
void unpack(Weights group, uint r, uint first, uint n, Panel* panel) {
#ifdef ELEMENT_BYTES
  for (uint c = 0; c < n; ++c) EACH_VECTOR panel->columns[c][v] = column_at(group, first + c, r + v * VECTOR);
#else
  for (uint i = 0; i < n / STEP; ++i) {
    const uint s = first / STEP + i;
    Weights block = block_of(group, s), step = step_of(block, s);
    EACH_VECTOR {
#if FOLDED
      const FloatV factor = factor_of(block, step, 0, r + v * VECTOR);
      const FloatV minimum = -minimum_of(block, step, r + v * VECTOR);
#else
#pragma unroll
      for (uint h = 0; h < HALVES; ++h)
        panel->factors[i * HALVES + h][v] = factor_of(block, step, h, r + v * VECTOR);
#endif
#pragma unroll
      for (uint j = 0; j < STEP / 4; ++j) {
        const UintV quad = quad_of(step, j, r + v * VECTOR);
#pragma unroll
        for (uint k = 0; k < 4; ++k) {
          FloatV q = quant_of(quad, k);
#if FOLDED
          q = fma(q, factor, minimum);
#endif
          panel->columns[i * STEP + j * 4 + k][v] = q;
        }
      }
    }
  }
#endif
}

// sums[t] += panel x token t, for TOKENS tokens whose columns of the panel are at x[t].
void multiply(const Panel* panel, uint n, __global const float* const* x, FloatV (*sums)[VECTORS]) {
  FloatV sum[TOKENS][VECTORS];
  EACH_TOKEN EACH_VECTOR sum[t][v] = sums[t][v];
  for (uint first = 0; first < n; first += HALF_COLUMNS) {
    FloatV part[TOKENS][VECTORS];
    EACH_TOKEN EACH_VECTOR part[t][v] = 0.0f;
#ifdef ELEMENT_BYTES
    const uint end = min(first + HALF_COLUMNS, n);
#else
    const uint end = first + HALF_COLUMNS;
#endif
    for (uint c = first; c < end; ++c) {
      EACH_TOKEN {
        const FloatV x_c = x[t][c];
        EACH_VECTOR part[t][v] = fma(panel->columns[c][v], x_c, part[t][v]);
      }
    }
#if FOLDED || defined(ELEMENT_BYTES)
    EACH_TOKEN EACH_VECTOR sum[t][v] += part[t][v];
#else
    EACH_TOKEN EACH_VECTOR sum[t][v] = fma(panel->factors[first / HALF_COLUMNS][v], part[t][v], sum[t][v]);
#endif
  }
  EACH_TOKEN EACH_VECTOR sums[t][v] = sum[t][v];
}

// Rows [row, row + ITEM_ROWS) for n <= CHUNK tokens. Token t reads row order[t] / per_row of x and writes row
// order[t] of y; order 0: both t.
void panel_rows(Weights w, uint rows, uint cols, uint row, uint n, __global const float* x, __global float* y,
                __global const uint* order, uint per_row) {
  Weights group = w + row / GROUP_ROWS * group_bytes(cols);
  FloatV sums[CHUNK][VECTORS];
  Panel panel;
  for (uint t = 0; t < (n + TOKENS - 1) / TOKENS * TOKENS; ++t) EACH_VECTOR sums[t][v] = 0.0f;
  for (uint first = 0; first < cols; first += PANEL_STEPS * STEP) {
    const uint columns = min((uint)(PANEL_STEPS * STEP), cols - first);
    unpack(group, row % GROUP_ROWS, first, columns, &panel);
    for (uint tile = 0; tile < n; tile += TOKENS) {
      __global const float* at[TOKENS];
      EACH_TOKEN {  // beyond the last, the last again: not stored
        const uint token = min(tile + t, n - 1);
        at[t] = x + (size_t)(order ? order[token] / per_row : token) * cols + first;
      }
      multiply(&panel, columns, at, sums + tile);
    }
  }
  for (uint t = 0; t < n; ++t) {
    __global float* out = y + (size_t)(order ? order[t] : t) * rows;
    EACH_VECTOR {
      const uint at = row + v * VECTOR;
      FloatV sum = sums[t][v];
      if (at + VECTOR <= rows) {
#if ADD
        sum += LOADV(out + at);
#endif
        STOREV(sum, out + at);
      } else {
#pragma unroll
        for (uint i = 0; i < VECTOR; ++i)
          if (at + i < rows) out[at + i] = LANE(sum, i) + (ADD ? out[at + i] : 0.0f);
      }
    }
  }
}

// Up to three matrices over the same x (rows_i = 0: none). Work-items: (groups of ITEM_ROWS rows of each matrix,
// one after the other; chunks of tokens).
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void matmul_panel(
    __global const float* x, uint n, uint cols, Weights w0, __global float* y0, uint rows0, Weights w1,
    __global float* y1, uint rows1, Weights w2, __global float* y2, uint rows2) {
  uint part = get_group_id(0);
  Weights w = w0;
  __global float* y = y0;
  uint rows = rows0;
  const uint parts0 = (rows0 + ITEM_ROWS - 1) / ITEM_ROWS;
  if (part >= parts0) {
    part -= parts0;
    const uint parts1 = (rows1 + ITEM_ROWS - 1) / ITEM_ROWS;
    const bool second = part < parts1;
    w = second ? w1 : w2;
    y = second ? y1 : y2;
    rows = second ? rows1 : rows2;
    part -= second ? 0 : parts1;
  }
  const uint token = get_group_id(1) * CHUNK;
  panel_rows(w, rows, cols, part * ITEM_ROWS, min(n - token, (uint)CHUNK), x + (size_t)token * cols,
             y + (size_t)token * rows, 0, 1);
}

// y[p] = x[p / per_row] * w[expert of p], the p of expert e being order[offsets[e]..offsets[e + 1]). Experts'
// matrices lie expert_bytes apart. Work-items: (groups of ITEM_ROWS rows, experts).
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void moe_matmul_panel(
    __global const float* x, uint per_row, uint cols, Weights w, ulong expert_bytes, __global const uint* offsets,
    __global const uint* order, __global float* y, uint rows) {
  const uint expert = get_group_id(1), end = offsets[expert + 1];
  for (uint p = offsets[expert]; p < end; p += CHUNK)
    panel_rows(w + expert * expert_bytes, rows, cols, get_group_id(0) * ITEM_ROWS, min(end - p, (uint)CHUNK), x, y,
               order + p, per_row);
}
