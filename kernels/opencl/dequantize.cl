// What a weight's bytes mean, one value at a time: the OpenCL twin of kernels/formats. Placed in front of kernels that
// read single values (embed), behind block_layout.h.
#ifndef FORMAT
#define FORMAT FLYBALL_FORMAT_F32
#endif
#ifndef SCALE_FORMAT
#define SCALE_FORMAT FLYBALL_FORMAT_F16  // of affine formats' scales and biases: F32, F16 or BF16
#endif

// Bytes are put together one by one: a file may align its tensors by less than an element.
float f16_at(__global const uchar* p) {
  ushort bits = (ushort)(p[0] | (p[1] << 8));
  return vload_half(0, (const half*)&bits);
}

float f32_at(__global const uchar* p) {
  return as_float((uint)p[0] | ((uint)p[1] << 8) | ((uint)p[2] << 16) | ((uint)p[3] << 24));
}
float bf16_at(__global const uchar* p) {
  return as_float(((uint)p[0] << 16) | ((uint)p[1] << 24));
}

#if FORMAT == FLYBALL_FORMAT_Q4_K || FORMAT == FLYBALL_FORMAT_Q5_K
float2 scale_min_at(__global const uchar* s, uint i) {
  if (i < 4) return (float2)(s[i] & 63, s[i + 4] & 63);
  return (float2)((s[i + 4] & 15) | ((s[i - 4] >> 6) << 4), (s[i + 4] >> 4) | ((s[i] >> 6) << 4));
}
#endif

#if FORMAT >= FLYBALL_FORMAT_AFFINE
#define BITS FLYBALL_AFFINE_BITS(FORMAT)

float scale_at(__global const uchar* values, uint i) {
#if SCALE_FORMAT == FLYBALL_FORMAT_F32
  return f32_at(values + 4 * i);
#elif SCALE_FORMAT == FLYBALL_FORMAT_F16
  return f16_at(values + 2 * i);
#else
  return bf16_at(values + 2 * i);
#endif
}

// Value `c` of the row whose codes, scales and biases begin there.
float affine_at(__global const uchar* codes, __global const uchar* scales, __global const uchar* biases, uint c) {
  const uint bit = c * BITS, shift = bit % 8, i = c / FLYBALL_AFFINE_GROUP(FORMAT);
  uint q = codes[bit / 8] >> shift;
  if (shift + BITS > 8) q |= codes[bit / 8 + 1] << (8 - shift);
  return fma(scale_at(scales, i), (float)(q & ((1 << BITS) - 1)), scale_at(biases, i));
}

#else

// Value `c` of the row that begins at `row`.
float weight_at(__global const uchar* row, uint c) {
#if FORMAT == FLYBALL_FORMAT_F32
  return f32_at(row + c * 4);
#elif FORMAT == FLYBALL_FORMAT_F16
  return f16_at(row + c * 2);
#elif FORMAT == FLYBALL_FORMAT_BF16
  return bf16_at(row + c * 2);
#elif FORMAT == FLYBALL_FORMAT_Q4_0
  __global const uchar* b = row + c / 32 * 18;
  const uint i = c % 32;
  const int q = i < 16 ? b[2 + i] & 15 : b[2 + i - 16] >> 4;
  return f16_at(b) * (float)(q - 8);
#elif FORMAT == FLYBALL_FORMAT_Q8_0
  __global const uchar* b = row + c / 32 * 34;
  return f16_at(b) * (float)(char)b[2 + c % 32];
#elif FORMAT == FLYBALL_FORMAT_Q4_K
  __global const uchar* b = row + c / 256 * 144;
  const uint i = c % 256, s = i / 32;
  const float2 sm = scale_min_at(b + 4, s);
  const int q = (b[16 + s / 2 * 32 + i % 32] >> (s % 2 * 4)) & 15;
  const float scale = f16_at(b) * sm.x, low = f16_at(b + 2) * sm.y;
  return scale * (float)q - low;
#elif FORMAT == FLYBALL_FORMAT_Q5_K
  __global const uchar* b = row + c / 256 * 176;
  const uint i = c % 256, s = i / 32;
  const float2 sm = scale_min_at(b + 4, s);
  const int q = ((b[48 + s / 2 * 32 + i % 32] >> (s % 2 * 4)) & 15) | (((b[16 + i % 32] >> s) & 1) << 4);
  const float scale = f16_at(b) * sm.x, low = f16_at(b + 2) * sm.y;
  return scale * (float)q - low;
#elif FORMAT == FLYBALL_FORMAT_Q6_K
  __global const uchar* b = row + c / 256 * 210;
  const uint i = c % 256, upper_half = i / 128, k = i % 128 / 32, j = i % 32;
  const int q = ((b[upper_half * 64 + k % 2 * 32 + j] >> (k / 2 * 4)) & 15) |
                (((b[128 + upper_half * 32 + j] >> (2 * k)) & 3) << 4);
  return f16_at(b + 208) * (float)(char)b[192 + i / 16] * (float)(q - 32);
#endif
}

#endif
