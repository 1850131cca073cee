// Rows of weights as a file has them, of one row of format_table.h: FORMAT_Q4_0 and its like by the compiler's command
// line; for an affine type FORMAT_AFFINE, and BITS and GROUP as numbers. A chunk of kChunk columns is read in whole 64-bit
// words at multiples of 8 bytes, which is what every device reads fastest, and shifted into place: GGUF's blocks begin at
// any even byte, those of MXFP4 and what MLX has (floats, affine groups) at any byte. So up to 7 bytes around a chunk are
// read too, never a word that has none of it. kernels/formats says what the bytes mean.
// A type has kChunk, Raw, raw_of() and decode(). A BLOCKS type defines QUANTS and has, instead of decode(), quants_of() and
// scales_of(): the integers of a part, four to a word as the packed dot product takes them, and what they are scaled by. A
// weight is (quant - kOffset) * factor + zero. kOffset is 0 with MINIMA, without which zero is 0; HALVES: the factors of
// the two halves of a part differ; SIGNED: quants are signed.
#ifndef FLYBALL_WEIGHTS_GLSL
#define FLYBALL_WEIGHTS_GLSL
#include "common.glsl"
#include "../formats/format_table.h"

const uint kPart = FLYBALL_STEP_COLUMNS;  // columns decoded at a time
const uint kQuads = kPart / 4;

// void name(at, to): WORDS words of 32 bits from byte `at` on, of which BYTES bytes mean something. at is a multiple of
// STEP bytes: 8, 4, 2 or 1.
#define DEFINE_READ(name, BYTES, WORDS, STEP)                                                \
  void name(Address at, out uint to[WORDS]) {                                                \
    const uint kPairs = ((BYTES) + 15 - (STEP)) / 8;                                         \
    Words from = Words(at & ~7ul);                                                           \
    const bool skip_word = (at & 4ul) != 0, skip_half = (at & 2ul) != 0;                     \
    const uint skip_bits = 8 * (uint(at) & 3u), last = ((uint(at) & 7u) + (BYTES) - 1) / 8;  \
    uint have[2 * kPairs];                                                                   \
    EACH(i, kPairs) {                                                                        \
      const uint64_t pair = from.v[(STEP) <= 2 && 8 * i >= (BYTES) ? min(i, last) : i];      \
      have[2 * i] = uint(pair);                                                              \
      have[2 * i + 1] = uint(pair >> 32);                                                    \
    }                                                                                        \
    EACH(i, WORDS) {                                                                         \
      if ((STEP) == 8) {                                                                     \
        to[i] = have[i];                                                                     \
        continue;                                                                            \
      }                                                                                      \
      const uint low = skip_word ? have[i + 1] : have[i];                                    \
      if ((STEP) == 4) {                                                                     \
        to[i] = low;                                                                         \
        continue;                                                                            \
      }                                                                                      \
      const uint high = skip_word ? have[min(i + 2, 2 * kPairs - 1)] : have[i + 1];          \
      if ((STEP) == 2)                                                                       \
        to[i] = skip_half ? (low >> 16) | (high << 16) : low;                                \
      else                                                                                   \
        to[i] = (low >> skip_bits) | ((high << 1) << (31 - skip_bits));                      \
    }                                                                                        \
  }

int signed_byte(uint words, uint i) { return int(words << (24 - 8 * i)) >> 24; }
// The low four bits, each as the fifth of a byte.
uint fifth_bits(uint bits) { return (((bits & 15u) * 0x00204081u) & 0x01010101u) << 4; }

struct Scales {
  vec2 factor;  // of the first 16 columns, and of the others
  float zero;
};

#if defined(FORMAT_F32) || defined(FORMAT_F16) || defined(FORMAT_BF16)
#define ELEMENTS 1
#endif

#ifndef FORMAT_AFFINE
#define Matrix Address  // of its first row
#define Row Address
Matrix matrix_of(Address w) { return w; }
Row row_of(Matrix m, uint64_t row, uint row_bytes, uint cols) { return m + row * row_bytes; }
#endif

