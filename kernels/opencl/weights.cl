// Decodes the weights of one row of format_table.h. The compiler's options define FORMAT_Q4_0 and its like; for an affine
// type FORMAT_AFFINE, and BITS and GROUP as numbers. Stands behind format_table.h, in front of the kernels that read weights:
// single values as a file has them (embed), and row groups (kernels/formats/row_groups.hpp), which unfold into floats,
// VECTOR neighbouring rows at a time (matmul). In row groups one weight is always the same float by the same operations,
// whichever kernel reads it:
//   weight = factor * column, factor one of a row and scale, column exact    (all but FOLDED types)
//   weight = column = fma(factor, quant, -minimum)                           (FOLDED: those with minima)
// A type with blocks has
//   weight_at(): value c of the row that begins there, in a file
//   factor_of(): what the columns of half h of a step are multiplied with; with FOLDED minimum_of(), too
//   quad_of(): columns 4j..4j+3 of a step as the bytes of a uint a row
//   OF(what): its number in format_table.h
//   OFFSET: what a byte of quad_of(), or of bytes_in(), is above the quant; of a type with minima none
//   HALVES: factors a row has in a step of 32 columns; 1 where it says nothing
//   CODES: the sixteen quants that a nibble may stand for; the bytes of quad_of() are such nibbles
// ELEMENT_BYTES: floats, which have no blocks and no factor, but weight_at() and column_at().
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

typedef __global const uchar* Weights;

// Bytes of a file are put together one by one: it may align its tensors by less than an element.
float f16_at(Weights p) {
  ushort bits = (ushort)(p[0] | (p[1] << 8));
  return vload_half(0, (const half*)&bits);
}
float f32_at(Weights p) { return as_float((uint)p[0] | ((uint)p[1] << 8) | ((uint)p[2] << 16) | ((uint)p[3] << 24)); }
float bf16_at(Weights p) { return as_float(((uint)p[0] << 16) | ((uint)p[1] << 24)); }

// Fields of a row group, of rows [r, r + VECTOR). Field i of as many rows as a group has.
FloatV halves_of(Weights p, uint i, uint r) { return LOAD_HALFV((__global const half*)p + i * GROUP_ROWS + r); }
FloatV floats_of(Weights p, uint i, uint r) { return LOADV((__global const float*)p + i * GROUP_ROWS + r); }
FloatV bytes_of(Weights p, uint i, uint r) { return TO_FLOATV(LOADV(p + i * GROUP_ROWS + r)); }
FloatV bfloats_of(Weights p, uint i, uint r) {
  return AS_FLOATV(TO_UINTV(LOADV((__global const ushort*)p + i * GROUP_ROWS + r)) << 16);
}
FloatV signed_bytes_of(Weights p, uint i, uint r) {
  return TO_FLOATV(LOADV((__global const char*)p + i * GROUP_ROWS + r));
}
UintV quads_of(Weights p, uint i, uint r) { return LOADV((__global const uint*)p + i * GROUP_ROWS + r); }
// Quad j of a step from two a word, one for each nibble; its single bits, its bit pairs, from the first field on.
UintV nibbles_of(Weights p, uint j, uint r) { return (quads_of(p, j / 2, r) >> (j % 2 * 4)) & 0x0F0F0F0Fu; }
UintV single_bits_of(Weights p, uint j, uint r) { return (quads_of(p, 0, r) >> j) & 0x01010101u; }
UintV pairs_of(Weights p, uint j, uint r) { return (quads_of(p, j / 4, r) >> (j % 4 * 2)) & 0x03030303u; }

#if defined(FORMAT_IQ4_NL) || defined(FORMAT_IQ4_XS)
#define CODES FLYBALL_NIBBLES_IQ4
#elif defined(FORMAT_MXFP4)
#define CODES FLYBALL_NIBBLES_MXFP4
#endif
#ifdef CODES
#define OFFSET 128
__constant float kValues[16] = {CODES};
#define CALL_(macro, list) macro(list)
#define WORD_(a, b, c, d) ((uint)(a + 128) | (uint)(b + 128) << 8 | (uint)(c + 128) << 16 | (uint)(d + 128) << 24)
#define WORDS_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) \
  WORD_(a, b, c, d), WORD_(e, f, g, h), WORD_(i, j, k, l), WORD_(m, n, o, p)
// The quants of these codes, each OFFSET above. Selected from four words: a device looks nothing up in memory.
UintV bytes_in(UintV codes) {
  const uint words[4] = {CALL_(WORDS_, CODES)};
  const UintV low = (codes & 4u) != 0u ? (UintV)(words[1]) : (UintV)(words[0]),
              high = (codes & 4u) != 0u ? (UintV)(words[3]) : (UintV)(words[2]);
  return (((codes & 8u) != 0u ? high : low) >> (8u * (codes & 3u))) & 0xFFu;
}
#endif

