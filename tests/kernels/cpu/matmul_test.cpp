// matmul of every instruction set and element type against the double-precision reference, over odd shapes.
#include <cmath>

#include "kernels/formats/dequantize.hpp"
#include "kernels/reference/matmul.hpp"
#include "tests/kernels/cpu/support.hpp"
#include "tests/kernels/formats/file_matrix.hpp"

namespace flyball::kernels::test {
namespace {

using cpu::Kernels;
using cpu::Range;

struct Shape {
  std::uint32_t rows, cols, tokens;
};

bool is_float(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

std::vector<Shape> shapes(DType type) {
  const std::uint32_t block = block_shape(type).values;
  if (is_float(type)) return {{1, 1, 1}, {37, 65, 3}, {64, 256, 13}, {33, 7, 9}};
  return {{1, block, 1}, {5, 3 * block, 2}, {37, 2 * block, 7}, {64, 5 * block, 13}, {96, 4 * block, 25}};
}

FileMatrix random_weights(DType type, std::uint32_t rows, std::uint32_t cols) {
  return {type, rows, cols, random_floats(std::size_t{rows} * cols, 11 * rows + cols, 0.1F)};
}

std::vector<std::uint8_t> packed_weights(const Kernels& k, DType type, const Shape& s,
                                         const FileMatrix& file) {
  const std::size_t bytes = k.packed_bytes(type, s.rows, s.cols);
  if (bytes == 0) return file.bytes;
  Guarded packed(bytes);
  for (std::uint32_t row = 0; row < s.rows; row += k.row_group(type)) {  // as many threads would
    k.pack(type, s.rows, s.cols, file.rows(), packed.data(),
           {row, std::min(s.rows, row + k.row_group(type))});
  }
  EXPECT_TRUE(packed.intact());
  return {packed.bytes(), packed.bytes() + bytes};
}

std::vector<std::uint8_t> prepared(const Kernels& k, DType type, std::uint32_t cols,
                                   const std::vector<float>& x, std::uint32_t tokens) {
  Guarded buffer(tokens * k.activation_bytes(type, cols));
  k.prepare_activations(type, x.data(), tokens, cols, buffer.data());
  EXPECT_TRUE(buffer.intact());
  return {buffer.bytes(), buffer.bytes() + buffer.size()};
}

// y: [tokens, rows]
std::vector<float> run(const Kernels& k, DType type, const Shape& s, const std::vector<std::uint8_t>& packed,
                       const std::vector<float>& x) {
  const auto activations = prepared(k, type, s.cols, x, s.tokens);
  Guarded y(std::size_t{s.tokens} * s.rows * 4);
  k.matmul(type, packed.data(), s.rows, s.cols, activations.data(), s.tokens, y.floats(), s.rows,
           {0, s.rows});
  EXPECT_TRUE(y.intact());
  return {y.floats(), y.floats() + std::size_t{s.tokens} * s.rows};
}

// Per output: sum |w x|, which rounding errors scale with, and sum |w| * (maximum of |x| in the weights'
// block) / 254, which the rounding of activations to int8 cannot exceed.
struct Bounds {
  double magnitude = 0;
  double quantization = 0;
};

Bounds bounds(DType type, const SourceRows& row, std::uint32_t cols, const float* x) {
  std::vector<float> w(cols);
  Bounds b;
  dequantize_row(type, row, cols, w.data());
  const std::uint32_t block = block_shape(type).values;
  for (std::uint32_t c = 0; c < cols; c += block) {
    const std::uint32_t end = c + block;
    double peak = 0, sum = 0;
    for (std::uint32_t i = c; i < end; ++i) {
      peak = std::max(peak, std::fabs(static_cast<double>(x[i])));
      sum += std::fabs(w[i]);
      b.magnitude += std::fabs(static_cast<double>(w[i]) * x[i]);
    }
    b.quantization += peak / 254 * sum;
  }
  return b;
}

class Matmul : public testing::TestWithParam<std::tuple<cpu::Isa, DType>> {
 protected:
  void SetUp() override {
    if (!cpu::supported(isa())) GTEST_SKIP() << "this machine lacks " << cpu::to_string(isa());
  }
  cpu::Isa isa() const { return std::get<0>(GetParam()); }
  DType type() const { return std::get<1>(GetParam()); }
  const Kernels& kernels() const { return cpu::kernels_for(isa()); }

  void expect_near_reference(const Shape& s, const std::vector<float>& x, bool exact_activations) {
    const auto file = random_weights(type(), s.rows, s.cols);
    const auto y = run(kernels(), type(), s, packed_weights(kernels(), type(), s, file), x);
    std::vector<double> expected(std::size_t{s.tokens} * s.rows);
    reference::matmul(type(), file.rows(), s.rows, s.cols, x.data(), s.tokens, expected.data());
    for (std::uint32_t t = 0; t < s.tokens; ++t) {
      for (std::uint32_t r = 0; r < s.rows; ++r) {
        const Bounds b = bounds(type(), file.rows().after(type(), r, s.cols), s.cols, x.data() + t * s.cols);
        // One rounding a sum: cols for floats, two or three a block otherwise; scales and minima cancel,
        // hence 64.
        const double rounding = kEpsilon * (is_float(type()) ? s.cols : s.cols / 8.0 + 64) * b.magnitude;
        const double allowed = rounding + (is_float(type()) || exact_activations ? 0.0 : b.quantization);
        ASSERT_NEAR(y[t * s.rows + r], expected[t * s.rows + r], allowed + 1e-30)
            << s.rows << "x" << s.cols << " token " << t << " row " << r;
      }
    }
  }
};

TEST_P(Matmul, AgreesWithReference) {
  for (const Shape& s : shapes(type())) {
    expect_near_reference(s, random_floats(std::size_t{s.tokens} * s.cols, s.rows), false);
  }
}

// Activations that int8 holds exactly leave nothing but f32 rounding: offsets, sums and scales must be right.
TEST_P(Matmul, IsExactUpToRoundingWhereActivationsAre) {
  for (const Shape& s : shapes(type())) {
    std::mt19937 generator(s.rows);
    std::uniform_int_distribution<int> integers(-127, 127);
    std::vector<float> x(std::size_t{s.tokens} * s.cols);
    for (float& v : x) v = static_cast<float>(integers(generator)) * 0.25F;
    for (std::size_t i = 0; i < x.size(); i += std::min(32U, s.cols)) x[i] = i % 3 == 0 ? -31.75F : 31.75F;
    expect_near_reference(s, x, true);
  }
}

// What the scheduler relies on: a token's result is the same alone, in any batch, and however rows are split.
TEST_P(Matmul, DependsNeitherOnBatchNorOnSplit) {
  const Shape s{101, 512, 23};
  const auto packed = packed_weights(kernels(), type(), s, random_weights(type(), s.rows, s.cols));
  const auto x = random_floats(std::size_t{s.tokens} * s.cols, 5);
  const auto whole = run(kernels(), type(), s, packed, x);
  for (std::uint32_t n = 1; n < s.tokens; ++n) {  // the last n tokens as their own batch
    const std::vector<float> part(x.end() - n * s.cols, x.end());
    const auto y = run(kernels(), type(), {s.rows, s.cols, n}, packed, part);
    ASSERT_EQ(std::memcmp(y.data(), whole.data() + (s.tokens - n) * s.rows, y.size() * 4), 0) << n;
  }
  const auto activations = prepared(kernels(), type(), s.cols, x, s.tokens);
  const std::uint32_t group = kernels().row_group(type());
  std::vector<float> split(whole.size());
  for (std::uint32_t row = 0; row < s.rows; row += group) {
    kernels().matmul(type(), packed.data(), s.rows, s.cols, activations.data(), s.tokens, split.data(),
                     s.rows, {row, std::min(s.rows, row + group)});
  }
  EXPECT_EQ(std::memcmp(split.data(), whole.data(), whole.size() * 4), 0);
}

TEST_P(Matmul, WritesOnlyItsRows) {
  const std::uint32_t group = kernels().row_group(type());
  const Shape s{3 * group + 1, 256, 5};
  const auto packed = packed_weights(kernels(), type(), s, random_weights(type(), s.rows, s.cols));
  const auto activations =
      prepared(kernels(), type(), s.cols, random_floats(std::size_t{s.tokens} * s.cols, 3), s.tokens);
  const std::uint32_t ldy = s.rows + 3;
  const std::vector<Range> ranges = {{group, 2 * group}, {3 * group, s.rows}};
  for (const Range& range : ranges) {
    std::vector<float> y(std::size_t{s.tokens} * ldy, -77.0F);
    kernels().matmul(type(), packed.data(), s.rows, s.cols, activations.data(), s.tokens, y.data(), ldy,
                     range);
    for (std::uint32_t t = 0; t < s.tokens; ++t) {
      for (std::uint32_t r = 0; r < ldy; ++r) {
        ASSERT_EQ(y[t * ldy + r] != -77.0F, r >= range.begin && r < range.end) << t << " " << r;
      }
    }
  }
}

// What pads the last row group must not be read into results, and activation padding must not matter.
TEST_P(Matmul, PaddingIsHarmless) {
  const std::uint32_t cols = is_float(type()) ? 40 : 256;
  const Shape s{3, cols, 3};
  const auto packed = packed_weights(kernels(), type(), s, random_weights(type(), s.rows, s.cols));
  const auto x = random_floats(std::size_t{s.tokens} * s.cols, 3);
  std::vector<std::vector<float>> results;
  for (const std::uint8_t poison : {0x00, 0xFF}) {
    std::vector<std::uint8_t> activations(s.tokens * kernels().activation_bytes(type(), s.cols), poison);
    kernels().prepare_activations(type(), x.data(), s.tokens, s.cols, activations.data());
    std::vector<float> y(std::size_t{s.tokens} * s.rows);
    kernels().matmul(type(), packed.data(), s.rows, s.cols, activations.data(), s.tokens, y.data(), s.rows,
                     {0, s.rows});
    for (const float v : y) ASSERT_TRUE(std::isfinite(v));
    results.push_back(y);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(Matmul, ZeroAndExtremeActivations) {
  const Shape s{33, 256, 3};
  std::vector<float> x(std::size_t{s.tokens} * s.cols, 0.0F);
  for (std::uint32_t c = 0; c < s.cols; ++c) {
    x[s.cols + c] = c % 2 == 0 ? 1e4F : -1e4F;
    x[2 * s.cols + c] = -1e-4F;
  }
  expect_near_reference(s, x, true);
}

// Activations share one scale over a block of the weights, as llama.cpp's do: beside a value over 254 times
// as large, those of the same block round to nothing, those of the next block do not. Float weights meet them
// unrounded.
TEST_P(Matmul, ActivationsHaveOneScaleABlock) {
  const std::uint32_t block = is_float(type()) ? 32 : block_shape(type()).values;
  const Shape s{5, 2 * block, 1};
  const auto packed = packed_weights(kernels(), type(), s, random_weights(type(), s.rows, s.cols));
  std::vector<float> x(s.cols, 0.0F);
  x[0] = 255.0F;
  const auto alone = run(kernels(), type(), s, packed, x);
  const auto with_one_at = [&](std::uint32_t column) {
    auto changed = x;
    changed[column] = 1.0F;
    return run(kernels(), type(), s, packed, changed);
  };
  EXPECT_EQ(with_one_at(block - 1) == alone, !is_float(type()));
  EXPECT_NE(with_one_at(block), alone);
}

// A value that is no number must show in every result it enters, so that the engine can end the request:
// wherever it stands in its block, rounding to int8 must not turn it into one.
TEST_P(Matmul, NotANumberIsNeverLost) {
  const Shape s{5, 256, 1};
  const auto packed = packed_weights(kernels(), type(), s, random_weights(type(), s.rows, s.cols));
  const auto x = random_floats(s.cols, 8);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::uint32_t c = 0; c < 64; ++c) {
      auto with_bad = x;
      with_bad[c] = bad;
      for (const float y : run(kernels(), type(), s, packed, with_bad))
        ASSERT_FALSE(std::isfinite(y)) << bad << " in column " << c;
    }
  }
}

TEST_P(Matmul, ActivationsOfATokenAloneAreTheSame) {
  const std::uint32_t cols = 512, tokens = 9;
  const auto x = random_floats(tokens * cols, 21);
  const auto whole = prepared(kernels(), type(), cols, x, tokens);
  std::vector<std::uint8_t> parts(whole.size(), Guarded::kCanary);
  const std::size_t stride = kernels().activation_bytes(type(), cols);
  for (const Range& range : {Range{4, 9}, Range{0, 1}, Range{1, 4}}) {
    kernels().prepare_activations(type(), x.data() + range.begin * cols, range.end - range.begin, cols,
                                  parts.data() + range.begin * stride);
  }
  EXPECT_EQ(whole, parts);
}

std::string case_name(const testing::TestParamInfo<std::tuple<cpu::Isa, DType>>& entry) {
  return std::string(cpu::to_string(std::get<0>(entry.param))) + "_" +
         std::string(to_string(std::get<1>(entry.param)));
}
INSTANTIATE_TEST_SUITE_P(All, Matmul, testing::Combine(all_isas(), testing::ValuesIn(kAllDTypes)), case_name);
INSTANTIATE_TEST_SUITE_P(Affine, Matmul, testing::Combine(all_isas(), testing::ValuesIn(kAffineDTypes)),
                         case_name);

}  // namespace
}  // namespace flyball::kernels::test
