// Products by packed integer dot products, which round activations to bytes: tightly against
// kernels/reference over what they were rounded to, and over the activations themselves within what rounding
// can do. The device need not be fast at them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "backends/vulkan/dot_trial.hpp"
#include "tests/kernels/vulkan/product_test.hpp"

namespace flyball::vulkan::test {
namespace {

using kernels::DType;

constexpr std::uint32_t kValues = FLYBALL_PREPARED_VALUES;

struct Record {
  float scale;
  std::int16_t sums[2];
  std::int8_t quants[kValues];
};
static_assert(sizeof(Record) == FLYBALL_PREPARED_BYTES);

class IntegerDotTest : public ProductTest {
 protected:
  void SetUp() override {
    ProductTest::SetUp();
    if (IsSkipped()) return;
    if (!facts_.integer_dots) GTEST_SKIP() << "the device has no integer dot products";
    facts_.integer_dot = true;
  }

  Buffer input(const Floats& x) override {
    const std::uint32_t blocks = static_cast<uint>(x.size()) / kValues;
    const Groups groups = most_groups_ != 0 ? Groups{most_groups_, 1, 1} : prepare_groups(facts_, blocks);
    const Buffer from = put(x);
    Buffer to = put(cases::Bytes(std::size_t{blocks} * sizeof(Record), 0x7E));
    run("prepare_activations", {group_size(facts_, "prepare_activations")},
        PrepareActivationsPush{from.address(), to.address(), blocks, 0}, groups);
    EXPECT_EQ(get<float>(from).size(), x.size());
    return to;
  }
  std::vector<Record> records(const Floats& x) { return get<Record>(input(x)); }

