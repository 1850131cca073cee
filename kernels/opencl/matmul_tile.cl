// y[t, r] = sum_c x[t, c] * w[r, c] for many tokens on GPUs: a work-group unpacks 32 columns of TILE_ROWS rows and of
// TILE_TOKENS tokens into local memory, and each work-item multiplies ITEM_ROWS rows by ITEM_TOKENS tokens of them in
// registers. Stands behind format_table.h and weights.cl with VECTOR 1. A token's result does not depend on
// the other tokens; it differs from matvec.cl's by rounding.
#ifndef TILE_ROWS
#define TILE_ROWS 64  // a multiple of GROUP_ROWS
#endif
#ifndef TILE_TOKENS
#define TILE_TOKENS 64
#endif
#ifndef ITEM_ROWS
#define ITEM_ROWS 4
#endif
#ifndef ITEM_TOKENS
#define ITEM_TOKENS 4
#endif
#ifndef ADD
#define ADD 0
#endif
#define ROW_ITEMS (TILE_ROWS / ITEM_ROWS)
#define TOKEN_ITEMS (TILE_TOKENS / ITEM_TOKENS)
#define ITEMS (ROW_ITEMS * TOKEN_ITEMS)
#define X_STRIDE (STEP + 4)  // of a token's columns: whole quads, and not a multiple of the banks

// A work-item's rows lie side by side, as its columns of x do: it reads both as quads, and its neighbours read the next
// quads. Reading them word by word takes twice as long as the products.
#if ITEM_ROWS % 4 == 0
#define ROWS_AT_ONCE 4
#else
#define ROWS_AT_ONCE 1
#endif
#define EACH_ROW _Pragma("unroll") for (uint i = 0; i < ITEM_ROWS; ++i)
#define EACH_TOKEN _Pragma("unroll") for (uint t = 0; t < ITEM_TOKENS; ++t)
typedef union {
  float4 quad;
  float of[4];
} Quad;

// w_tile[c][r] for columns [32 s, 32 s + 32) of rows [row, row + TILE_ROWS); zeros beyond the groups and columns.
void load_weights(Weights w, uint rows, uint cols, uint row, uint s, __local float* w_tile) {
  for (uint i = get_local_id(0); i < TILE_ROWS * (STEP / 4); i += ITEMS) {
    const uint r = i % TILE_ROWS, j = i / TILE_ROWS;
    const bool inside = row + r < rows;
    Weights group = w + (inside ? (row + r) / GROUP_ROWS : 0) * group_bytes(cols);
    const uint in_group = (row + r) % GROUP_ROWS;
#ifdef ELEMENT_BYTES
    for (uint k = 0; k < 4; ++k) {
      const uint c = s * STEP + j * 4 + k;
      w_tile[(j * 4 + k) * TILE_ROWS + r] = inside && c < cols ? column_at(group, c, in_group) : 0.0f;
    }
#else
    Weights block = block_of(group, s), step = step_of(block, s);
    const float factor = factor_of(block, step, j / (HALF_COLUMNS / 4), in_group);
    const uint quad = quad_of(step, j, in_group);
    for (uint k = 0; k < 4; ++k) {
#if FOLDED
      const float value = fma(quant_of(quad, k), factor, -minimum_of(block, step, in_group));
#else
      const float value = factor * quant_of(quad, k);
#endif
      w_tile[(j * 4 + k) * TILE_ROWS + r] = inside ? value : 0.0f;
    }
#endif
  }
}

