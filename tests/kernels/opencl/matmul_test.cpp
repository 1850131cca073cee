// The OpenCL matmul kernels of every format, as processors and as GPUs would run them, against the
// double-precision reference: odd shapes, canaries around every buffer, poison in every row that pads a
// group.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/formats/dequantize.hpp"
#include "kernels/formats/quantize.hpp"
#include "kernels/reference/matmul.hpp"
#include "tests/kernels/opencl/harness.hpp"
#include "tests/kernels/print.hpp"

namespace flyball::opencl::test {
namespace {

using kernels::DType;

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
constexpr std::uint8_t kPoison = 0xFF;  // as f32, f16 and bf16 no number

// One device for all tests: opening it and compiling for it is what costs.
Harness* device() {
  static const std::unique_ptr<Harness> harness = Harness::open();
  return harness.get();
}

// A device buffer with poison before and after, which must still be there at the end.
class Guarded {
 public:
  static constexpr std::size_t kMargin = 4096;  // any device's alignment of sub-buffers
  Guarded(const void* bytes, std::size_t n)
      : n_(n),
        whole_(device()->context(), CL_MEM_READ_WRITE, n + 2 * kMargin),
        content_(n + 2 * kMargin, kPoison) {
    if (bytes != nullptr) std::memcpy(content_.data() + kMargin, bytes, n);
    device()->queue().enqueueWriteBuffer(whole_, CL_TRUE, 0, content_.size(), content_.data());
    cl_buffer_region region{kMargin, n};
    part_ = whole_.createSubBuffer(CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region);
  }
  template <class T>
  explicit Guarded(const std::vector<T>& v) : Guarded(v.data(), v.size() * sizeof(T)) {}
  explicit Guarded(std::size_t n) : Guarded(nullptr, n) {}

  const cl::Buffer& buffer() const { return part_; }
  template <class T>
  std::vector<T> read() {
    std::vector<std::uint8_t> now(content_.size());
    device()->queue().enqueueReadBuffer(whole_, CL_TRUE, 0, now.size(), now.data());
    for (std::size_t i = 0; i < kMargin; ++i)
      if (now[i] != kPoison || now[kMargin + n_ + i] != kPoison) {
        ADD_FAILURE() << "written beyond the buffer, at " << i << " of the margins";
        break;
      }
    std::vector<T> out(n_ / sizeof(T));
    std::memcpy(out.data(), now.data() + kMargin, out.size() * sizeof(T));
    return out;
  }
  void expect_unchanged() {
    EXPECT_EQ(std::memcmp(read<std::uint8_t>().data(), content_.data() + kMargin, n_), 0);
  }

 private:
  std::size_t n_;
  cl::Buffer whole_, part_;
  std::vector<std::uint8_t> content_;
};

std::vector<float> random_floats(std::size_t n, std::uint32_t seed, float scale = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> v(n);
  for (float& x : v) x = normal(generator);
  return v;
}

bool is_float(DType type) {
  return kernels::block_shape(type).values == 1;
}

struct Matrix {
  DType type;
  std::uint32_t rows, cols;
  std::vector<std::uint8_t> file;