#if ELEMENTS || defined(FORMAT_AFFINE)
// WeightFormat::place(): 1: rows begin at multiples of 8 bytes, scales and biases at those of their size; 2: scales
// are F32, 4: BF16, else F16.
layout(constant_id = 1) const uint kPlace = 0;
const bool kInPlace = (kPlace & 1u) != 0;

// A value of 2 or 4 bytes.
uint bits_at(Address at, uint bytes) {
  if (kInPlace) return bytes == 4 ? Uints(at).v[0] : uint(Halves(at).v[0]);
  const uint shift = 8 * (uint(at) & 7u);
  const uint64_t low = Words(at & ~7ul).v[0], high = Words((at + bytes - 1) & ~7ul).v[0];
  const uint both = uint((low >> shift) | ((high << 1) << (63 - shift)));
  return bytes == 4 ? both : both & 0xffffu;
}
#endif

#if ELEMENTS
const uint kChunk = kPart;
#ifdef FORMAT_F32
const uint kElementBytes = 4, kRawWords = 32;
#else
const uint kElementBytes = 2, kRawWords = 16;
#endif
DEFINE_READ(read_in_place, 4 * kRawWords, kRawWords, 8)
DEFINE_READ(read_anywhere, 4 * kRawWords, kRawWords, 1)

struct Raw {
  uint words[kRawWords];
};

Raw raw_of(Address row, uint chunk) {
  Raw raw;
  const Address at = row + chunk * (kPart * kElementBytes);
  if (kInPlace) read_in_place(at, raw.words);
  else read_anywhere(at, raw.words);
  return raw;
}

float element(Address row, uint c) {
  const uint bits = bits_at(row + c * kElementBytes, kElementBytes);
#if defined(FORMAT_F32)
  return uintBitsToFloat(bits);
#elif defined(FORMAT_F16)
  return f16_of(bits);
#else
  return uintBitsToFloat(bits << 16);
#endif
}

void decode(Raw raw, uint chunk, uint part, out float w[kPart]) {
#if defined(FORMAT_F32)
  EACH(i, kPart) w[i] = uintBitsToFloat(raw.words[i]);
#elif defined(FORMAT_F16)
  EACH(i, kPart / 2) {
    const vec2 both = unpackHalf2x16(raw.words[i]);
    w[2 * i] = both.x;
    w[2 * i + 1] = both.y;
  }
#else
  EACH(i, kPart / 2) {
    w[2 * i] = uintBitsToFloat(raw.words[i] << 16);
    w[2 * i + 1] = uintBitsToFloat(raw.words[i] & 0xffff0000u);
  }
#endif
}

#elif defined(FORMAT_Q4_0)
#define QUANTS 1
const int kOffset = 8;
const uint kChunk = FLYBALL_Q4_0_VALUES;
DEFINE_READ(read_block, FLYBALL_Q4_0_FILE_BYTES, 5, 2)

struct Raw {
  uint words[5];
};

Raw raw_of(Address row, uint chunk) {
  Raw raw;
  read_block(row + chunk * FLYBALL_Q4_0_FILE_BYTES, raw.words);
  return raw;
}

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, 4) {
    const uint both = (raw.words[i] >> 16) | (raw.words[i + 1] << 16);
    q[i] = both & 0x0f0f0f0fu;
    q[i + 4] = (both >> 4) & 0x0f0f0f0fu;
  }
}

Scales scales_of(Raw raw, uint chunk, uint part) { return Scales(vec2(f16_of(raw.words[0] & 0xffffu)), 0.0); }

#elif defined(FORMAT_Q4_1)
#define QUANTS 1
#define MINIMA 1
const int kOffset = 0;
const uint kChunk = FLYBALL_Q4_1_VALUES;
DEFINE_READ(read_block, FLYBALL_Q4_1_FILE_BYTES, 5, 4)

struct Raw {
  uint words[5];
};

Raw raw_of(Address row, uint chunk) {
  Raw raw;
  read_block(row + chunk * FLYBALL_Q4_1_FILE_BYTES, raw.words);
  return raw;
}

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, 4) {
    q[i] = raw.words[1 + i] & 0x0f0f0f0fu;
    q[i + 4] = (raw.words[1 + i] >> 4) & 0x0f0f0f0fu;
  }
}

