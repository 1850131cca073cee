// The Vulkan products of every format against kernels/reference (tests/kernels/reference/matmul_cases.hpp), cut as
// processors and as GPUs have them, and the ceilings that benchmarks measure against.
#include <cmath>
#include <utility>

#include "tests/kernels/vulkan/product_test.hpp"

namespace flyball::vulkan::test {
namespace {

using kernels::DType;

// The GPU's cut on this machine's device: it needs nothing that a processor lacks.
class VulkanMatmul : public ProductTest, public testing::WithParamInterface<std::tuple<bool, DType>> {
 protected:
  void SetUp() override {
    ProductTest::SetUp();
    if (IsSkipped()) return;
    facts_.integer_dot = false;  // those products take other activations: matmul_dot_test.cpp
    if (facts_.processor && !as_processor()) facts_.processor = false;
    if (!facts_.processor && as_processor()) GTEST_SKIP() << "the device is no processor";
  }
  static bool as_processor() { return std::get<0>(GetParam()); }
  static DType type() { return std::get<1>(GetParam()); }
};

TEST_P(VulkanMatmul, AgreesWithReference) {
  cases::check_products(*this, type());
}
TEST_P(VulkanMatmul, EveryCountOfTokens) {
  cases::check_every_count(*this, type());
}
TEST_P(VulkanMatmul, AloneEqualsBatchedBitForBit) {
  cases::check_alone_equals_batched(*this, type(), 0);
}
TEST_P(VulkanMatmul, AddsToWhatIsThere) {
  cases::check_adding(*this, type());
}
TEST_P(VulkanMatmul, ExtremeActivations) {
  cases::check_extreme_activations(*this, type());
}
TEST_P(VulkanMatmul, NotANumberIsNeverLost) {
  cases::check_no_number_is_lost(*this, type());
}
TEST_P(VulkanMatmul, ExpertsMultiplyTheirOwnRows) {
  cases::check_experts(*this, type());
}
std::string case_name(const testing::TestParamInfo<std::tuple<bool, DType>>& entry) {
  return std::string(std::get<0>(entry.param) ? "processor_" : "gpu_") +
         std::string(to_string(std::get<1>(entry.param)));
}
INSTANTIATE_TEST_SUITE_P(All, VulkanMatmul,
                         testing::Combine(testing::Bool(), testing::ValuesIn(kernels::kAllDTypes)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Affine, VulkanMatmul,
                         testing::Combine(testing::Bool(), testing::ValuesIn(kernels::kAffineDTypes)),
                         case_name);

// safetensors promise no alignment; GGUF's blocks begin at multiples of 8. How weights are read does not depend on the
// number of tokens, and llvmpipe compiles the GPU's cut for nine of them, which it never runs for an engine, ten times as
// long as for two. AgreesWithReference has all numbers.
class VulkanMatmulAtAnyByte : public VulkanMatmul {};
TEST_P(VulkanMatmulAtAnyByte, AgreesWithReference) {
  for (at_ = 1; at_ < 8; ++at_) {
    const std::uint32_t cols = cases::odd_cols(type(), 3), several = as_processor() ? 9 : 2;
    const std::uint32_t tokens = at_ % 2 == 0 ? 1 : several;
    const std::vector<cases::Matrix> m = {{type(), 19, cols, 33, cases::kScaleTypes[at_ % 3]}};
    const auto x = cases::random_floats(std::size_t{tokens} * cols, 34);
    ASSERT_NO_FATAL_FAILURE(m[0].expect_near(x, multiply(m, x, tokens, nullptr)[0], tokens)) << at_;
  }
}

INSTANTIATE_TEST_SUITE_P(Floats, VulkanMatmulAtAnyByte,
                         testing::Combine(testing::Bool(),
                                          testing::Values(DType::f32, DType::f16, DType::bf16)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Affine, VulkanMatmulAtAnyByte,
                         testing::Combine(testing::Bool(), testing::ValuesIn(kernels::kAffineDTypes)),
                         case_name);

// The kernel of software devices: all matrices in one buffer, which it reads by texel.
class VulkanTexelMatmul : public KernelTest,
                          public testing::WithParamInterface<DType>,
                          public cases::Multiplier {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && device_->facts().texel_bytes == 0) GTEST_SKIP() << "the device reads by address";
  }

 public:
  std::vector<Floats> multiply(const std::vector<cases::Matrix>& matrices, const Floats& x,
                               std::uint32_t tokens, const Floats* before) override {
    const std::uint32_t cols = matrices[0].cols;
    Uints rows;
    std::vector<std::uint64_t> at;  // as little aligned as a file may be
    cases::Bytes all;
    for (const cases::Matrix& m : matrices) {
      rows.push_back(m.rows);
      at.push_back((all.size() + 15) / 16 * 16 + 8 * misalign_ * (at.size() % 2 + 1) % 16);
      all.resize(at.back());
      all.insert(all.end(), m.file.bytes.begin(), m.file.bytes.end());
    }
    const Buffer w = put(all), input = put(x);
    const Address w_begin = device_->texels(w.address()).value().begin;
    MatmulPush push{};
    push.x = input.address() - device_->texels(input.address()).value().begin;
    push.n = tokens;
    push.cols = cols;
    push.row_bytes = static_cast<uint>(matrices[0].row_size());
    push.add = before != nullptr ? 1 : 0;
    std::vector<Buffer> y;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      y.push_back(put(before != nullptr ? *before : Floats(std::size_t{tokens} * rows[i], NAN)));
      at[i] += w.address() - w_begin;
      push.w[i] = at[i];
      push.y[i] = y[i].address();
      push.rows[i] = rows[i];
    }
    const auto plan = plan_texel_matmul(device_->facts(), GetParam(), rows, cols, tokens, at);
    EXPECT_EQ(plan.has_value(), cols % 32 == 0);
    if (panels_) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const Address y_begin = device_->texels(push.y[i]).value().begin;
        MatmulPush one = push;
        one.w[0] = push.w[i];
        one.y[0] = push.y[i] - y_begin;
        one.rows[0] = rows[i];
        const auto panel =
            plan_texel_panel(device_->facts(), GetParam(), rows[i], cols, tokens, at[i], one.y[0]);
        EXPECT_TRUE(panel);
        if (!panel) continue;
        run_by_texel(panel->kernel, panel->constants, one, panel->groups,
                     {w.address(), input.address(), push.y[i]});
      }
    } else if (plan) {
      run_by_texel(plan->kernel, plan->constants, push, plan->groups, {w.address(), input.address()});
    } else {  // as the engine does
      push.x = input.address();
      for (std::size_t i = 0; i < rows.size(); ++i) push.w[i] += w_begin;
      const MatmulPlan other =
          plan_matmul(device_->facts(), format_of(GetParam(), cols, push.w[0]), rows, cols, tokens);
      run(other.kernel, other.constants, push, other.groups);
    }
    std::vector<Floats> out;
    for (const Buffer& b : y) out.push_back(get<float>(b));
    EXPECT_EQ(get<std::uint8_t>(w), all);
    return out;
  }
  Floats multiply_experts(const std::vector<cases::Matrix>&, const Uints&, const Floats&,
                          std::uint32_t) override {
    return {};  // experts are read by address
  }

 protected:
  std::uint32_t misalign_ = 1;
  bool panels_ = false;  // by texel_panel
};