#if defined(FORMAT_Q4_0)
#define OF(what) FLYBALL_Q4_0_##what
#define OFFSET 8
float weight_at(Weights row, uint c) {
  Weights b = row + c / 32 * 18;
  const uint i = c % 32;
  const int q = i < 16 ? b[2 + i] & 15 : b[2 + i - 16] >> 4;
  return f16_at(b) * (float)(q - 8);
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) { return halves_of(block, 0, r); }
UintV quad_of(Weights step, uint j, uint r) { return nibbles_of(step, j, r); }

#elif defined(FORMAT_Q4_1)
#define OF(what) FLYBALL_Q4_1_##what
#define FOLDED 1
float weight_at(Weights row, uint c) {
  Weights b = row + c / 32 * 20;
  const uint i = c % 32;
  const int q = i < 16 ? b[4 + i] & 15 : b[4 + i - 16] >> 4;
  return f16_at(b) * (float)q + f16_at(b + 2);
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) { return halves_of(block, 0, r); }
FloatV minimum_of(Weights block, Weights step, uint r) { return halves_of(block, 1, r); }
UintV quad_of(Weights step, uint j, uint r) { return nibbles_of(step, j, r); }

#elif defined(FORMAT_Q5_0)
#define OF(what) FLYBALL_Q5_0_##what
#define OFFSET 16
float weight_at(Weights row, uint c) {
  Weights b = row + c / 32 * 22;
  const uint i = c % 32;
  const int q = (i < 16 ? b[6 + i] & 15 : b[6 + i - 16] >> 4) | (((b[2 + i / 8] >> (i % 8)) & 1) << 4);
  return f16_at(b) * (float)(q - 16);
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) { return halves_of(block, 0, r); }
UintV quad_of(Weights step, uint j, uint r) {
  return nibbles_of(step + 4 * GROUP_ROWS, j, r) | (single_bits_of(step, j, r) << 4);
}

#elif defined(FORMAT_Q5_1)
#define OF(what) FLYBALL_Q5_1_##what
#define FOLDED 1
float weight_at(Weights row, uint c) {
  Weights b = row + c / 32 * 24;
  const uint i = c % 32;
  const int q = (i < 16 ? b[8 + i] & 15 : b[8 + i - 16] >> 4) | (((b[4 + i / 8] >> (i % 8)) & 1) << 4);
  return f16_at(b) * (float)q + f16_at(b + 2);
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) { return halves_of(block, 0, r); }
FloatV minimum_of(Weights block, Weights step, uint r) { return halves_of(block, 1, r); }
UintV quad_of(Weights step, uint j, uint r) {
  return nibbles_of(step + 4 * GROUP_ROWS, j, r) | (single_bits_of(step, j, r) << 4);
}

#elif defined(FORMAT_Q8_0)
#define OF(what) FLYBALL_Q8_0_##what
#define OFFSET 128
float weight_at(Weights row, uint c) {
  Weights b = row + c / 32 * 34;
  return f16_at(b) * (float)(char)b[2 + c % 32];
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) { return halves_of(block, 0, r); }
UintV quad_of(Weights step, uint j, uint r) { return quads_of(step, j, r) ^ 0x80808080u; }

#elif defined(FORMAT_Q3_K)
#define OF(what) FLYBALL_Q3_K_##what
#define OFFSET 4
#define HALVES 2
float weight_at(Weights row, uint c) {
  Weights b = row + c / 256 * 110, scales = b + 96;
  const uint i = c % 256, h = i / 128, k = i % 128 / 32, j = i % 32, s = i / 16;
  const int q = ((b[32 + h * 32 + j] >> (2 * k)) & 3) | (((b[j] >> (4 * h + k)) & 1) << 2);
  const int scale = ((scales[s % 8] >> (s / 8 * 4)) & 15) | (((scales[8 + s % 4] >> (s / 4 * 2)) & 3) << 4);
  return f16_at(b + 108) * (float)(scale - 32) * (float)(q - 4);
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) {
  return halves_of(block, 0, r) * signed_bytes_of(step, h, r);
}
UintV quad_of(Weights step, uint j, uint r) {
  return pairs_of(step + 2 * GROUP_ROWS, j, r) | (single_bits_of(step + 10 * GROUP_ROWS, j, r) << 2);
}

#elif defined(FORMAT_IQ4_NL)
#define OF(what) FLYBALL_IQ4_NL_##what
float weight_at(Weights row, uint c) {
  Weights b = row + c / 32 * 18;
  const uint i = c % 32;
  return f16_at(b) * kValues[i < 16 ? b[2 + i] & 15 : b[2 + i - 16] >> 4];
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) { return halves_of(block, 0, r); }
UintV quad_of(Weights step, uint j, uint r) { return nibbles_of(step, j, r); }

