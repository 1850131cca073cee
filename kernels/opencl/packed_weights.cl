// How weights in row groups (kernels/formats/row_groups.hpp) unfold into floats, VECTOR neighbouring rows at a time.
// Stands in front of the matmul kernels, behind kernels/formats/block_layout.h. One weight is always the same float
// by the same operations, whichever kernel reads it:
//   weight = factor * column, factor one of a row and scale, column exact    (all but the formats with minima)
//   weight = column = fma(factor, quant, -minimum)                           (Q4_K, Q5_K, affine)
#ifndef FORMAT
#define FORMAT FLYBALL_FORMAT_F16
#endif
#ifndef VECTOR
#define VECTOR 1  // rows a register holds: 16 for AVX-512, 8 for AVX2, 1 for GPUs
#endif
#ifndef GROUP_ROWS
#define GROUP_ROWS 32  // kGroupRows of backends/opencl/matmul_plan.hpp
#endif

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#if VECTOR == 1
#define FloatV float
#define IntV int
#define UintV uint
#define UshortV ushort
#define LOADV(p) (*(p))
#define LOAD_HALFV(p) vload_half(0, p)
#define STOREV(v, p) (*(p) = (v))
#define LANE(v, i) (v)
#else
#define FloatV CAT(float, VECTOR)
#define IntV CAT(int, VECTOR)
#define UintV CAT(uint, VECTOR)
#define UshortV CAT(ushort, VECTOR)
#define LOADV(p) CAT(vload, VECTOR)(0, p)
#define LOAD_HALFV(p) CAT(vload_half, VECTOR)(0, p)
#define STOREV(v, p) CAT(vstore, VECTOR)(v, 0, p)
#define LANE(v, i) ((const float*)&(v))[i]
#endif
#define TO_FLOATV(v) CAT(convert_, FloatV)(v)
#define TO_UINTV(v) CAT(convert_, UintV)(v)
#define AS_INTV(v) CAT(as_, IntV)(v)
#define AS_FLOATV(v) CAT(as_, FloatV)(v)

// VALUES: columns of a block; BITS: of an affine format; HALVES: factors a row has in a step of 32 columns; FOLDED: column holds the factor;
// ELEMENT_BYTES: floats, which have no blocks and no factor.
#if FORMAT == FLYBALL_FORMAT_F32
#define ELEMENT_BYTES 4
#elif FORMAT == FLYBALL_FORMAT_F16 || FORMAT == FLYBALL_FORMAT_BF16
#define ELEMENT_BYTES 2
#elif FORMAT == FLYBALL_FORMAT_Q4_0
#define VALUES FLYBALL_Q4_0_VALUES
#define HEAD_BYTES FLYBALL_Q4_0_HEAD_BYTES
#define STEP_BYTES FLYBALL_Q4_0_STEP_BYTES
#define OFFSET 8
#elif FORMAT == FLYBALL_FORMAT_Q8_0
#define VALUES FLYBALL_Q8_0_VALUES
#define HEAD_BYTES FLYBALL_Q8_0_HEAD_BYTES
#define STEP_BYTES FLYBALL_Q8_0_STEP_BYTES
#define OFFSET 128
#elif FORMAT == FLYBALL_FORMAT_Q4_K
#define VALUES FLYBALL_Q4_K_VALUES
#define HEAD_BYTES FLYBALL_Q4_K_HEAD_BYTES
#define STEP_BYTES FLYBALL_Q4_K_STEP_BYTES
#define FOLDED 1
#define NIBBLES_AT (2 * GROUP_ROWS)
#elif FORMAT == FLYBALL_FORMAT_Q5_K
#define VALUES FLYBALL_Q5_K_VALUES
#define HEAD_BYTES FLYBALL_Q5_K_HEAD_BYTES
#define STEP_BYTES FLYBALL_Q5_K_STEP_BYTES
#define FOLDED 1
#define NIBBLES_AT (6 * GROUP_ROWS)
#elif FORMAT == FLYBALL_FORMAT_Q6_K
#define VALUES FLYBALL_Q6_K_VALUES
#define HEAD_BYTES FLYBALL_Q6_K_HEAD_BYTES
#define STEP_BYTES FLYBALL_Q6_K_STEP_BYTES
#define OFFSET 32
#define HALVES 2
#define UPPER_AT (2 * GROUP_ROWS)
#define NIBBLES_AT (10 * GROUP_ROWS)
#elif FORMAT >= FLYBALL_FORMAT_AFFINE
#define BITS FLYBALL_AFFINE_BITS(FORMAT)
#define VALUES FLYBALL_AFFINE_GROUP(FORMAT)
#define HEAD_BYTES FLYBALL_AFFINE_HEAD_BYTES
#define STEP_BYTES FLYBALL_AFFINE_STEP_BYTES(FORMAT)
#define FOLDED 1
#if BITS == 6
#define UPPER_AT 0
#define NIBBLES_AT (8 * GROUP_ROWS)
#endif
#endif
#ifndef BITS
#define BITS 0  // no affine format
#endif
#ifndef HALVES
#define HALVES 1
#endif
#ifndef FOLDED
#define FOLDED 0
#endif
#ifndef NIBBLES_AT
#define NIBBLES_AT 0
#endif
#define STEP FLYBALL_STEP_COLUMNS
#define HALF_COLUMNS (STEP / HALVES)

