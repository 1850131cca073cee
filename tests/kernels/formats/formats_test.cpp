// The block formats against vectors worked out by hand from GGUF's definition, and quantizers against their
// bounds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/formats/affine.hpp"
#include "kernels/formats/bf16.hpp"
#include "kernels/formats/dequantize.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/quantize.hpp"
#include "kernels/formats/scale_min.hpp"
#include "tests/kernels/formats/print.hpp"

namespace flyball::kernels {
namespace {

constexpr std::uint16_t kOne = 0x3C00, kHalf = 0x3800, kTwo = 0x4000;  // f16

void put16(std::vector<std::uint8_t>& bytes, std::size_t at, std::uint16_t value) {
  bytes[at] = static_cast<std::uint8_t>(value & 0xFF);
  bytes[at + 1] = static_cast<std::uint8_t>(value >> 8);
}

TEST(DTypes, HaveNamesOfTheirOwn) {
  for (std::size_t i = 0; i < kDTypeCount; ++i)
    EXPECT_EQ(dtype_named(to_string(static_cast<DType>(i))), static_cast<DType>(i));
  EXPECT_EQ(dtype_named("AFFINE5_G32"), std::nullopt);
}

TEST(F16, EveryValueSurvivesARoundTrip) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float f = f16_to_f32(static_cast<std::uint16_t>(h));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f))));
    } else {
      ASSERT_EQ(f32_to_f16(f), h);
    }
  }
}

TEST(F16, RoundsHalfwayToEven) {
  EXPECT_EQ(f32_to_f16(1.0F), kOne);
  EXPECT_EQ(f32_to_f16(1.0F + 0x1p-11F), kOne);         // halfway, even below
  EXPECT_EQ(f32_to_f16(1.0F + 0x3p-11F), kOne + 2);     // halfway, even above
  EXPECT_EQ(f32_to_f16(1.0F + 0x1.01p-11F), kOne + 1);  // just past halfway
  EXPECT_EQ(f32_to_f16(65519.996F), 0x7BFF);            // largest finite
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);              // infinity
  EXPECT_EQ(f32_to_f16(0x1p-25F), 0x0000);              // half the smallest subnormal, even is zero
  EXPECT_EQ(f32_to_f16(0x1.000002p-25F), 0x0001);
  EXPECT_EQ(f32_to_f16(-0x1.8p-24F), 0x8002);
  EXPECT_EQ(f32_to_f16(0x1.FFFp-15F), 0x0400);  // subnormal that rounds up to the smallest normal
}