#elif defined(FORMAT_IQ4_XS)
#define OF(what) FLYBALL_IQ4_XS_##what
float weight_at(Weights row, uint c) {
  Weights b = row + c / 256 * 136;
  const uint s = c % 256 / 32, i = c % 32;
  const int scale = ((b[4 + s / 2] >> (s % 2 * 4)) & 15) | (((b[2 + s / 4] >> (s % 4 * 2)) & 3) << 4);
  Weights q = b + 8 + 16 * s;
  return f16_at(b) * (float)(scale - 32) * kValues[i < 16 ? q[i] & 15 : q[i - 16] >> 4];
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) {
  return halves_of(block, 0, r) * signed_bytes_of(step, 0, r);
}
UintV quad_of(Weights step, uint j, uint r) { return nibbles_of(step + GROUP_ROWS, j, r); }

#elif defined(FORMAT_MXFP4)
#define OF(what) FLYBALL_MXFP4_##what
float weight_at(Weights row, uint c) {
  Weights b = row + c / 32 * 17;
  const uint i = c % 32, e = b[0];
  const float scale = as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);  // 2^(e - 128)
  return scale * kValues[i < 16 ? b[1 + i] & 15 : b[1 + i - 16] >> 4];
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) { return bfloats_of(block, 0, r); }
UintV quad_of(Weights step, uint j, uint r) { return nibbles_of(step, j, r); }

#elif defined(FORMAT_Q4_K) || defined(FORMAT_Q5_K)
#define FOLDED 1
float2 scale_min_at(Weights s, uint i) {
  if (i < 4) return (float2)(s[i] & 63, s[i + 4] & 63);
  return (float2)((s[i + 4] & 15) | ((s[i - 4] >> 6) << 4), (s[i + 4] >> 4) | ((s[i] >> 6) << 4));
}
// Value c of its block, whose quant is q.
float scaled(Weights b, uint c, int q) {
  const float2 sm = scale_min_at(b + 4, c / 32);
  const float scale = f16_at(b) * sm.x, low = f16_at(b + 2) * sm.y;
  return scale * (float)q - low;
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) { return halves_of(block, 0, r) * bytes_of(step, 0, r); }
FloatV minimum_of(Weights block, Weights step, uint r) { return halves_of(block, 1, r) * bytes_of(step, 1, r); }
#ifdef FORMAT_Q4_K
#define OF(what) FLYBALL_Q4_K_##what
float weight_at(Weights row, uint c) {
  Weights b = row + c / 256 * 144;
  const uint i = c % 256, s = i / 32;
  return scaled(b, i, (b[16 + s / 2 * 32 + i % 32] >> (s % 2 * 4)) & 15);
}
UintV quad_of(Weights step, uint j, uint r) { return nibbles_of(step + 2 * GROUP_ROWS, j, r); }
#else
#define OF(what) FLYBALL_Q5_K_##what
float weight_at(Weights row, uint c) {
  Weights b = row + c / 256 * 176;
  const uint i = c % 256, s = i / 32;
  return scaled(b, i, ((b[48 + s / 2 * 32 + i % 32] >> (s % 2 * 4)) & 15) | (((b[16 + i % 32] >> s) & 1) << 4));
}
UintV quad_of(Weights step, uint j, uint r) {
  return nibbles_of(step + 6 * GROUP_ROWS, j, r) | (single_bits_of(step + 2 * GROUP_ROWS, j, r) << 4);
}
#endif

#elif defined(FORMAT_Q6_K)
#define OF(what) FLYBALL_Q6_K_##what
#define OFFSET 32
#define HALVES 2
float weight_at(Weights row, uint c) {
  Weights b = row + c / 256 * 210;
  const uint i = c % 256, upper_half = i / 128, k = i % 128 / 32, j = i % 32;
  const int q = ((b[upper_half * 64 + k % 2 * 32 + j] >> (k / 2 * 4)) & 15) |
                (((b[128 + upper_half * 32 + j] >> (2 * k)) & 3) << 4);
  return f16_at(b + 208) * (float)(char)b[192 + i / 16] * (float)(q - 32);
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) {
  return halves_of(block, 0, r) * signed_bytes_of(step, h, r);
}
UintV quad_of(Weights step, uint j, uint r) {
  return nibbles_of(step + 10 * GROUP_ROWS, j, r) | (pairs_of(step + 2 * GROUP_ROWS, j, r) << 4);
}

