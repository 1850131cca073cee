// y[t, r] = sum_c x[t, c] * w[r, c] for few tokens: bound by reading the weights, each once for TOKENS tokens.
// Stands behind format_table.h and weights.cl. A work-item owns VECTOR * VECTORS rows; SLICES of them share the rows of a
// work-group and take every SLICES-th step of 32 columns, summed in order of slice. A sum never depends on the
// other tokens. x: [n, cols]; y: [n, rows] f32; w: row groups.
#ifndef VECTORS
#define VECTORS 1  // independent chains of fma a token, with TOKENS
#endif
#ifndef LANES
#define LANES 32  // work-items along the rows of a work-group; LANES * VECTOR * VECTORS divides GROUP_ROWS
#endif
#ifndef SLICES
#define SLICES 4
#endif
#ifndef TOKENS
#define TOKENS 1  // tokens computed; those from n on repeat the last and are not stored
#endif
#ifndef ADD
#define ADD 0  // y += instead of y =
#endif
#define ITEM_ROWS (VECTOR * VECTORS)
#define WORK_GROUP_ROWS (LANES * ITEM_ROWS)
#define EACH_TOKEN _Pragma("unroll") for (int t = 0; t < TOKENS; ++t)
#define EACH_VECTOR _Pragma("unroll") for (int v = 0; v < VECTORS; ++v)

// Where token t's inputs are, and its outputs.
typedef struct {
  __global const float* x[TOKENS];
  __global float* y[TOKENS];
  uint n;
} Rows;

// Rows [row, row + WORK_GROUP_ROWS) of one matrix; every work-item of the work-group comes here.
void matvec_rows(Weights w, uint rows, uint cols, uint row, const Rows* io, __local float* shared) {
  const uint lane = get_local_id(0) % LANES, slice = get_local_id(0) / LANES;
  row += lane * ITEM_ROWS;
  Weights group = w + row / GROUP_ROWS * group_bytes(cols);
  const uint r = row % GROUP_ROWS;
  FloatV sum[TOKENS][VECTORS], part[TOKENS][VECTORS];
  EACH_TOKEN EACH_VECTOR sum[t][v] = 0.0f;
  const uint n_steps = (cols + STEP - 1) / STEP;
  for (uint s = slice; s < n_steps; s += SLICES) {
#ifdef ELEMENT_BYTES
    EACH_TOKEN EACH_VECTOR part[t][v] = 0.0f;
    const uint first = s * STEP;
    if (first + STEP <= cols) {
#pragma unroll
      for (uint i = 0; i < STEP; ++i) EACH_VECTOR {
          const FloatV w_i = column_at(group, first + i, r + v * VECTOR);
          EACH_TOKEN part[t][v] = fma(w_i, (FloatV)(io->x[t][first + i]), part[t][v]);
        }
    } else {
      for (uint c = first; c < cols; ++c) EACH_VECTOR {
          const FloatV w_i = column_at(group, c, r + v * VECTOR);
          EACH_TOKEN part[t][v] = fma(w_i, (FloatV)(io->x[t][c]), part[t][v]);
        }
    }
    EACH_TOKEN EACH_VECTOR sum[t][v] += part[t][v];
#else
    Weights block = block_of(group, s), step = step_of(block, s);
#if FOLDED
    FloatV factor[VECTORS], minimum[VECTORS];
    EACH_VECTOR {
      factor[v] = factor_of(block, step, 0, r + v * VECTOR);
      minimum[v] = -minimum_of(block, step, r + v * VECTOR);
    }
#endif
#pragma unroll
    for (uint h = 0; h < HALVES; ++h) {
      EACH_TOKEN EACH_VECTOR part[t][v] = 0.0f;
#pragma unroll
      for (uint j = h * (HALF_COLUMNS / 4); j < (h + 1) * (HALF_COLUMNS / 4); ++j) EACH_VECTOR {
          const UintV quad = quad_of(step, j, r + v * VECTOR);
#pragma unroll
          for (uint k = 0; k < 4; ++k) {
            FloatV q = quant_of(quad, k);
#if FOLDED
            q = fma(q, factor[v], minimum[v]);
#endif
            EACH_TOKEN part[t][v] = fma(q, (FloatV)(io->x[t][s * STEP + j * 4 + k]), part[t][v]);
          }
        }
#if FOLDED
      EACH_TOKEN EACH_VECTOR sum[t][v] += part[t][v];
#else
      EACH_VECTOR {
        const FloatV factor = factor_of(block, step, h, r + v * VECTOR);
        EACH_TOKEN sum[t][v] = fma(factor, part[t][v], sum[t][v]);
      }
#endif
    }
#endif
  }
#if SLICES > 1
  // shared: [slice][token][row of the work-group]
  EACH_TOKEN EACH_VECTOR
      STOREV(sum[t][v], shared + ((slice * TOKENS + t) * LANES + lane) * ITEM_ROWS + v * VECTOR);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (slice != 0) return;
  for (uint other = 1; other < SLICES; ++other)
    EACH_TOKEN EACH_VECTOR sum[t][v] +=
        LOADV(shared + ((other * TOKENS + t) * LANES + lane) * ITEM_ROWS + v * VECTOR);
#endif
  EACH_TOKEN if (t < io->n) EACH_VECTOR {
      const uint at = row + v * VECTOR;
      __global float* y = io->y[t] + at;
      if (at + VECTOR <= rows) {
#if ADD
        sum[t][v] += LOADV(y);
#endif
        STOREV(sum[t][v], y);
      } else {
#pragma unroll
        for (uint i = 0; i < VECTOR; ++i)
          if (at + i < rows) y[i] = LANE(sum[t][v], i) + (ADD ? y[i] : 0.0f);
      }
    }
}