TEST(Bf16, RoundsHalfwayToEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(f32_to_bf16(1.0F + 0x1p-8F), 0x3F80);
  EXPECT_EQ(f32_to_bf16(1.0F + 0x3p-8F), 0x3F82);
  EXPECT_EQ(bf16_to_f32(0xC040), -3.0F);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

TEST(Dequantize, Q4_0) {
  std::vector<std::uint8_t> block(18, 0x88);  // all 8: zero
  put16(block, 0, kHalf);
  block[2] = 0x0F;       // value 0: (15 - 8) / 2, value 16: (0 - 8) / 2
  block[2 + 15] = 0x97;  // value 15: (7 - 8) / 2, value 31: (9 - 8) / 2
  float out[32];
  dequantize_row(DType::q4_0, block.data(), 32, out);
  EXPECT_EQ(out[0], 3.5F);
  EXPECT_EQ(out[16], -4.0F);
  EXPECT_EQ(out[15], -0.5F);
  EXPECT_EQ(out[31], 0.5F);
  EXPECT_EQ(out[1], 0.0F);
}

TEST(Dequantize, Q4_1) {
  std::vector<std::uint8_t> block(20, 0);  // all 0: the minimum
  put16(block, 0, kHalf);
  put16(block, 2, kTwo);
  block[4] = 0x0F;       // value 0: 15 / 2 + 2
  block[4 + 15] = 0x97;  // value 15: 7 / 2 + 2, value 31: 9 / 2 + 2
  float out[32];
  dequantize_row(DType::q4_1, block.data(), 32, out);
  EXPECT_EQ(out[0], 9.5F);
  EXPECT_EQ(out[16], 2.0F);
  EXPECT_EQ(out[15], 5.5F);
  EXPECT_EQ(out[31], 6.5F);
  EXPECT_EQ(out[1], 2.0F);
}

TEST(Dequantize, Q5_0) {
  std::vector<std::uint8_t> block(22, 0);  // all 0: -16
  put16(block, 0, kHalf);
  block[2] = 0x01;       // fifth bit of value 0
  block[2 + 3] = 0x80;   // of value 31
  block[6] = 0x0F;       // value 0: (31 - 16) / 2
  block[6 + 15] = 0x97;  // value 15: (7 - 16) / 2, value 31: (25 - 16) / 2
  float out[32];
  dequantize_row(DType::q5_0, block.data(), 32, out);
  EXPECT_EQ(out[0], 7.5F);
  EXPECT_EQ(out[16], -8.0F);
  EXPECT_EQ(out[15], -4.5F);
  EXPECT_EQ(out[31], 4.5F);
  EXPECT_EQ(out[1], -8.0F);
}

TEST(Dequantize, Q5_1) {
  std::vector<std::uint8_t> block(24, 0);  // all 0: the minimum
  put16(block, 0, kHalf);
  put16(block, 2, kTwo);
  block[4] = 0x01;       // fifth bit of value 0
  block[4 + 3] = 0x80;   // of value 31
  block[8] = 0x0F;       // value 0: 31 / 2 + 2
  block[8 + 15] = 0x97;  // value 15: 7 / 2 + 2, value 31: 25 / 2 + 2
  float out[32];
  dequantize_row(DType::q5_1, block.data(), 32, out);
  EXPECT_EQ(out[0], 17.5F);
  EXPECT_EQ(out[16], 2.0F);
  EXPECT_EQ(out[15], 5.5F);
  EXPECT_EQ(out[31], 14.5F);
  EXPECT_EQ(out[1], 2.0F);
}

TEST(Dequantize, Q8_0) {
  std::vector<std::uint8_t> block(34, 0);
  put16(block, 0, kTwo);
  block[2] = 0x7F;
  block[33] = 0x80;
  float out[32];
  dequantize_row(DType::q8_0, block.data(), 32, out);
  EXPECT_EQ(out[0], 254.0F);
  EXPECT_EQ(out[31], -256.0F);
  EXPECT_EQ(out[5], 0.0F);
}

// Scale bytes 0..11 with: sub-block 0: scale 1, min 2; sub-block 4: scale 0x2B, min 0x1C; the rest zero.
void put_scales(std::vector<std::uint8_t>& block) {
  block[4 + 0] = 0x01 | (0x2 << 6);  // scale 0; upper bits of scale 4 (0x2B = 0b10'1011)
  block[4 + 4] = 0x02 | (0x1 << 6);  // min 0; upper bits of min 4 (0x1C = 0b01'1100)
  block[4 + 8] = 0x0B | (0x0C << 4);
}

TEST(Dequantize, Q4_K) {
  std::vector<std::uint8_t> block(144, 0);
  put16(block, 0, kTwo);
  put16(block, 2, kHalf);
  put_scales(block);
  block[16 + 3] = 0x5A;       // sub-block 0 value 3: 10; sub-block 1 value 3: 5 (scale zero)
  block[16 + 64 + 1] = 0x07;  // sub-block 4 value 1: 7
  float out[256];
  dequantize_row(DType::q4_k, block.data(), 256, out);
  EXPECT_EQ(out[3], 2.0F * 1 * 10 - 0.5F * 2);
  EXPECT_EQ(out[4], -1.0F);
  EXPECT_EQ(out[32 + 3], 0.0F);
  EXPECT_EQ(out[128 + 1], 2.0F * 0x2B * 7 - 0.5F * 0x1C);
  EXPECT_EQ(out[128], -14.0F);
}

TEST(Dequantize, Q5_K) {
  std::vector<std::uint8_t> block(176, 0);
  put16(block, 0, kTwo);
  put16(block, 2, kHalf);
  put_scales(block);
  block[16 + 3] = 0x01;  // fifth bit of sub-block 0 value 3
  block[16 + 1] = 0x10;  // fifth bit of sub-block 4 value 1
  block[48 + 3] = 0x5A;  // low bits of sub-block 0 value 3: 10
  block[48 + 64 + 1] = 0x07;
  float out[256];
  dequantize_row(DType::q5_k, block.data(), 256, out);
  EXPECT_EQ(out[3], 2.0F * 1 * 26 - 1.0F);
  EXPECT_EQ(out[128 + 1], 2.0F * 0x2B * 23 - 14.0F);
  EXPECT_EQ(out[128 + 2], -14.0F);
}

TEST(Dequantize, Q6_K) {
  std::vector<std::uint8_t> block(210, 0);
  put16(block, 208, kHalf);
  block[192 + 0] = 3;                               // scale of values 0..15
  block[192 + 15] = static_cast<std::uint8_t>(-2);  // of values 240..255
  block[192 + 5] = 1;                               // of values 80..95
  block[0] = 0x0D;                                  // value 0, low bits 13
  block[128] = 0x02;                                // value 0, upper bits 2: 45
  block[64 + 32 + 31] = 0x90;                       // value 255, low bits 9
  block[128 + 32 + 31] = 0xC0;                      // value 255, upper bits 3: 57
  block[16] = 0x70;                                 // value 80 = 64 + 16: low bits 7
  block[128 + 16] = 0x10;                           // value 80, upper bits 1: 23
  float out[256];
  dequantize_row(DType::q6_k, block.data(), 256, out);
  EXPECT_EQ(out[0], 0.5F * 3 * (45 - 32));
  EXPECT_EQ(out[1], 0.5F * 3 * -32);
  EXPECT_EQ(out[255], 0.5F * -2 * (57 - 32));
  EXPECT_EQ(out[80], 0.5F * (23 - 32));
  EXPECT_EQ(out[100], 0.0F);
}

TEST(Dequantize, Q3_K) {
  std::vector<std::uint8_t> block(110, 0);
  put16(block, 108, kHalf);
  block[96 + 0] = 0x05;        // low bits of scale 0: 5
  block[96 + 8] = 0x02;        // upper bits of scale 0: 0x25, 37 - 32 = 5
  block[96 + 7] = 0x30;        // low bits of scale 15: 3
  block[96 + 11] = 0x40;       // upper bits of scale 15: 0x13, 19 - 32 = -13
  block[0] = 0x01;             // third bit of value 0
  block[32] = 0x02;            // lower bits of value 0: 2, so 6 - 4
  block[31] = 0x80;            // third bit of value 255
  block[32 + 32 + 31] = 0xC0;  // lower bits of value 255: 3, so 7 - 4
  float out[256];
  dequantize_row(DType::q3_k, block.data(), 256, out);
  EXPECT_EQ(out[0], 0.5F * 5 * 2);
  EXPECT_EQ(out[1], 0.5F * 5 * -4);
  EXPECT_EQ(out[255], 0.5F * -13 * 3);
  EXPECT_EQ(out[254], 0.5F * -13 * -4);
  EXPECT_EQ(out[16], 0.5F * -32 * -4);
}

TEST(Dequantize, IQ4_NL) {
  std::vector<std::uint8_t> block(18, 0x88);  // the ninth value: 1
  put16(block, 0, kHalf);
  block[2] = 0x0F;       // value 0: the last, 113; value 16: the first, -127
  block[2 + 15] = 0x97;  // value 15: -10, value 31: 13
  float out[32];
  dequantize_row(DType::iq4_nl, block.data(), 32, out);
  EXPECT_EQ(out[0], 56.5F);
  EXPECT_EQ(out[16], -63.5F);
  EXPECT_EQ(out[15], -5.0F);
  EXPECT_EQ(out[31], 6.5F);
  EXPECT_EQ(out[1], 0.5F);
}

TEST(Dequantize, IQ4_XS) {
  std::vector<std::uint8_t> block(136, 0x88);  // the ninth value: 1
  put16(block, 0, kHalf);
  put16(block, 2, 0x8003);  // upper bits of scales 0 and 7: 3, 2
  block[4] = 0x05;          // scale 0: 0x35, 53 - 32 = 21; scale 1: 0 - 32
  block[4 + 3] = 0x10;      // scale 7: 0x21, 33 - 32 = 1
  block[8] = 0x0F;          // value 0: 113, value 16: -127
  block[8 + 127] = 0x97;    // value 239: -10, value 255: 13
  float out[256];
  dequantize_row(DType::iq4_xs, block.data(), 256, out);
  EXPECT_EQ(out[0], 0.5F * 21 * 113);
  EXPECT_EQ(out[16], 0.5F * 21 * -127);
  EXPECT_EQ(out[32], 0.5F * -32);
  EXPECT_EQ(out[239], -5.0F);
  EXPECT_EQ(out[255], 6.5F);
}

TEST(Dequantize, MXFP4) {
  std::vector<std::uint8_t> block(17, 0);
  block[0] = 127;        // E8M0: 1
  block[1] = 0xF7;       // value 0: 6, value 16: -6
  block[1 + 15] = 0x91;  // value 15: 0.5, value 31: -0.5
  float out[32];
  dequantize_row(DType::mxfp4, block.data(), 32, out);
  EXPECT_EQ(out[0], 6.0F);
  EXPECT_EQ(out[16], -6.0F);
  EXPECT_EQ(out[15], 0.5F);
  EXPECT_EQ(out[31], -0.5F);
  EXPECT_EQ(out[1], 0.0F);
  for (const int e : {0, 1, 2, 254, 255}) {  // the least two scales are subnormal
    block[0] = static_cast<std::uint8_t>(e);
    dequantize_row(DType::mxfp4, block.data(), 32, out);
    EXPECT_EQ(out[15], std::ldexp(0.5F, e - 127)) << e;
    EXPECT_EQ(out[31], -std::ldexp(0.5F, e - 127)) << e;
  }
}

TEST(Q4_K, ScalesSurvivePacking) {
  ScaleMin in[8];
  for (int s = 0; s < 8; ++s)
    in[s] = {static_cast<std::uint8_t>(63 - 7 * s), static_cast<std::uint8_t>(8 * s + 5)};
  std::uint8_t packed[12];
  pack_scale_mins(in, packed);
  for (int s = 0; s < 8; ++s) {
    EXPECT_EQ(scale_min(packed, s).scale, in[s].scale);
    EXPECT_EQ(scale_min(packed, s).min, in[s].min);
  }
}

// Codes lie in a little-endian stream; bytes by hand.
TEST(Affine, CodesCrossBytes) {
  std::uint8_t q[32];
  const std::uint8_t three[12] = {0b10001000, 0b11000110, 0b11111010};  // 0, 1, ..., 7
  affine_codes(3, three, q);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(q[i], i);
  const std::uint8_t six[24] = {0b10000001, 0b00110000, 0b11111100};  // 1, 2, 3, 63
  affine_codes(6, six, q);
  EXPECT_EQ(q[0], 1);
  EXPECT_EQ(q[1], 2);
  EXPECT_EQ(q[2], 3);
  EXPECT_EQ(q[3], 63);
  EXPECT_EQ(q[4], 0);
  for (const std::uint32_t bits : {2U, 3U, 4U, 6U, 8U}) {
    std::uint8_t in[32], bytes[32], out[32];
    for (std::uint32_t i = 0; i < 32; ++i)
      in[i] = static_cast<std::uint8_t>((i * 37 + 5) & ((1U << bits) - 1));
    pack_affine_codes(bits, in, bytes);
    affine_codes(bits, bytes, out);
    EXPECT_EQ(std::memcmp(in, out, sizeof in), 0) << bits;
  }
}

TEST(Affine, EachGroupHasItsScaleAndBias) {
  for (const DType type : kAffineDTypes) {
    SCOPED_TRACE(to_string(type));
    const Affine affine = *affine_of(type);
    const std::size_t cols = 2 * affine.group, rows = 3;
    // Bit 0 of the last code of each row alone.
    std::vector<std::uint8_t> bytes(rows * row_bytes(type, cols), 0);
    for (std::size_t r = 1; r <= rows; ++r)
      put16(bytes, r * row_bytes(type, cols) - 2, static_cast<std::uint16_t>(1U << (16 - affine.bits)));
    const float scales[] = {1, 2, 3, 4, 5, 6}, biases[] = {-10, -20, -30, -40, -50, -60};
    const SourceRows all(bytes.data(), scales, biases, DType::f32);
    std::vector<float> out(cols);
    for (std::size_t r = 0; r < rows; ++r) {
      dequantize_row(type, all.after(type, r, cols), cols, out.data());
      EXPECT_EQ(out[0], biases[2 * r]);
      EXPECT_EQ(out[affine.group - 1], biases[2 * r]);
      EXPECT_EQ(out[affine.group], biases[2 * r + 1]);
      EXPECT_EQ(out[cols - 1], biases[2 * r + 1] + scales[2 * r + 1]);
    }
    EXPECT_EQ(all.scale_bytes(type, rows, cols), sizeof scales);
  }
}

class Quantize : public testing::TestWithParam<DType> {};

// Root mean square error of a normal row relative to its own: bits decide it. Measured values are about two
// thirds of these; a wrong scale, shift or sub-block exceeds them at once.
double allowed_error(DType type) {
  switch (type) {
    case DType::f32:
      return 0.0;
    case DType::f16:
      return 3e-4;
    case DType::bf16:
      return 2.5e-3;
    case DType::q4_0:
      return 0.11;
    case DType::q4_1:
      return 0.12;
    case DType::q5_0:
      return 0.06;
    case DType::q5_1:
      return 0.06;
    case DType::q8_0:
      return 7e-3;
    case DType::q3_k:
      return 0.15;
    case DType::q4_k:
      return 0.085;
    case DType::q5_k:
      return 0.045;
    case DType::q6_k:
      return 0.018;
    case DType::iq4_nl:
      return 0.077;
    case DType::iq4_xs:
      return 0.077;
    case DType::mxfp4:
      return 0.12;
    default:  // affine: the spread of a group's values over so many steps
      if (!affine_of(type)) std::abort();  // a block type needs a case of its own here
      return 2.0 / ((1U << affine_of(type)->bits) - 1);
  }
}

// One row, quantized and back.
struct RoundTrip {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint16_t> scales, biases;  // of affine types
  std::vector<float> values;

  // at: byte of its buffer where the row begins.
  RoundTrip(DType type, const std::vector<float>& x, std::size_t at = 0)
      : bytes(at + row_bytes(type, x.size())), values(x.size()) {
    if (const auto affine = affine_of(type)) scales.resize(x.size() / affine->group);
    biases.resize(scales.size());
    quantize_row(type, x.data(), x.size(), bytes.data() + at, scales.data(), biases.data());
    const SourceRows row(bytes.data() + at, scales.data(), biases.data(), DType::f16);
    dequantize_row(type, row, x.size(), values.data());
  }
};

TEST_P(Quantize, RoundTripStaysWithinTheFormat) {
  constexpr std::size_t kCols = 4096;
  std::mt19937 generator(7);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> x(kCols);
  for (float& v : x) v = normal(generator);
  const auto y = RoundTrip(GetParam(), x).values;
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < kCols; ++i) {
    error += std::pow(static_cast<double>(x[i]) - y[i], 2);
    norm += std::pow(static_cast<double>(x[i]), 2);
  }
  RecordProperty("relative_rms_error", std::to_string(std::sqrt(error / norm)));
  EXPECT_LE(std::sqrt(error / norm), allowed_error(GetParam()));
}