Scales scales_of(Raw raw, uint chunk, uint part) {
  const vec2 both = unpackHalf2x16(raw.words[0]);
  return Scales(vec2(both.x), both.y);
}

#elif defined(FORMAT_Q5_0)
#define QUANTS 1
const int kOffset = 16;
const uint kChunk = FLYBALL_Q5_0_VALUES;
DEFINE_READ(read_block, FLYBALL_Q5_0_FILE_BYTES, 6, 2)

struct Raw {
  uint words[6];
};

Raw raw_of(Address row, uint chunk) {
  Raw raw;
  read_block(row + chunk * FLYBALL_Q5_0_FILE_BYTES, raw.words);
  return raw;
}

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  const uint fifth = (raw.words[0] >> 16) | (raw.words[1] << 16);
  EACH(i, 4) {
    const uint both = (raw.words[1 + i] >> 16) | (raw.words[2 + i] << 16);
    q[i] = (both & 0x0f0f0f0fu) | fifth_bits(fifth >> (4 * i));
    q[i + 4] = ((both >> 4) & 0x0f0f0f0fu) | fifth_bits(fifth >> (16 + 4 * i));
  }
}

Scales scales_of(Raw raw, uint chunk, uint part) { return Scales(vec2(f16_of(raw.words[0] & 0xffffu)), 0.0); }

#elif defined(FORMAT_Q5_1)
#define QUANTS 1
#define MINIMA 1
const int kOffset = 0;
const uint kChunk = FLYBALL_Q5_1_VALUES;
DEFINE_READ(read_block, FLYBALL_Q5_1_FILE_BYTES, 6, 8)

struct Raw {
  uint words[6];
};

Raw raw_of(Address row, uint chunk) {
  Raw raw;
  read_block(row + chunk * FLYBALL_Q5_1_FILE_BYTES, raw.words);
  return raw;
}

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, 4) {
    q[i] = (raw.words[2 + i] & 0x0f0f0f0fu) | fifth_bits(raw.words[1] >> (4 * i));
    q[i + 4] = ((raw.words[2 + i] >> 4) & 0x0f0f0f0fu) | fifth_bits(raw.words[1] >> (16 + 4 * i));
  }
}

Scales scales_of(Raw raw, uint chunk, uint part) {
  const vec2 both = unpackHalf2x16(raw.words[0]);
  return Scales(vec2(both.x), both.y);
}

#elif defined(FORMAT_Q8_0)
#define QUANTS 1
#define SIGNED 1
const int kOffset = 0;
const uint kChunk = FLYBALL_Q8_0_VALUES;
DEFINE_READ(read_block, FLYBALL_Q8_0_FILE_BYTES, 9, 2)

struct Raw {
  uint words[9];
};

Raw raw_of(Address row, uint chunk) {
  Raw raw;
  read_block(row + chunk * FLYBALL_Q8_0_FILE_BYTES, raw.words);
  return raw;
}

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, kQuads) q[i] = (raw.words[i] >> 16) | (raw.words[i + 1] << 16);
}

Scales scales_of(Raw raw, uint chunk, uint part) { return Scales(vec2(f16_of(raw.words[0] & 0xffffu)), 0.0); }

#elif defined(FORMAT_Q3_K)
#define QUANTS 1
#define HALVES 1
const int kOffset = 4;
const uint kChunk = 128;  // half a block
DEFINE_READ(read_thirds, 32, 8, 2)
DEFINE_READ(read_lower, 32, 8, 2)
DEFINE_READ(read_tail, 14, 4, 2)  // scales and d

struct Raw {
  uint thirds[8], lower[8], tail[4];
};

Raw raw_of(Address row, uint chunk) {
  const Address block = row + chunk / 2 * FLYBALL_Q3_K_FILE_BYTES;
  Raw raw;
  read_thirds(block, raw.thirds);
  read_lower(block + 32 + chunk % 2 * 32, raw.lower);
  read_tail(block + 96, raw.tail);
  return raw;
}

