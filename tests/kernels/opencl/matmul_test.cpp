// The OpenCL matmul kernels of every format, as processors and as GPUs would run them, against the
// double-precision reference: odd shapes, canaries around every buffer, poison in every row that pads a
// group.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/kernels/opencl/harness.hpp"
#include "tests/kernels/reference/matmul_cases.hpp"

namespace flyball::opencl::test {
namespace {

namespace cases = kernels::cases;
using cases::Floats;
using cases::Matrix;
using cases::Uints;
using kernels::DType;

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

// With poison in the rows that pad the last group: they must reach no result.
std::vector<std::uint8_t> poisoned_groups(const Matrix& m) {
  const std::uint32_t all = (m.rows + kGroupRows - 1) / kGroupRows * kGroupRows;
  auto padded = m.file;
  for (auto* part : {&padded.bytes, &padded.scales, &padded.biases})
    part->resize(part->size() / m.rows * all, kPoison);
  return grouped(m.type, all, m.cols, padded.rows());
}

enum class As { processor, narrow_processor, gpu };

std::string as_name(As as) {
  return as == As::processor ? "processor" : as == As::gpu ? "gpu" : "narrow_processor";
}

void PrintTo(As as, std::ostream* out) {
  *out << as_name(as);
}

class OpenclMatmul : public testing::TestWithParam<std::tuple<As, DType>>, public cases::Multiplier {
 protected:
  void SetUp() override {
    if (device() == nullptr) GTEST_SKIP() << "no OpenCL device";
    facts_ = device()->facts();
    if (!facts_.processor && as() != As::gpu) GTEST_SKIP() << "no engine runs a processor's kernels on a GPU";
    facts_.processor = as() != As::gpu;
    facts_.vector_floats = as() == As::processor ? 16 : 4;
    tuning_ = default_tuning(facts_);
  }
  static As as() { return std::get<0>(GetParam()); }
  static DType type() { return std::get<1>(GetParam()); }

 public:
  std::vector<Floats> multiply(const std::vector<Matrix>& matrices, const Floats& x, std::uint32_t tokens,
                               const Floats* before) override {
    std::vector<std::uint32_t> rows;
    std::vector<Guarded> w, y;
    for (const Matrix& m : matrices) {
      rows.push_back(m.rows);
      w.emplace_back(poisoned_groups(m));
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

  Floats multiply_experts(const std::vector<Matrix>& experts, const Uints& ids, const Floats& x,
                          std::uint32_t per_row) override {
    const cl_uint n_experts = static_cast<cl_uint>(experts.size()), pairs = static_cast<cl_uint>(ids.size());
    const cl_uint rows = experts[0].rows, cols = experts[0].cols;
    std::vector<std::uint8_t> groups;
    for (const Matrix& m : experts) {
      const auto bytes = poisoned_groups(m);
      groups.insert(groups.end(), bytes.begin(), bytes.end());
    }
    const cl_ulong expert_bytes = groups.size() / n_experts;
    Guarded w(groups), input(x), chosen(ids), y(std::size_t{pairs} * rows * 4);
    const ExpertPlan plan = plan_expert_matmul(facts_, tuning_, type(), rows, pairs, n_experts);
    EXPECT_EQ(plan.grouped, pairs > 2 * n_experts);
    if (plan.grouped) {
      Guarded offsets(std::size_t{n_experts + 1} * 4), order(std::size_t{pairs} * 4);
      device()->run(plan_moe_group(facts_), chosen.buffer(), pairs, n_experts, offsets.buffer(),
                    order.buffer());
      cases::expect_grouped(ids, n_experts, offsets.read<std::uint32_t>(), order.read<std::uint32_t>());
      device()->run(plan.matmul, input.buffer(), cl_uint{per_row}, cols, w.buffer(), expert_bytes,
                    offsets.buffer(), order.buffer(), y.buffer(), rows);
    } else {
      device()->run(plan.matmul, input.buffer(), cl_uint{per_row}, cols, w.buffer(), expert_bytes,
                    chosen.buffer(), y.buffer(), rows);
    }
    auto out = y.read<float>();
    w.expect_unchanged();
    return out;
  }

 protected:
  MatmulDevice facts_;
  MatmulTuning tuning_;
};

TEST_P(OpenclMatmul, AgreesWithReference) {
  cases::check_products(*this, type());
}
TEST_P(OpenclMatmul, EveryCountOfTokens) {
  cases::check_every_count(*this, type());
}
// On processors whatever the kernel; on GPUs the kernel for few tokens sums in another order than the one for
// many.
TEST_P(OpenclMatmul, AloneEqualsBatchedBitForBit) {
  cases::check_alone_equals_batched(*this, type(), as() == As::gpu ? 32 : 0);
}
TEST_P(OpenclMatmul, AddsToWhatIsThere) {
  cases::check_adding(*this, type());
}
TEST_P(OpenclMatmul, ExtremeActivations) {
  cases::check_extreme_activations(*this, type());
}
TEST_P(OpenclMatmul, NotANumberIsNeverLost) {
  cases::check_no_number_is_lost(*this, type());
}
TEST_P(OpenclMatmul, ExpertsMultiplyTheirOwnRows) {
  cases::check_experts(*this, type());
}

std::string case_name(const testing::TestParamInfo<std::tuple<As, DType>>& entry) {
  return as_name(std::get<0>(entry.param)) + "_" + std::string(to_string(std::get<1>(entry.param)));
}
INSTANTIATE_TEST_SUITE_P(All, OpenclMatmul,
                         testing::Combine(testing::Values(As::processor, As::gpu),
                                          testing::ValuesIn(kernels::kAllDTypes)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Affine, OpenclMatmul,
                         testing::Combine(testing::Values(As::processor, As::gpu),
                                          testing::ValuesIn(kernels::kAffineDTypes)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Narrow, OpenclMatmul,
                         testing::Combine(testing::Values(As::narrow_processor),
                                          testing::Values(DType::f16, DType::q6_k, DType::affine3_g64)),
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