typedef __global const uchar* Weights;

// Bytes of a group of GROUP_ROWS rows of `cols` columns.
ulong group_bytes(uint cols) {
#ifdef ELEMENT_BYTES
  return (ulong)cols * (GROUP_ROWS * ELEMENT_BYTES);
#else
  return (ulong)(cols / VALUES) * (GROUP_ROWS * (HEAD_BYTES + VALUES / STEP * STEP_BYTES));
#endif
}

#ifdef ELEMENT_BYTES

// Column c of rows [r, r + VECTOR) of the group.
FloatV column_at(Weights group, uint c, uint r) {
  Weights p = group + (c * GROUP_ROWS + r) * (ulong)ELEMENT_BYTES;
#if FORMAT == FLYBALL_FORMAT_F32
  return LOADV((__global const float*)p);
#elif FORMAT == FLYBALL_FORMAT_F16
  return LOAD_HALFV((__global const half*)p);
#else
  return AS_FLOATV(TO_UINTV(LOADV((__global const ushort*)p)) << 16);
#endif
}

#else

// The block that step s (32 columns) of the group lies in, and the step itself.
Weights block_of(Weights group, uint s) {
  return group + (s / (VALUES / STEP)) * (ulong)(GROUP_ROWS * (HEAD_BYTES + VALUES / STEP * STEP_BYTES));
}
Weights step_of(Weights block, uint s) {
  return block + GROUP_ROWS * (HEAD_BYTES + s % (VALUES / STEP) * STEP_BYTES);
}

// What the columns of half h of a step are multiplied with.
FloatV factor_of(Weights block, Weights step, uint h, uint r) {
#if BITS
  return LOADV((__global const float*)block + r);
#else
  const FloatV d = LOAD_HALFV((__global const half*)block + r);
#if FORMAT == FLYBALL_FORMAT_Q4_0 || FORMAT == FLYBALL_FORMAT_Q8_0
  return d;
#elif FORMAT == FLYBALL_FORMAT_Q6_K
  return d * TO_FLOATV(LOADV((__global const char*)step + h * GROUP_ROWS + r));
#else
  return d * TO_FLOATV(LOADV(step + r));
#endif
#endif
}

#if FOLDED
FloatV minimum_of(Weights block, Weights step, uint r) {
#if BITS
  return LOADV((__global const float*)block + GROUP_ROWS + r);
#else
  return LOAD_HALFV((__global const half*)block + GROUP_ROWS + r) * TO_FLOATV(LOADV(step + GROUP_ROWS + r));
#endif
}
#endif

// Columns 4j..4j+3 of the step as the bytes of a uint a row, each the quant plus OFFSET.
UintV quad_of(Weights step, uint j, uint r) {
  __global const uint* quads = (__global const uint*)(step + NIBBLES_AT) + r;
#if FORMAT == FLYBALL_FORMAT_Q8_0 || BITS == 8
  return LOADV(quads + j * GROUP_ROWS) ^ 0x80808080u;
#elif BITS == 2 || BITS == 3
  UintV q = (LOADV(quads + j / 4 * GROUP_ROWS) >> (j % 4 * 2)) & 0x03030303u;
#if BITS == 3
  q |= ((LOADV(quads + 2 * GROUP_ROWS) >> j) & 0x01010101u) << 2;
#endif
  return q;
#else
  UintV q = (LOADV(quads + j / 2 * GROUP_ROWS) >> (j % 2 * 4)) & 0x0F0F0F0Fu;
#if FORMAT == FLYBALL_FORMAT_Q5_K
  __global const uint* fifth = (__global const uint*)(step + 2 * GROUP_ROWS) + r;
  q |= ((LOADV(fifth) >> j) & 0x01010101u) << 4;
#elif FORMAT == FLYBALL_FORMAT_Q6_K || BITS == 6
  __global const uint* upper = (__global const uint*)(step + UPPER_AT) + r;
  q |= ((LOADV(upper + j / 4 * GROUP_ROWS) >> (j % 4 * 2)) & 0x03030303u) << 4;
#endif
  return q;
#endif
}

// Byte k of a quad as its exact quant. Put into the low bits of 2^23, a byte is a float without a conversion, and
// the subtraction that takes 2^23 away takes the offset with it.
FloatV quant_of(UintV quad, uint k) {
  const UintV byte = k == 3 ? quad >> 24 : (quad >> (8 * k)) & 0xFFu;
#if FOLDED
  return TO_FLOATV(AS_INTV(byte));
#else
  return AS_FLOATV(byte | 0x4B000000u) - (float)(8388608 + OFFSET);
#endif
}

#endif
