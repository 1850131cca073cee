// What a weight's bytes mean, one value at a time: the OpenCL twin of kernels/formats. Placed in front of kernels that
// read single values (embed). FORMAT: 0 F32, 1 F16, 2 BF16, 3 Q4_0, 4 Q8_0, 5 Q4_K, 6 Q5_K, 7 Q6_K.
#ifndef FORMAT
#define FORMAT 0
#endif

// Bytes are put together one by one: a file may align its tensors by less than an element.
float f16_at(__global const uchar* p) {
  ushort bits = (ushort)(p[0] | (p[1] << 8));
  return vload_half(0, (const half*)&bits);
}

#if FORMAT == 5 || FORMAT == 6
float2 scale_min_at(__global const uchar* s, uint i) {
  if (i < 4) return (float2)(s[i] & 63, s[i + 4] & 63);
  return (float2)((s[i + 4] & 15) | ((s[i - 4] >> 6) << 4), (s[i + 4] >> 4) | ((s[i] >> 6) << 4));
}
#endif

// Value `c` of the row that begins at `row`.
float weight_at(__global const uchar* row, uint c) {
#if FORMAT == 0
  __global const uchar* p = row + c * 4;
  return as_float((uint)p[0] | ((uint)p[1] << 8) | ((uint)p[2] << 16) | ((uint)p[3] << 24));
#elif FORMAT == 1
  return f16_at(row + c * 2);
#elif FORMAT == 2
  __global const uchar* p = row + c * 2;
  return as_float(((uint)p[0] << 16) | ((uint)p[1] << 24));
#elif FORMAT == 3
  __global const uchar* b = row + c / 32 * 18;
  const uint i = c % 32;
  const int q = i < 16 ? b[2 + i] & 15 : b[2 + i - 16] >> 4;
  return f16_at(b) * (float)(q - 8);
#elif FORMAT == 4
  __global const uchar* b = row + c / 32 * 34;
  return f16_at(b) * (float)(char)b[2 + c % 32];
#elif FORMAT == 5
  __global const uchar* b = row + c / 256 * 144;
  const uint i = c % 256, s = i / 32;
  const float2 sm = scale_min_at(b + 4, s);
  const int q = (b[16 + s / 2 * 32 + i % 32] >> (s % 2 * 4)) & 15;
  const float scale = f16_at(b) * sm.x, low = f16_at(b + 2) * sm.y;
  return scale * (float)q - low;
#elif FORMAT == 6
  __global const uchar* b = row + c / 256 * 176;
  const uint i = c % 256, s = i / 32;
  const float2 sm = scale_min_at(b + 4, s);
  const int q = ((b[48 + s / 2 * 32 + i % 32] >> (s % 2 * 4)) & 15) | (((b[16 + i % 32] >> s) & 1) << 4);
  const float scale = f16_at(b) * sm.x, low = f16_at(b + 2) * sm.y;
  return scale * (float)q - low;
#elif FORMAT == 7
  __global const uchar* b = row + c / 256 * 210;
  const uint i = c % 256, upper_half = i / 128, k = i % 128 / 32, j = i % 32;
  const int q = ((b[upper_half * 64 + k % 2 * 32 + j] >> (k / 2 * 4)) & 15) |
                (((b[128 + upper_half * 32 + j] >> (2 * k)) & 3) << 4);
  return f16_at(b + 208) * (float)(char)b[192 + i / 16] * (float)(q - 32);
#endif
}