float factor_of(Raw raw, uint s) {  // of 16 values
  const uint low = raw.tail[s / 4 % 2] >> (8 * (s % 4) + s / 8 * 4), high = raw.tail[2] >> (8 * (s % 4) + s / 4 * 2);
  return f16_of(raw.tail[3] & 0xffffu) * float(int((low & 15u) | (high & 3u) << 4) - 32);
}

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, kQuads)
    q[i] = ((raw.lower[i] >> (2 * part)) & 0x03030303u) |
           (((raw.thirds[i] >> (chunk % 2 * 4 + part)) & 0x01010101u) << 2);
}

Scales scales_of(Raw raw, uint chunk, uint part) {
  const uint s = chunk % 2 * 8 + part * 2;
  return Scales(vec2(factor_of(raw, s), factor_of(raw, s + 1)), 0.0);
}

#elif defined(FORMAT_Q4_K) || defined(FORMAT_Q5_K)
#define QUANTS 1
#define MINIMA 1
const int kOffset = 0;
// A chunk is two sub-blocks that share 32 bytes. Blocks begin at multiples of 16 bytes of the row; matrices at multiples
// of 8.
const uint kChunk = 64;
DEFINE_READ(read_head, 16, 4, 8)
DEFINE_READ(read_quants, 32, 8, 8)

struct Raw {
  uint head[4];  // d and dmin, then the scales and minima
  uint quants[8];
#ifdef FORMAT_Q5_K
  uint fifth[8];
#endif
};

Raw raw_of(Address row, uint chunk) {
  Raw raw;
#ifdef FORMAT_Q5_K
  const Address block = row + chunk / 4 * FLYBALL_Q5_K_FILE_BYTES, quants = block + 48;
  read_quants(block + 16, raw.fifth);
#else
  const Address block = row + chunk / 4 * FLYBALL_Q4_K_FILE_BYTES, quants = block + 16;
#endif
  read_head(block, raw.head);
  read_quants(quants + chunk % 4 * 32, raw.quants);
  return raw;
}

uint sub_block(uint chunk, uint part) { return chunk % 4 * 2 + part; }

// What a quant is multiplied by, and what is added then.
vec2 factor_and_zero(Raw raw, uint s) {
  const uint shift = 8 * (s % 4);
  const uint a = raw.head[1] >> shift, b = raw.head[2] >> shift, c = raw.head[3] >> shift;
  const uint scale = s < 4 ? a & 63u : (c & 15u) | ((a >> 2) & 0x30u);
  const uint minimum = s < 4 ? b & 63u : ((c >> 4) & 15u) | ((b >> 2) & 0x30u);
  const vec2 d = unpackHalf2x16(raw.head[0]);
  return vec2(d.x * float(scale), -d.y * float(minimum));
}

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, kQuads) {
    q[i] = (raw.quants[i] >> (4 * part)) & 0x0f0f0f0fu;
#ifdef FORMAT_Q5_K
    q[i] |= ((raw.fifth[i] >> sub_block(chunk, part)) & 0x01010101u) << 4;
#endif
  }
}

Scales scales_of(Raw raw, uint chunk, uint part) {
  const vec2 scale = factor_and_zero(raw, sub_block(chunk, part));
  return Scales(vec2(scale.x), scale.y);
}

#elif defined(FORMAT_Q6_K)
#define QUANTS 1
#define HALVES 1
const int kOffset = 32;
const uint kChunk = 128;  // half a block
DEFINE_READ(read_low, 64, 16, 2)
DEFINE_READ(read_high, 32, 8, 2)
DEFINE_READ(read_scales, 8, 2, 2)

struct Raw {
  uint low[16], high[8], scales[2];
  float d;
};

Raw raw_of(Address row, uint chunk) {
  const Address block = row + chunk / 2 * FLYBALL_Q6_K_FILE_BYTES;
  const uint second = chunk % 2;
  Raw raw;
  read_low(block + second * 64, raw.low);
  read_high(block + 128 + second * 32, raw.high);
  read_scales(block + 192 + second * 8, raw.scales);
  raw.d = f16_of(uint(Halves(block + 208).v[0]));
  return raw;
}

