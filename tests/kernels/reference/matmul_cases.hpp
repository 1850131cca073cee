// The differential cases of matrix products, of every format: odd shapes, many counts of tokens, values that
// are hard. A column multiplies on its device, guards its buffers and fails the test where something beyond
// them was written.
#pragma once

#include "kernels/formats/dequantize.hpp"
#include "kernels/reference/matmul.hpp"
#include "tests/kernels/formats/file_matrix.hpp"
#include "tests/kernels/reference/op_cases.hpp"

namespace flyball::kernels::cases {

inline bool is_float(DType type) {
  return block_shape(type).values == 1;
}
// Of a matrix of `blocks` blocks a row; where there are no blocks, of rows that end in the midst of things.
inline std::uint32_t odd_cols(DType type, std::uint32_t blocks) {
  return is_float(type) ? blocks * 67 - 2 : blocks * block_shape(type).values;
}

struct Matrix {
  DType type;
  std::uint32_t rows, cols;
  test::FileMatrix file;

  Matrix(DType t, std::uint32_t r, std::uint32_t c, std::uint32_t seed, DType scale_type = DType::f16)
      : type(t),
        rows(r),
        cols(c),
        file(type, rows, cols, random_floats(std::size_t{rows} * cols, seed, 0.1F), scale_type) {}
  std::size_t row_size() const { return row_bytes(type, cols); }
  void expect_near(const Floats& x, const Floats& y, std::uint32_t tokens) const {
    std::vector<double> expected(std::size_t{tokens} * rows);
    reference::matmul(type, file.rows(), rows, cols, x.data(), tokens, expected.data());
    Floats w(cols);
    for (std::uint32_t r = 0; r < rows; ++r) {
      dequantize_row(type, file.rows().after(type, r, cols), cols, w.data());
      for (std::uint32_t t = 0; t < tokens; ++t) {
        double magnitude = 0;  // what rounding errors scale with
        for (std::uint32_t c = 0; c < cols; ++c)
          magnitude += std::fabs(static_cast<double>(w[c]) * x[std::size_t{t} * cols + c]);
        // Parts of 32 and sums of parts; scales and minima are rounded products that cancel, hence 64.
        const double allowed = kEpsilon * (32 + cols / 32.0 + (is_float(type) ? 0 : 64)) * magnitude;
        const std::size_t at = std::size_t{t} * rows + r;
        ASSERT_NEAR(y[at], expected[at], allowed + 1e-30)
            << rows << "x" << cols << " token " << t << " row " << r;
      }
    }
  }
};

struct Multiplier {
  virtual ~Multiplier() = default;
  // What products take of x: rows of `cols` values, rounded where the column rounds activations on purpose.
  virtual Floats taken(const Floats& x, std::uint32_t cols) {
    (void)cols;
    return x;
  }
  // y of each matrix: [tokens, rows]. before: what y holds where it is added to.
  virtual std::vector<Floats> multiply(const std::vector<Matrix>& matrices, const Floats& x,
                                       std::uint32_t tokens, const Floats* before = nullptr) = 0;
  // y[p] = x[p / per_row] * experts[ids[p]].
  virtual Floats multiply_experts(const std::vector<Matrix>& experts, const Uints& ids, const Floats& x,
                                  std::uint32_t per_row) = 0;
};

inline void check_products(Multiplier& column, DType type) {
  for (const std::uint32_t blocks : {1U, 3U}) {
    const std::uint32_t cols = odd_cols(type, blocks);
    const std::vector<Matrix> one = {{type, 37, cols, 1}};
    const std::vector<Matrix> three = {{type, 70, cols, 2}, {type, 1, cols, 3}, {type, 33, cols, 4}};
    for (const std::uint32_t tokens : {1U, 2U, 3U, 7U, 8U, 9U, 33U, 70U}) {
      const auto x = random_floats(std::size_t{tokens} * cols, tokens);
      const auto taken = column.taken(x, cols);
      ASSERT_NO_FATAL_FAILURE(one[0].expect_near(taken, column.multiply(one, x, tokens)[0], tokens));
      const auto y = column.multiply(three, x, tokens);
      for (std::size_t i = 0; i < three.size(); ++i)
        ASSERT_NO_FATAL_FAILURE(three[i].expect_near(taken, y[i], tokens));
    }
  }
}

inline void check_every_count(Multiplier& column, DType type) {
  const std::uint32_t cols = odd_cols(type, 1);
  const std::vector<Matrix> m = {{type, 5, cols, 6}};
  for (std::uint32_t tokens = 1; tokens <= 70; ++tokens) {
    const auto x = random_floats(std::size_t{tokens} * cols, tokens);
    ASSERT_NO_FATAL_FAILURE(
        m[0].expect_near(column.taken(x, cols), column.multiply(m, x, tokens)[0], tokens));
  }
}

// What the scheduler relies on: a token's result is the same in any batch; up to `few` tokens may be another
// kernel's.
inline void check_alone_equals_batched(Multiplier& column, DType type, std::uint32_t few) {
  const std::uint32_t cols = odd_cols(type, 4);
  const std::vector<Matrix> m = {{type, 45, cols, 7}};
  const std::uint32_t all = 200;  // more than one chunk or tile
  const auto x = random_floats(std::size_t{all} * cols, 8);
  const auto last = [&](std::uint32_t n) { return column.multiply(m, {x.end() - n * cols, x.end()}, n)[0]; };
  const auto whole = last(all), by_few = few == 0 ? whole : last(few);
  for (const std::uint32_t n : {1U, 2U, 3U, 5U, 8U, 9U, 31U, 129U}) {  // the last n tokens as their own batch
    const auto y = last(n);
    const auto& batch = n <= few ? by_few : whole;
    EXPECT_EQ(std::memcmp(y.data(), batch.data() + batch.size() - y.size(), y.size() * 4), 0) << n;
  }
}

inline void check_adding(Multiplier& column, DType type) {
  const std::uint32_t cols = odd_cols(type, 2);
  for (const std::uint32_t tokens : {1U, 12U}) {
    const std::vector<Matrix> m = {{type, 37, cols, 9}};
    const auto x = random_floats(std::size_t{tokens} * cols, 10);
    const auto before = random_floats(std::size_t{tokens} * 37, 11);
    auto expected = column.multiply(m, x, tokens)[0];
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
    EXPECT_EQ(column.multiply(m, x, tokens, &before)[0], expected) << tokens;
  }
}

inline void check_extreme_activations(Multiplier& column, DType type) {
  const std::uint32_t cols = odd_cols(type, 2);
  const std::vector<Matrix> m = {{type, 33, cols, 12}};
  for (const std::uint32_t tokens : {3U, 12U}) {
    Floats x(std::size_t{tokens} * cols, 0.0F);
    for (std::uint32_t c = 0; c < cols; ++c) {
      x[cols + c] = c % 2 == 0 ? 1e4F : -1e4F;
      x[2 * cols + c] = -1e-4F;
    }
    ASSERT_NO_FATAL_FAILURE(
        m[0].expect_near(column.taken(x, cols), column.multiply(m, x, tokens)[0], tokens));
  }
}

// A value that is no number must show in every result it enters, so that the engine can end the request.
inline void check_no_number_is_lost(Multiplier& column, DType type) {
  const std::uint32_t cols = odd_cols(type, 1);
  const std::vector<Matrix> m = {{type, 5, cols, 13}};
  for (const std::uint32_t tokens : {2U, 9U}) {
    auto x = random_floats(std::size_t{tokens} * cols, 14);
    x[cols + 3] = std::numeric_limits<float>::quiet_NaN();
    const auto y = column.multiply(m, x, tokens)[0];
    for (std::uint32_t t = 0; t < tokens; ++t)
      for (std::uint32_t r = 0; r < 5; ++r) EXPECT_EQ(std::isfinite(y[t * 5 + r]), t != 1) << t << " " << r;
  }
}

// Pairs (row, expert) meet their expert's matrix one by one while they are few, grouped when many.
inline void check_experts(Multiplier& column, DType type) {
  constexpr std::uint32_t kExperts = 5, kUsed = 2, kRows = 37;
  const std::uint32_t cols = odd_cols(type, 2);
  std::vector<Matrix> experts;
  for (std::uint32_t e = 0; e < kExperts; ++e) experts.emplace_back(type, kRows, cols, 20 + e);
  for (const std::uint32_t tokens : {1U, 4U, 6U, 47U}) {
    std::mt19937 generator(tokens);
    Uints ids(tokens * kUsed);
    for (std::uint32_t& id : ids) id = generator() % (kExperts - 1);  // the last is never chosen
    const auto x = random_floats(std::size_t{tokens} * cols, tokens);
    const auto y = column.multiply_experts(experts, ids, x, kUsed);
    for (std::size_t p = 0; p < ids.size(); ++p) {
      const Floats row(x.begin() + p / kUsed * cols, x.begin() + (p / kUsed + 1) * cols);
      const Floats out(y.begin() + p * kRows, y.begin() + (p + 1) * kRows);
      ASSERT_NO_FATAL_FAILURE(experts[ids[p]].expect_near(column.taken(row, cols), out, 1));
    }
  }
}

// Pairs sorted by expert, in order of pair, and where each expert's begin.
inline void expect_grouped(const Uints& ids, std::uint32_t n_experts, const Uints& offsets,
                           const Uints& order) {
  Uints expected(ids.size());
  std::iota(expected.begin(), expected.end(), 0U);
  std::stable_sort(expected.begin(), expected.end(), [&](auto a, auto b) { return ids[a] < ids[b]; });
  ASSERT_EQ(order, expected);
  for (std::uint32_t e = 0; e <= n_experts; ++e)
    ASSERT_EQ(offsets[e], std::count_if(ids.begin(), ids.end(), [&](auto id) { return id < e; }));
}

}  // namespace flyball::kernels::cases