  Matrix(DType t, std::uint32_t r, std::uint32_t c, std::uint32_t seed) : type(t), rows(r), cols(c) {
    file.resize(rows * row_bytes());
    const auto values = random_floats(std::size_t{rows} * cols, seed, 0.1F);
    for (std::uint32_t i = 0; i < rows; ++i)
      kernels::quantize_row(type, values.data() + std::size_t{i} * cols, cols, file.data() + i * row_bytes());
  }
  std::size_t row_bytes() const { return kernels::row_bytes(type, cols); }
  // With poison in the rows that pad the last group: they must reach no result.
  std::vector<std::uint8_t> poisoned_groups() const {
    std::vector<std::uint8_t> padded = file;
    const std::uint32_t all = (rows + kGroupRows - 1) / kGroupRows * kGroupRows;
    padded.resize(all * row_bytes(), kPoison);
    return grouped(type, all, cols, padded.data());
  }
  void expect_near(const std::vector<float>& x, const std::vector<float>& y, std::uint32_t tokens) const {
    std::vector<double> expected(std::size_t{tokens} * rows);
    kernels::reference::matmul(type, file.data(), rows, cols, x.data(), tokens, expected.data());
    std::vector<float> w(cols);
    for (std::uint32_t r = 0; r < rows; ++r) {
      kernels::dequantize_row(type, file.data() + r * row_bytes(), cols, w.data());
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

enum class As { processor, narrow_processor, gpu };

std::string as_name(As as) {
  return as == As::processor ? "processor" : as == As::gpu ? "gpu" : "narrow_processor";
}

void PrintTo(As as, std::ostream* out) {
  *out << as_name(as);
}

class OpenclMatmul : public testing::TestWithParam<std::tuple<As, DType>> {
 protected:
  void SetUp() override {
    if (device() == nullptr) GTEST_SKIP() << "no OpenCL device";
    facts_ = device()->facts();
    facts_.processor = as() != As::gpu;
    facts_.vector_floats = as() == As::processor ? 16 : 4;
    tuning_ = default_tuning(facts_);
  }
  static As as() { return std::get<0>(GetParam()); }
  static DType type() { return std::get<1>(GetParam()); }
  static std::uint32_t cols(std::uint32_t blocks) {
    return is_float(type()) ? blocks * 67 - 2 : blocks * kernels::block_shape(type()).values;
  }

  // y of each matrix: [tokens, rows]. before: what y holds where it is added to.
  std::vector<std::vector<float>> multiply(const std::vector<Matrix>& matrices, const std::vector<float>& x,
                                           std::uint32_t tokens, const std::vector<float>* before = nullptr) {
    std::vector<std::uint32_t> rows;
    std::vector<Guarded> w, y;
    for (const Matrix& m : matrices) {
      rows.push_back(m.rows);
      w.emplace_back(m.poisoned_groups());
      if (before != nullptr) {
        y.emplace_back(*before);
      } else {
        y.emplace_back(std::size_t{tokens} * m.rows * 4);
      }
    }
    Guarded input(x);
    const MatmulPlan plan = plan_matmul(facts_, tuning_, type(), rows, tokens, before != nullptr);
    const auto at = [&](std::size_t i) { return i < matrices.size() ? i : 0; };
    const auto rows_of = [&](std::size_t i) { return cl_uint{i < rows.size() ? rows[i] : 0}; };
    device()->run(plan, input.buffer(), cl_uint{tokens}, cl_uint{matrices[0].cols}, w[at(0)].buffer(),
                  y[at(0)].buffer(), rows_of(0), w[at(1)].buffer(), y[at(1)].buffer(), rows_of(1),
                  w[at(2)].buffer(), y[at(2)].buffer(), rows_of(2));
    std::vector<std::vector<float>> out;
    for (Guarded& g : y) out.push_back(g.read<float>());
    for (Guarded& g : w) g.expect_unchanged();
    input.expect_unchanged();
    return out;
  }

  MatmulDevice facts_;
  MatmulTuning tuning_;
};

TEST_P(OpenclMatmul, AgreesWithReference) {
  const std::uint32_t counts[] = {1, 2, 3, 7, 8, 9, 33, 70};
  for (const std::uint32_t blocks : {1U, 3U}) {
    const std::vector<Matrix> one = {{type(), 37, cols(blocks), 1}};
    const std::vector<Matrix> three = {
        {type(), 70, cols(blocks), 2}, {type(), 1, cols(blocks), 3}, {type(), 33, cols(blocks), 4}};
    for (const std::uint32_t tokens : counts) {
      const auto x = random_floats(std::size_t{tokens} * cols(blocks), tokens);
      one[0].expect_near(x, multiply(one, x, tokens)[0], tokens);
      const auto y = multiply(three, x, tokens);
      for (std::size_t i = 0; i < three.size(); ++i) three[i].expect_near(x, y[i], tokens);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(OpenclMatmul, EveryCountOfTokens) {
  const std::vector<Matrix> m = {{type(), 5, cols(1), 6}};
  for (std::uint32_t tokens = 1; tokens <= 70; ++tokens) {
    const auto x = random_floats(std::size_t{tokens} * cols(1), tokens);
    m[0].expect_near(x, multiply(m, x, tokens)[0], tokens);
    if (HasFatalFailure()) return;
  }
}

// What the scheduler relies on: a token's result is the same in any batch. On processors whatever the kernel;
// on GPUs the kernel for few tokens sums in another order than the one for many.
TEST_P(OpenclMatmul, AloneEqualsBatchedBitForBit) {
  const std::vector<Matrix> m = {{type(), 45, cols(4), 7}};
  const std::uint32_t all = 200;  // more than one chunk or tile
  const auto x = random_floats(std::size_t{all} * cols(4), 8);
  const auto whole = multiply(m, x, all)[0];
  const auto few = multiply(m, {x.end() - 8 * cols(4), x.end()}, 8)[0];
  for (const std::uint32_t n : {1U, 2U, 3U, 5U, 8U, 9U, 31U, 129U}) {  // the last n tokens as their own batch
    const auto y = multiply(m, {x.end() - n * cols(4), x.end()}, n)[0];
    const auto& batch = as() == As::gpu && n <= 8 ? few : whole;
    EXPECT_EQ(std::memcmp(y.data(), batch.data() + batch.size() - y.size(), y.size() * 4), 0) << n;
  }
}

TEST_P(OpenclMatmul, AddsToWhatIsThere) {
  for (const std::uint32_t tokens : {1U, 12U}) {
    const std::vector<Matrix> m = {{type(), 37, cols(2), 9}};
    const auto x = random_floats(std::size_t{tokens} * cols(2), 10);
    const auto before = random_floats(std::size_t{tokens} * 37, 11);
    auto expected = multiply(m, x, tokens)[0];
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
    EXPECT_EQ(multiply(m, x, tokens, &before)[0], expected) << tokens;
  }
}

TEST_P(OpenclMatmul, ExtremeActivations) {
  const std::vector<Matrix> m = {{type(), 33, cols(2), 12}};
  for (const std::uint32_t tokens : {3U, 12U}) {
    std::vector<float> x(std::size_t{tokens} * cols(2), 0.0F);
    for (std::uint32_t c = 0; c < cols(2); ++c) {
      x[cols(2) + c] = c % 2 == 0 ? 1e4F : -1e4F;
      x[2 * cols(2) + c] = -1e-4F;
    }
    m[0].expect_near(x, multiply(m, x, tokens)[0], tokens);
  }
}

// A value that is no number must show in every result it enters, so that the engine can end the request.
TEST_P(OpenclMatmul, NotANumberIsNeverLost) {
  const std::vector<Matrix> m = {{type(), 5, cols(1), 13}};
  for (const std::uint32_t tokens : {2U, 9U}) {
    auto x = random_floats(std::size_t{tokens} * cols(1), 14);
    x[cols(1) + 3] = std::numeric_limits<float>::quiet_NaN();
    const auto y = multiply(m, x, tokens)[0];
    for (std::uint32_t t = 0; t < tokens; ++t)
      for (std::uint32_t r = 0; r < 5; ++r) EXPECT_EQ(std::isfinite(y[t * 5 + r]), t != 1) << t << " " << r;
  }
}

// Experts: pairs (row, expert) meet their expert's matrix one by one while they are few, grouped when many.
TEST_P(OpenclMatmul, ExpertsMultiplyTheirOwnRows) {
  constexpr std::uint32_t kExperts = 5, kUsed = 2, kRows = 37;
  const std::uint32_t c = cols(2);
  std::vector<Matrix> experts;
  std::vector<std::uint8_t> groups;
  for (std::uint32_t e = 0; e < kExperts; ++e) {
    experts.emplace_back(type(), kRows, c, 20 + e);
    const auto bytes = experts.back().poisoned_groups();
    groups.insert(groups.end(), bytes.begin(), bytes.end());
  }
  const cl_ulong expert_bytes = groups.size() / kExperts;
  Guarded w(groups);
  for (const std::uint32_t tokens : {1U, 4U, 6U, 47U}) {
    const std::uint32_t pairs = tokens * kUsed;
    std::mt19937 generator(tokens);
    std::vector<std::uint32_t> ids(pairs);
    for (std::uint32_t& id : ids) id = generator() % (kExperts - 1);  // the last is never chosen
    const auto x = random_floats(std::size_t{tokens} * c, tokens);
    Guarded input(x), chosen(ids), y(std::size_t{pairs} * kRows * 4);
    const ExpertPlan plan = plan_expert_matmul(facts_, tuning_, type(), kRows, pairs, kExperts);
    EXPECT_EQ(plan.grouped, pairs > 2 * kExperts);
    if (plan.grouped) {
      Guarded offsets(std::size_t{kExperts + 1} * 4), order(std::size_t{pairs} * 4);
      device()->run(plan_moe_group(facts_), chosen.buffer(), cl_uint{pairs}, cl_uint{kExperts},
                    offsets.buffer(), order.buffer());
      std::vector<std::uint32_t> expected(pairs);
      std::iota(expected.begin(), expected.end(), 0U);
      std::stable_sort(expected.begin(), expected.end(), [&](auto a, auto b) { return ids[a] < ids[b]; });
      ASSERT_EQ(order.read<std::uint32_t>(), expected);
      const auto bounds = offsets.read<std::uint32_t>();
      for (std::uint32_t e = 0; e <= kExperts; ++e)
        ASSERT_EQ(bounds[e], std::count_if(ids.begin(), ids.end(), [&](auto id) { return id < e; }));
      device()->run(plan.matmul, input.buffer(), cl_uint{kUsed}, cl_uint{c}, w.buffer(), expert_bytes,
                    offsets.buffer(), order.buffer(), y.buffer(), cl_uint{kRows});
    } else {
      device()->run(plan.matmul, input.buffer(), cl_uint{kUsed}, cl_uint{c}, w.buffer(), expert_bytes,
                    chosen.buffer(), y.buffer(), cl_uint{kRows});
    }
    const auto all = y.read<float>();
    for (std::uint32_t p = 0; p < pairs; ++p) {
      const std::vector<float> row(x.begin() + p / kUsed * c, x.begin() + (p / kUsed + 1) * c);
      const std::vector<float> out(all.begin() + p * kRows, all.begin() + (p + 1) * kRows);
      experts[ids[p]].expect_near(row, out, 1);
      if (HasFatalFailure()) return;
    }
    w.expect_unchanged();
  }
}

std::string case_name(const testing::TestParamInfo<std::tuple<As, DType>>& entry) {
  return as_name(std::get<0>(entry.param)) + "_" + std::string(to_string(std::get<1>(entry.param)));
}
INSTANTIATE_TEST_SUITE_P(All, OpenclMatmul,
                         testing::Combine(testing::Values(As::processor, As::gpu),
                                          testing::ValuesIn(kernels::kAllDTypes)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Narrow, OpenclMatmul,
                         testing::Combine(testing::Values(As::narrow_processor),
                                          testing::Values(DType::f16, DType::q6_k)),
                         case_name);

// The ceilings that benchmarks measure against do the work they are credited with.
TEST(OpenclCeilings, ReadsEveryWordOnce) {
  if (device() == nullptr) GTEST_SKIP() << "no OpenCL device";
  for (const bool chunked : {false, true}) {
    constexpr std::uint32_t kItems = 8, kWidth = 4, kWords = kItems * 4 * 5;
    std::vector<std::uint32_t> in(kWords * kWidth);
    std::mt19937 generator(1);
    for (auto& v : in) v = static_cast<std::uint32_t>(generator());
    Guarded input(in), out(std::size_t{kItems} * kWidth * 4);
    MatmulPlan plan{.files = {"read_bandwidth"},
                    .kernel = "read_bandwidth",
                    .options = "-D WIDTH=4 -D CHUNKED=" + std::to_string(chunked),
                    .global = {kItems, 1}};
    device()->run(plan, input.buffer(), out.buffer(), cl_uint{kWords});
    std::vector<std::uint32_t> expected(kWidth), got(kWidth);
    for (std::size_t i = 0; i < in.size(); ++i) expected[i % kWidth] ^= in[i];
    const auto words = out.read<std::uint32_t>();
    for (std::size_t i = 0; i < words.size(); ++i) got[i % kWidth] ^= words[i];
    EXPECT_EQ(got, expected) << chunked;
  }
}

TEST(OpenclCeilings, MultipliesAndAddsEveryRound) {
  if (device() == nullptr) GTEST_SKIP() << "no OpenCL device";
  constexpr std::uint32_t kChains = 3, kRounds = 5;
  Guarded in(std::vector<float>{0.5F, 1.0F}), out(std::size_t{4} * 4);
  MatmulPlan plan{.files = {"multiply_add"},
                  .kernel = "multiply_add",
                  .options = "-D WIDTH=1 -D CHAINS=3",
                  .global = {4, 1}};
  device()->run(plan, in.buffer(), out.buffer(), cl_uint{kRounds});
  float expected = 0;
  for (std::uint32_t k = 0; k < kChains; ++k) {
    float sum = static_cast<float>(k);
    for (std::uint32_t i = 0; i < kRounds; ++i) sum = sum * 0.5F + 1.0F;
    expected += sum;
  }
  for (const float v : out.read<float>()) EXPECT_EQ(v, expected);
}

}  // namespace
}  // namespace flyball::opencl::test