// Panels of four parts (of eight lanes) that are whole and that are not, matrices that fill their work-groups
// and do not: what one token gives by the other kernel, bit for bit.
TEST_P(VulkanTexelMatmul, PanelsGiveWhatOneTokenGives) {
  for (misalign_ = 0; misalign_ < 2; ++misalign_) {
    for (const std::uint32_t cols : {32U, 96U, 128U, 160U, 320U, 1024U}) {
      const std::vector<cases::Matrix> m = {
          {GetParam(), 64, cols, 31}, {GetParam(), 8, cols, 32}, {GetParam(), 200, cols, 33}};
      for (const std::uint32_t tokens : {9U, 64U, 258U}) {
        auto x = cases::random_floats(std::size_t{tokens} * cols, 34);
        x[4 * cols - 1] = NAN;       // of token 3
        x[5 * cols - 1] = INFINITY;  // and 4: others do not see it
        panels_ = true;
        const auto y = multiply(m, x, tokens, nullptr);
        panels_ = false;
        for (const std::uint32_t t : {0U, 3U, 4U, 5U, tokens - 1}) {
          const auto one = multiply(m, Floats(x.begin() + t * cols, x.begin() + (t + 1) * cols), 1, nullptr);
          for (std::size_t i = 0; i < m.size(); ++i)
            for (std::uint32_t r = 0; r < m[i].rows; ++r) {
              const float got = y[i][t * m[i].rows + r], expected = one[i][r];
              ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
                  << "token " << t << " row " << r << ": " << got << ", alone " << expected;
            }
        }
      }
    }
  }
}