#elif defined(FORMAT_AFFINE)
#define OF(what) AFFINE_##what
#define AFFINE_VALUES GROUP
#define AFFINE_HEAD_BYTES FLYBALL_AFFINE_HEAD_BYTES
#define AFFINE_STEP_BYTES FLYBALL_AFFINE_STEP_BYTES(BITS)
#define FOLDED 1
// Element i of scales or biases: F16 where SCALES_F32 and SCALES_BF16 are not defined.
float scale_at(Weights values, uint i) {
#if defined(SCALES_F32)
  return f32_at(values + 4 * i);
#elif defined(SCALES_BF16)
  return bf16_at(values + 2 * i);
#else
  return f16_at(values + 2 * i);
#endif
}
// Value `c` of the row whose codes, scales and biases begin there.
float affine_at(Weights codes, Weights scales, Weights biases, uint c) {
  const uint bit = c * BITS, shift = bit % 8, i = c / GROUP;
  uint q = codes[bit / 8] >> shift;
  if (shift + BITS > 8) q |= codes[bit / 8 + 1] << (8 - shift);
  return fma(scale_at(scales, i), (float)(q & ((1 << BITS) - 1)), scale_at(biases, i));
}
FloatV factor_of(Weights block, Weights step, uint h, uint r) { return floats_of(block, 0, r); }
FloatV minimum_of(Weights block, Weights step, uint r) { return floats_of(block, 1, r); }
UintV quad_of(Weights step, uint j, uint r) {
#if BITS == 8
  return quads_of(step, j, r) ^ 0x80808080u;
#elif BITS == 6
  return nibbles_of(step + 8 * GROUP_ROWS, j, r) | (pairs_of(step, j, r) << 4);
#elif BITS == 4
  return nibbles_of(step, j, r);
#elif BITS == 3
  return pairs_of(step, j, r) | (single_bits_of(step + 8 * GROUP_ROWS, j, r) << 2);
#else
  return pairs_of(step, j, r);
#endif
}

#elif defined(FORMAT_F32)
#define ELEMENT_BYTES 4
float weight_at(Weights row, uint c) { return f32_at(row + c * 4); }
// Column c of rows [r, r + VECTOR) of the group.
FloatV column_at(Weights group, uint c, uint r) { return floats_of(group, c, r); }

#elif defined(FORMAT_BF16)
#define ELEMENT_BYTES 2
float weight_at(Weights row, uint c) { return bf16_at(row + c * 2); }
FloatV column_at(Weights group, uint c, uint r) { return bfloats_of(group, c, r); }

#else  // FORMAT_F16, and where nothing is defined
#define ELEMENT_BYTES 2
float weight_at(Weights row, uint c) { return f16_at(row + c * 2); }
FloatV column_at(Weights group, uint c, uint r) { return halves_of(group, c, r); }
#endif

#ifndef FOLDED
#define FOLDED 0
#endif
#ifndef HALVES
#define HALVES 1
#endif
#define STEP FLYBALL_STEP_COLUMNS
#define HALF_COLUMNS (STEP / HALVES)

// Bytes of a group of GROUP_ROWS rows of `cols` columns.
ulong group_bytes(uint cols) {
#ifdef ELEMENT_BYTES
  return (ulong)cols * (GROUP_ROWS * ELEMENT_BYTES);
#else
  return (ulong)(cols / OF(VALUES)) * (GROUP_ROWS * (OF(HEAD_BYTES) + OF(VALUES) / STEP * OF(STEP_BYTES)));
#endif
}

#ifndef ELEMENT_BYTES

// The block that step s (32 columns) of the group lies in, and the step itself.
Weights block_of(Weights group, uint s) {
  return group + (s / (OF(VALUES) / STEP)) *
                     (ulong)(GROUP_ROWS * (OF(HEAD_BYTES) + OF(VALUES) / STEP * OF(STEP_BYTES)));
}
Weights step_of(Weights block, uint s) {
  return block + GROUP_ROWS * (OF(HEAD_BYTES) + s % (OF(VALUES) / STEP) * OF(STEP_BYTES));
}

// Byte k of a quad as its exact quant. Put into the low bits of 2^23, a byte is a float without a conversion, and
// the subtraction that takes 2^23 away takes the offset with it.
FloatV quant_of(UintV quad, uint k) {
#ifdef CODES
  const UintV byte = bytes_in((quad >> (8 * k)) & 0x0Fu);
#else
  const UintV byte = k == 3 ? quad >> 24 : (quad >> (8 * k)) & 0xFFu;
#endif
#if FOLDED
  return TO_FLOATV(AS_INTV(byte));
#else
  return AS_FLOATV(byte | 0x4B000000u) - (float)(8388608 + OFFSET);
#endif
}

#endif