float factor_of(Raw raw, uint part, uint side) {  // of 16 values
  const uint s = 2 * part + side;
  return raw.d * float(signed_byte(raw.scales[s / 4], s % 4));
}

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, kQuads)
    q[i] = ((raw.low[part % 2 * 8 + i] >> (part / 2 * 4)) & 0x0f0f0f0fu) |
           (((raw.high[i] >> (2 * part)) & 0x03030303u) << 4);
}

Scales scales_of(Raw raw, uint chunk, uint part) {
  return Scales(vec2(factor_of(raw, part, 0), factor_of(raw, part, 1)), 0.0);
}

#elif defined(FORMAT_IQ4_NL) || defined(FORMAT_IQ4_XS) || defined(FORMAT_MXFP4)
#define QUANTS 1
#define SIGNED 1
const int kOffset = 0;
#define WORD(a, b, c, d) ((uint(a) & 255u) | (uint(b) & 255u) << 8 | (uint(c) & 255u) << 16 | (uint(d) & 255u) << 24)
#define WORDS(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) \
  uvec4(WORD(a, b, c, d), WORD(e, f, g, h), WORD(i, j, k, l), WORD(m, n, o, p))
#define CALL(macro, list) macro(list)
#ifdef FORMAT_MXFP4
const uvec4 kValues = CALL(WORDS, FLYBALL_NIBBLES_MXFP4);
#else
const uvec4 kValues = CALL(WORDS, FLYBALL_NIBBLES_IQ4);
#endif

// The values of four codes, one in the low nibble of each byte. Selected from four words: a device indexes no array.
uint values_of(uint codes) {
  uint bytes = 0;
  EACH(k, 4) {
    const uint code = (codes >> (8 * k)) & 15u;
    const uvec2 half_of = code < 8 ? kValues.xy : kValues.zw;
    const uint word = (code & 4u) != 0 ? half_of.y : half_of.x;
    bytes |= ((word >> (8 * (code & 3u))) & 255u) << (8 * k);
  }
  return bytes;
}

#ifdef FORMAT_IQ4_XS
// A chunk is two sub-blocks. Blocks begin at multiples of 8 bytes of the row; matrices at multiples of 8.
const uint kChunk = 64;
DEFINE_READ(read_head, 8, 2, 8)
DEFINE_READ(read_quants, 32, 8, 8)

struct Raw {
  uint head[2];  // d and the scales' upper bits, then their lower ones
  uint quants[8];
};

Raw raw_of(Address row, uint chunk) {
  const Address block = row + chunk / 4 * FLYBALL_IQ4_XS_FILE_BYTES;
  Raw raw;
  read_head(block, raw.head);
  read_quants(block + 8 + chunk % 4 * 32, raw.quants);
  return raw;
}

uint quant_word(Raw raw, uint part, uint i) { return raw.quants[part * 4 + i]; }

Scales scales_of(Raw raw, uint chunk, uint part) {
  const uint s = chunk % 4 * 2 + part;
  const uint low = (raw.head[1] >> (4 * s)) & 15u, high = (raw.head[0] >> (16 + 2 * s)) & 3u;
  return Scales(vec2(f16_of(raw.head[0] & 0xffffu) * float(int(low | high << 4) - 32)), 0.0);
}

#else
#ifdef FORMAT_MXFP4
const uint kChunk = FLYBALL_MXFP4_VALUES, kBlockBytes = FLYBALL_MXFP4_FILE_BYTES, kHeadBits = 8;
DEFINE_READ(read_block, FLYBALL_MXFP4_FILE_BYTES, 5, 1)
#else
const uint kChunk = FLYBALL_IQ4_NL_VALUES, kBlockBytes = FLYBALL_IQ4_NL_FILE_BYTES, kHeadBits = 16;
DEFINE_READ(read_block, FLYBALL_IQ4_NL_FILE_BYTES, 5, 2)
#endif

struct Raw {
  uint words[5];
};