// Tokens [token, token + TILE_TOKENS) of n. Token t reads row order[t] / per_row of x and writes row order[t] of y;
// order 0: both t. Every work-item of the work-group comes here.
void tile(Weights w, uint rows, uint cols, uint row, uint token, uint n, __global const float* x, __global float* y,
          __global const uint* order, uint per_row, __local float* w_tile, __local float* x_tile) {
  const uint row_item = get_local_id(0) % ROW_ITEMS, token_item = get_local_id(0) / ROW_ITEMS;
  float sum[ITEM_TOKENS][ITEM_ROWS];
  EACH_TOKEN EACH_ROW sum[t][i] = 0.0f;
  for (uint s = 0; s * STEP < cols; ++s) {
    load_weights(w, rows, cols, row, s, w_tile);
    for (uint i = get_local_id(0); i < TILE_TOKENS * STEP; i += ITEMS) {
      const uint t = i / STEP, c = s * STEP + i % STEP, at = token + t;
      float value = 0.0f;
      if (at < n && c < cols) value = x[(size_t)(order ? order[at] / per_row : at) * cols + c];
      x_tile[t * X_STRIDE + i % STEP] = value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 2
    for (uint c = 0; c < STEP; c += 4) {
      Quad x_c[ITEM_TOKENS];
      EACH_TOKEN x_c[t].quad = *(__local const float4*)(x_tile + (token_item * ITEM_TOKENS + t) * X_STRIDE + c);
#pragma unroll
      for (uint k = 0; k < 4; ++k) {
        __local const float* w_k = w_tile + (c + k) * TILE_ROWS + row_item * ITEM_ROWS;
        float w_c[ITEM_ROWS];
#pragma unroll
        for (uint i = 0; i < ITEM_ROWS; i += ROWS_AT_ONCE) {
#if ROWS_AT_ONCE == 4
          Quad four;
          four.quad = *(__local const float4*)(w_k + i);
#pragma unroll
          for (uint j = 0; j < 4; ++j) w_c[i + j] = four.of[j];
#else
          w_c[i] = w_k[i];
#endif
        }
        EACH_TOKEN EACH_ROW sum[t][i] = fma(w_c[i], x_c[t].of[k], sum[t][i]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  EACH_TOKEN {
    const uint at = token + token_item * ITEM_TOKENS + t;
    if (at < n) {
      __global float* out = y + (size_t)(order ? order[at] : at) * rows;
      EACH_ROW {
        const uint r = row + row_item * ITEM_ROWS + i;
        if (r < rows) out[r] = sum[t][i] + (ADD ? out[r] : 0.0f);
      }
    }
  }
}

#define TILES                                                                    \
  __local float w_tile[STEP * TILE_ROWS] __attribute__((aligned(sizeof(float4)))); \
  __local float x_tile[TILE_TOKENS * X_STRIDE] __attribute__((aligned(sizeof(float4))))

// Up to three matrices over the same x (rows_i = 0: none). Work-groups: (tiles of rows of each matrix, one after the
// other; tiles of tokens).
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void matmul_tile(
    __global const float* x, uint n, uint cols, Weights w0, __global float* y0, uint rows0, Weights w1,
    __global float* y1, uint rows1, Weights w2, __global float* y2, uint rows2) {
  TILES;
  uint part = get_group_id(0);
  Weights w = w0;
  __global float* y = y0;
  uint rows = rows0;
  const uint parts0 = (rows0 + TILE_ROWS - 1) / TILE_ROWS;
  if (part >= parts0) {
    part -= parts0;
    const uint parts1 = (rows1 + TILE_ROWS - 1) / TILE_ROWS;
    const bool second = part < parts1;
    w = second ? w1 : w2;
    y = second ? y1 : y2;
    rows = second ? rows1 : rows2;
    part -= second ? 0 : parts1;
  }
  tile(w, rows, cols, part * TILE_ROWS, get_group_id(1) * TILE_TOKENS, n, x, y, 0, 1, w_tile, x_tile);
}

// y[p] = x[p / per_row] * w[expert of p], the p of expert e being order[offsets[e]..offsets[e + 1]). Experts'
// matrices lie expert_bytes apart. Work-groups: (tiles of rows, experts).
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void moe_matmul_tile(
    __global const float* x, uint per_row, uint cols, Weights w, ulong expert_bytes, __global const uint* offsets,
    __global const uint* order, __global float* y, uint rows) {
  TILES;
  const uint expert = get_group_id(1), first = offsets[expert], n = offsets[expert + 1] - first;
  for (uint token = 0; token < n; token += TILE_TOKENS)
    tile(w + expert * expert_bytes, rows, cols, get_group_id(0) * TILE_ROWS, token, n, x, y, order + first, per_row,
         w_tile, x_tile);
}