// Rows so long that panels' loops have as many turns as llvmpipe lets them have.
TEST_P(VulkanTexelMatmul, PanelsOfTheLongestRows) {
  const std::uint32_t panel = 16 * device_->facts().subgroup_size;
  for (const auto& [tokens, panels] : {std::pair(256U, 254U), std::pair(256U, 504U)}) {
    const std::uint32_t cols = panels * panel;
    const std::vector<cases::Matrix> m = {{GetParam(), 32, cols, 31}};
    const auto x = cases::random_floats(std::size_t{tokens} * cols, 34);
    panels_ = true;
    const auto y = multiply(m, x, tokens, nullptr)[0];
    panels_ = false;
    for (const std::uint32_t t : {0U, tokens - 1}) {
      const Floats one = multiply(m, Floats(x.begin() + t * cols, x.begin() + (t + 1) * cols), 1, nullptr)[0];
      EXPECT_EQ(Floats(y.begin() + t * m[0].rows, y.begin() + (t + 1) * m[0].rows), one) << t;
    }
  }
}

TEST_P(VulkanTexelMatmul, PanelsAddToWhatIsThere) {
  const std::uint32_t cols = 320, tokens = 258;  // of work-groups of 256
  const std::vector<cases::Matrix> m = {{GetParam(), 72, cols, 31}};
  const auto x = cases::random_floats(std::size_t{tokens} * cols, 34);
  const auto before = cases::random_floats(std::size_t{tokens} * m[0].rows, 35);
  panels_ = true;
  const auto y = multiply(m, x, tokens, &before)[0];
  panels_ = false;
  for (const std::uint32_t t : {0U, 255U, 256U, 257U}) {
    const Floats old(before.begin() + t * m[0].rows, before.begin() + (t + 1) * m[0].rows);
    const Floats one = multiply(m, Floats(x.begin() + t * cols, x.begin() + (t + 1) * cols), 1, &old)[0];
    EXPECT_EQ(Floats(y.begin() + t * m[0].rows, y.begin() + (t + 1) * m[0].rows), one) << t;
  }
}