  std::uint32_t most_groups_ = 0;  // 0: as the engine does
};

using VulkanPrepareActivations = IntegerDotTest;

TEST_F(VulkanPrepareActivations, RoundsToTheNearestOfTheBlock) {
  for (const std::uint32_t groups : {0U, 2U}) {
    most_groups_ = groups;
    const std::uint32_t blocks = 700;
    Floats x = cases::random_floats(std::size_t{blocks} * kValues, 1);
    for (std::uint32_t b = 0; b < blocks; ++b)  // of all magnitudes
      for (std::uint32_t i = 0; i < kValues; ++i)
        x[b * kValues + i] *= std::pow(10.0F, static_cast<float>(b % 61) - 30);
    const auto got = records(x);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      float peak = 0;
      for (std::uint32_t i = 0; i < kValues; ++i) peak = std::max(peak, std::abs(x[b * kValues + i]));
      const double scale = got[b].scale;
      ASSERT_NEAR(scale, peak / 127.0, peak / 127.0 * 4 * cases::kEpsilon) << b;
      int sums[2] = {0, 0}, largest = 0;
      for (std::uint32_t i = 0; i < kValues; ++i) {
        const int quant = got[b].quants[i];
        sums[i / 16] += quant;
        largest = std::max(largest, std::abs(quant));
        ASSERT_NEAR(scale * quant, x[b * kValues + i], scale * (0.5 + 1e-4)) << b << " " << i;
      }
      EXPECT_EQ(largest, 127) << b;
      EXPECT_EQ(got[b].sums[0], sums[0]) << b;
      EXPECT_EQ(got[b].sums[1], sums[1]) << b;
    }
  }
}

TEST_F(VulkanPrepareActivations, ZerosAndWhatIsNoNumber) {
  Floats x(6 * kValues, 0.0F);
  std::fill(x.begin() + kValues, x.begin() + 2 * kValues, 1e-40F);
  x[2 * kValues + 31] = NAN;
  x[3 * kValues] = -INFINITY;
  x[4 * kValues + 7] = -3.0F;
  x[5 * kValues + 7] = std::numeric_limits<float>::max();
  const auto got = records(x);
  for (const std::size_t b : {0U, 1U, 2U, 3U}) {
    for (const std::int8_t quant : got[b].quants) EXPECT_EQ(quant, 0) << b;
    if (b < 2)
      EXPECT_LT(got[b].scale, 1e-40F) << b;
    else
      EXPECT_TRUE(std::isnan(got[b].scale)) << b;
  }
  EXPECT_EQ(got[4].quants[7], -127);
  EXPECT_EQ(got[4].sums[0], -127);
  EXPECT_EQ(got[4].sums[1], 0);
  EXPECT_EQ(got[5].quants[7], 127);
  EXPECT_TRUE(std::isfinite(got[5].scale));
}

class VulkanMatmulDot : public IntegerDotTest, public testing::WithParamInterface<DType> {
 public:
  Floats taken(const Floats& x, std::uint32_t) override {
    Floats out;
    for (const Record& record : records(x))
      for (const std::int8_t quant : record.quants) out.push_back(record.scale * static_cast<float>(quant));
    return out;
  }
};

TEST_P(VulkanMatmulDot, AgreesWithReferenceOverRoundedActivations) {
  cases::check_products(*this, GetParam());
}
TEST_P(VulkanMatmulDot, EveryCountOfTokens) {
  cases::check_every_count(*this, GetParam());
}
TEST_P(VulkanMatmulDot, AloneEqualsBatchedBitForBit) {
  cases::check_alone_equals_batched(*this, GetParam(), 0);
}
TEST_P(VulkanMatmulDot, AddsToWhatIsThere) {
  cases::check_adding(*this, GetParam());
}
TEST_P(VulkanMatmulDot, ExtremeActivations) {
  cases::check_extreme_activations(*this, GetParam());
}
TEST_P(VulkanMatmulDot, NotANumberIsNeverLost) {
  cases::check_no_number_is_lost(*this, GetParam());
}

TEST_P(VulkanMatmulDot, ExpertsMultiplyTheirOwnRows) {
  cases::check_experts(*this, GetParam());
}

// A value moves by half a scale at most, which is a 127th of the largest of its 32.
TEST_P(VulkanMatmulDot, RoundsNoMoreThanHalfAStep) {
  for (const std::uint32_t cols : {256U, 1024U, 2560U}) {
    const std::vector<cases::Matrix> m = {{GetParam(), 67, cols, 31}};
    for (const std::uint32_t tokens : {1U, 5U, 20U}) {
      const auto x = cases::random_floats(std::size_t{tokens} * cols, 32);
      const auto y = multiply(m, x, tokens, nullptr)[0];
      const double rounding = cases::kEpsilon * (96 + cols / 32.0);  // as cases::Matrix::expect_near allows
      std::vector<double> exact(y.size());
      kernels::reference::matmul(GetParam(), m[0].file.rows(), m[0].rows, cols, x.data(), tokens,
                                 exact.data());
      Floats w(cols);
      for (std::uint32_t r = 0; r < m[0].rows; ++r) {
        kernels::dequantize_row(GetParam(), m[0].file.rows().after(GetParam(), r, cols), cols, w.data());
        for (std::uint32_t t = 0; t < tokens; ++t) {
          double moved = 0, magnitude = 0;
          for (std::uint32_t first = 0; first < cols; first += kValues) {
            double peak = 0, weights = 0;
            for (std::uint32_t c = first; c < first + kValues; ++c) {
              const double value = x[std::size_t{t} * cols + c];
              peak = std::max(peak, std::abs(value));
              weights += std::abs(double{w[c]});
              magnitude += std::abs(w[c] * value);
            }
            moved += peak / 254 * weights;
          }
          const std::size_t at = std::size_t{t} * m[0].rows + r;
          ASSERT_NEAR(y[at], exact[at], moved * (1 + 2e-4) + rounding * magnitude)
              << cols << " token " << t << " row " << r;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, VulkanMatmulDot, testing::ValuesIn(kernels::block_dtypes()),
                         [](const auto& entry) { return std::string(to_string(entry.param)); });

TEST(VulkanPlan, IntegerDotForEveryCountOfTokensOrForNone) {
  DeviceFacts device;
  device.subgroup_size = 32;
  device.max_work_group = 1024;
  const std::uint32_t rows = 1000, cols = 1024;
  for (const bool fast : {false, true}) {
    device.integer_dot = fast;
    std::set<std::vector<std::uint32_t>> kernels;
    for (std::uint32_t n = 1; n <= 100; ++n) {
      const MatmulPlan plan = plan_matmul(device, {.type = DType::q8_0}, {&rows, 1}, cols, n);
      EXPECT_EQ(plan.kernel, fast ? "matmul_dot_q8_0" : "matmul_q8_0") << n;
      EXPECT_EQ(plan.prepared, fast) << n;
      kernels.insert(plan.constants);
    }
    EXPECT_EQ(kernels.size(), 4U);
    const MatmulPlan floats = plan_matmul(device, {.type = DType::f16}, {&rows, 1}, cols, 1);
    EXPECT_EQ(floats.kernel, "matmul_f16");
    EXPECT_FALSE(floats.prepared);
  }
}

// A processor that is fast at them would not read such weights by texel.
TEST(VulkanPlan, TexelsOnlyWhereIntegerDotIsNot) {
  DeviceFacts device;
  device.texel_bytes = 1ULL << 31;
  EXPECT_TRUE(by_texel(device, DType::q8_0));
  device.integer_dot = true;
  EXPECT_FALSE(by_texel(device, DType::q8_0));
  EXPECT_TRUE(by_texel(device, DType::f16));
}

TEST(VulkanPlan, NoMoreGroupsThanAGridHas) {
  DeviceFacts device;
  device.max_work_group = 1024;
  EXPECT_EQ(prepare_groups(device, 1), (Groups{1, 1, 1}));
  EXPECT_EQ(prepare_groups(device, 257), (Groups{2, 1, 1}));
  EXPECT_EQ(prepare_groups(device, 1ULL << 31), (Groups{65'535, 1, 1}));
}

TEST_F(IntegerDotTest, IsTriedBeforeItIsTrusted) {
  DeviceOptions options;
  options.allow_processor = options.validate = true;
  options.on_validation = [](const std::string& said) { ADD_FAILURE() << "validation: " << said; };
  options.integer_dot = true;
  const auto device = Device::open(options).value();
  EXPECT_TRUE(dots_are_right(*device).value());
}

TEST(VulkanPlan, AWrongDotProductIsSeen) {
  const std::uint32_t words[] = {0x80ff017f, 0x8001ff7f, 0x00000080, 0x0000007f};
  EXPECT_TRUE(dots_are_right(words, std::vector{16384 - 1 - 1 + 16129, -16256}));
  EXPECT_FALSE(dots_are_right(words, std::vector{16384 - 1 - 1 + 16129, -16255}));
  EXPECT_FALSE(dots_are_right(words, std::vector{16384 - 1 - 1 + 16129, 128 * 127})) << "unsigned bytes";
}

// An option takes the kernels where the device has what they need, or leaves them.
TEST_F(IntegerDotTest, IsAskedForByAnOption) {
  DeviceOptions options;
  options.allow_processor = true;
  for (const bool wanted : {false, true}) {
    options.integer_dot = wanted;
    const auto device = Device::open(options);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ((*device)->facts().integer_dot, wanted);
  }
}

}  // namespace
}  // namespace flyball::vulkan::test