#if SLICES > 1
#define SHARED                                                   \
  __local float shared_floats[SLICES * TOKENS * WORK_GROUP_ROWS]; \
  __local float* shared = shared_floats
#else
#define SHARED __local float* shared = 0
#endif

// Up to three matrices over the same x (rows_i = 0: none). Work-groups: (those of each matrix, one after the other; TOKENS
// tokens each).
__kernel __attribute__((reqd_work_group_size(LANES* SLICES, 1, 1))) void matvec(
    __global const float* x, uint n, uint cols, Weights w0, __global float* y0, uint rows0, Weights w1,
    __global float* y1, uint rows1, Weights w2, __global float* y2, uint rows2) {
  SHARED;
  uint part = get_group_id(0);
  Weights w = w0;
  __global float* y = y0;
  uint rows = rows0;
  const uint parts0 = (rows0 + WORK_GROUP_ROWS - 1) / WORK_GROUP_ROWS;
  if (part >= parts0) {
    part -= parts0;
    const uint parts1 = (rows1 + WORK_GROUP_ROWS - 1) / WORK_GROUP_ROWS;
    const bool second = part < parts1;
    w = second ? w1 : w2;
    y = second ? y1 : y2;
    rows = second ? rows1 : rows2;
    part -= second ? 0 : parts1;
  }
  Rows io;
  const uint first = get_group_id(1) * TOKENS;
  io.n = n - first;
  EACH_TOKEN {
    const size_t row = min(first + t, n - 1);
    io.x[t] = x + row * cols;
    io.y[t] = y + row * rows;
  }
  matvec_rows(w, rows, cols, part * WORK_GROUP_ROWS, &io, shared);
}

// One token each with the matrix of its expert: y[p] = x[p / per_row] * w[experts[p]]. Experts' matrices lie
// expert_bytes apart. Work-groups: (rows, p).
__kernel __attribute__((reqd_work_group_size(LANES* SLICES, 1, 1))) void moe_matvec(
    __global const float* x, uint per_row, uint cols, Weights w, ulong expert_bytes, __global const uint* experts,
    __global float* y, uint rows) {
  SHARED;
  const size_t p = get_group_id(1);
  Rows io;
  io.n = 1;
  EACH_TOKEN {
    io.x[t] = x + p / per_row * cols;
    io.y[t] = y + p * rows;
  }
  matvec_rows(w + experts[p] * expert_bytes, rows, cols, get_group_id(0) * WORK_GROUP_ROWS, &io, shared);
}