Raw raw_of(Address row, uint chunk) {
  Raw raw;
  read_block(row + chunk * kBlockBytes, raw.words);
  return raw;
}

uint quant_word(Raw raw, uint part, uint i) {
  return (raw.words[i] >> kHeadBits) | (raw.words[i + 1] << (32 - kHeadBits));
}

Scales scales_of(Raw raw, uint chunk, uint part) {
#ifdef FORMAT_MXFP4
  const uint e = raw.words[0] & 255u;  // 2^(e - 128), the first two of which are subnormal
  return Scales(vec2(uintBitsToFloat(e < 2 ? 0x00200000u << e : (e - 1) << 23)), 0.0);
#else
  return Scales(vec2(f16_of(raw.words[0] & 0xffffu)), 0.0);
#endif
}
#endif

void quants_of(Raw raw, uint chunk, uint part, out uint q[kQuads]) {
  EACH(i, 4) {
    const uint both = quant_word(raw, part, i);
    q[i] = values_of(both & 0x0f0f0f0fu);
    q[i + 4] = values_of((both >> 4) & 0x0f0f0f0fu);
  }
}

#elif defined(FORMAT_AFFINE)
// A chunk is a group.
const uint kBits = BITS, kChunk = GROUP, kRawWords = kChunk / 32 * kBits;
const bool kScalesF32 = (kPlace & 2u) != 0, kScalesBf16 = (kPlace & 4u) != 0;
const uint kScaleBytes = kScalesF32 ? 4 : 2;
DEFINE_READ(read_in_place, 4 * kRawWords, kRawWords, 8)
DEFINE_READ(read_anywhere, 4 * kRawWords, kRawWords, 1)

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Affine { AffineMatrix parts; };
#define Matrix AffineMatrix
Matrix matrix_of(Address w) { return Affine(w).parts; }

struct Row {
  Address codes, scales, biases;
};
Row row_of(Matrix m, uint64_t row, uint row_bytes, uint cols) {
  const uint64_t groups = row * (cols / kChunk * kScaleBytes);
  return Row(m.codes + row * row_bytes, m.scales + groups, m.biases + groups);
}

struct Raw {
  uint words[kRawWords];
  float scale, bias;
};

float scale_of(Address at) {
  const uint bits = bits_at(at, kScaleBytes);
  if (kScalesF32) return uintBitsToFloat(bits);
  return kScalesBf16 ? uintBitsToFloat(bits << 16) : f16_of(bits);
}

Raw raw_of(Row row, uint chunk) {
  Raw raw;
  const Address at = row.codes + chunk * (4 * kRawWords);
  if (kInPlace) read_in_place(at, raw.words);
  else read_anywhere(at, raw.words);
  raw.scale = scale_of(row.scales + chunk * kScaleBytes);
  raw.bias = scale_of(row.biases + chunk * kScaleBytes);
  return raw;
}

void decode(Raw raw, uint chunk, uint part, out float w[kPart]) {
  EACH(i, kPart) {
    const uint bit = i * kBits % 32, word = part * kBits + i * kBits / 32;
    uint q = raw.words[word] >> bit;
    if (bit + kBits > 32) q |= raw.words[min(word + 1, kRawWords - 1)] << (32 - bit);
    w[i] = fma(float(q & ((1u << kBits) - 1u)), raw.scale, raw.bias);
  }
}
#endif

#if QUANTS
void decode(Raw raw, uint chunk, uint part, out float w[kPart]) {
  uint quants[kQuads];
  quants_of(raw, chunk, part, quants);
  const Scales scales = scales_of(raw, chunk, part);
  EACH(i, kPart) {
    const float factor = scales.factor[i / 16];
#if MINIMA
    const float zero = scales.zero;
#else
    const float zero = -float(kOffset) * factor;
#endif
#if SIGNED
    const float quant = float(signed_byte(quants[i / 4], i % 4));
#else
    const float quant = float((quants[i / 4] >> (8 * (i % 4))) & 255u);
#endif
    w[i] = fma(quant, factor, zero);
  }
}
#endif

#endif