TEST_P(Quantize, HardRowsStayFinite) {
  constexpr std::size_t kCols = 256;
  // E2M1 has two values to an octave, and its scales are powers of two.
  const double allowed = GetParam() == DType::mxfp4 ? 0.1 : 0.07;
  const std::vector<float> fills = {0.0F, 1.0F, -1.0F, 1e-30F, -1e-38F, 1e-42F, 3e4F, -6e4F};
  for (const float fill : fills) {
    for (const bool alternate : {false, true}) {
      std::vector<float> x(kCols, fill);
      for (std::size_t i = 1; alternate && i < kCols; i += 2) x[i] = 0.0F;
      const auto y = RoundTrip(GetParam(), x).values;
      for (std::size_t i = 0; i < kCols; ++i) {
        ASSERT_TRUE(std::isfinite(y[i])) << fill;
        ASSERT_NEAR(y[i], x[i], allowed * std::fabs(fill) + 1e-5) << fill << " at " << i;
      }
    }
  }
}

TEST_P(Quantize, UnalignedRowsReadTheSame) {
  constexpr std::size_t kCols = 256;
  std::vector<float> x(kCols);
  for (std::size_t i = 0; i < kCols; ++i) x[i] = std::sin(static_cast<float>(i));
  const RoundTrip row(GetParam(), x), shifted(GetParam(), x, 1);
  EXPECT_EQ(std::memcmp(row.bytes.data(), shifted.bytes.data() + 1, row.bytes.size()), 0);
  EXPECT_EQ(row.values, shifted.values);
}

std::string type_name(const testing::TestParamInfo<DType>& type) {
  return std::string(to_string(type.param));
}
INSTANTIATE_TEST_SUITE_P(Types, Quantize, testing::ValuesIn(kAllDTypes), type_name);
INSTANTIATE_TEST_SUITE_P(Affine, Quantize, testing::ValuesIn(kAffineDTypes), type_name);

}  // namespace
}  // namespace flyball::kernels