TEST_P(VulkanTexelMatmul, EveryCountOfTokens) {
  cases::check_every_count(*this, GetParam());
}
TEST_P(VulkanTexelMatmul, AloneEqualsBatchedBitForBit) {
  cases::check_alone_equals_batched(*this, GetParam(), 0);
}
// Its sums begin with what is there.
TEST_P(VulkanTexelMatmul, AddsToWhatIsThere) {
  const std::uint32_t cols = cases::odd_cols(GetParam(), 2), rows = 37;
  for (const std::uint32_t tokens : {1U, 12U}) {
    const std::vector<cases::Matrix> m = {{GetParam(), rows, cols, 9}};
    const auto x = cases::random_floats(std::size_t{tokens} * cols, 10);
    const auto before = cases::random_floats(std::size_t{tokens} * rows, 11);
    const auto product = multiply(m, x, tokens, nullptr)[0], sum = multiply(m, x, tokens, &before)[0];
    for (std::size_t i = 0; i < sum.size(); ++i)
      EXPECT_NEAR(sum[i], product[i] + before[i], 1e-5 * (1 + std::abs(product[i]))) << tokens;
  }
}
TEST_P(VulkanTexelMatmul, ExtremeActivations) {
  cases::check_extreme_activations(*this, GetParam());
}
TEST_P(VulkanTexelMatmul, NotANumberIsNeverLost) {
  cases::check_no_number_is_lost(*this, GetParam());
}
// Rows at multiples of 2, 8 and 16 bytes; eight blocks at once, four and one; up to three matrices.
TEST_P(VulkanTexelMatmul, EveryAlignmentOfRows) {
  for (misalign_ = 0; misalign_ < 2; ++misalign_) {
    for (const std::uint32_t cols : {32U, 96U, 128U, 256U, 1024U}) {
      const std::vector<cases::Matrix> m = {
          {GetParam(), 67, cols, 31}, {GetParam(), 9, cols, 32}, {GetParam(), 16, cols, 33}};
      for (const std::uint32_t tokens : {1U, 5U, 16U, 40U}) {
        const auto x = cases::random_floats(std::size_t{tokens} * cols, 34);
        const auto y = multiply(m, x, tokens, nullptr);
        for (std::size_t i = 0; i < m.size(); ++i) ASSERT_NO_FATAL_FAILURE(m[i].expect_near(x, y[i], tokens));
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, VulkanTexelMatmul,
                         testing::ValuesIn(kernels::dtypes_where([](const auto& row) { return row.texel; })),
                         [](const auto& entry) { return std::string(to_string(entry.param)); });

// Rows of 32 columns and more that begin at multiples of 8 bytes, which are read in place.
TEST_P(VulkanMatmul, RowsInPlace) {
  for (const std::uint32_t cols : {256U, 1024U}) {
    const std::vector<cases::Matrix> m = {{type(), 67, cols, 31}};
    for (const std::uint32_t tokens : {1U, 5U, 16U, 40U}) {
      const auto x = cases::random_floats(std::size_t{tokens} * cols, 32);
      ASSERT_NO_FATAL_FAILURE(m[0].expect_near(x, multiply(m, x, tokens, nullptr)[0], tokens));
    }
  }
}

class VulkanCeilings : public KernelTest {};

TEST_F(VulkanCeilings, ReadsEveryWordOnce) {
  const std::uint32_t size = 32, groups = 3, words = size * groups * 4 * 5;
  Uints in(words * 4);
  std::mt19937 generator(1);
  for (auto& v : in) v = static_cast<std::uint32_t>(generator());
  const Buffer from = put(in), to = put(Uints(std::size_t{size} * groups));
  run("read_bandwidth", {size},
      ReadBandwidthPush{.from = from.address(), .to = to.address(), .words = words, .unused = 0},
      {groups, 1, 1});
  std::uint32_t expected = 0, got = 0;
  for (const std::uint32_t v : in) expected ^= v;
  for (const std::uint32_t v : get<std::uint32_t>(to)) got ^= v;
  EXPECT_EQ(got, expected);
}

TEST_F(VulkanCeilings, MultipliesAndAddsEveryRound) {
  constexpr std::uint32_t kChains = 12, kRounds = 128;
  const Buffer to = put(Floats(64, NAN));
  run("multiply_add", {32},
      MultiplyAddPush{.to = to.address(), .rounds = kRounds, .first = 0.125F, .term = 0.25F, .unused = 0},
      {2, 1, 1});
  // Tends to 0.5 so slowly that a round more or less would show.
  std::array<double, kChains> sum{};
  sum.fill(0.125);
  double expected = 0;
  for (std::uint32_t i = 0; i < kRounds; ++i)
    for (std::uint32_t k = 0; k < kChains; ++k) sum[k] = sum[k] * sum[(k + 1) % kChains] + 0.25;
  for (const double s : sum) expected += s;
  for (const float v : get<float>(to)) EXPECT_NEAR(v, expected, 1e-5);
}

}  // namespace
}  // namespace flyball::vulkan::test
