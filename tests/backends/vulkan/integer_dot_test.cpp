// Whole models whose products go by packed integer dot products, asked for: the CPU engine's logits and
// tokens, alone and batched, in chunks and decoded.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "backends/model/embedded_demo.hpp"
#include "backends/vulkan/footprint.hpp"
#include "tests/backends/device/row_cases.hpp"
#include "tests/backends/model/model_shapes.hpp"
#include "tests/backends/vulkan/support.hpp"
#include "tests/kernels/formats/print.hpp"

namespace flyball::test {
namespace {

using kernels::DType;

class VulkanIntegerDot : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (IsSkipped()) return;
    options_.device.integer_dot = true;
    if (!vulkan::Device::open(options_.device).value()->facts().integer_dot)
      GTEST_SKIP() << "the device has no integer dot products";
  }
  std::unique_ptr<vulkan::VulkanExecutor> executor(const RunModel& m) const {
    return with_kv(vulkan::make_vulkan_executor(*m.file, options_), *m.file, DType::f16);
  }
  void expect_the_cpu_engine(const RunModel& m) const {
    const auto device = executor(m);
    const auto expected = cpu_executor(m);
    expect_the_cpu_engines_logits(*device, *expected, m, 2e-2);
    expect_its_choices(*device, *expected, m, 3e-2);
  }
  // Token after token of what the CPU engine says. Of two that are nearly as likely, rounding chooses.
  static void expect_its_choices(device::Executor& device, device::Executor& expected, const RunModel& m,
                                 double bound) {
    constexpr std::size_t kSaid = 64;
    const std::vector<std::uint32_t> blocks{9, 3, 4, 17, 5, 22};
    auto tokens = random_tokens(11, std::min(m.vocab(), 300U), 3);
    std::uint32_t position = 0;
    const auto likeliest = [](const std::vector<float>& row) {
      return std::ranges::max_element(row) - row.begin();
    };
    for (std::size_t said = 0; said < kSaid; ++said) {
      const auto want = run_step(expected, {{tokens, position, blocks, true}}, m.vocab());
      const auto got = run_step(device, {{tokens, position, blocks, true}}, m.vocab());
      ASSERT_EQ(want.size(), 1U);
      ASSERT_EQ(got.size(), 1U);
      ASSERT_LT(relative_error(got[0], want[0]), bound) << "token " << said;
      // Each of two logits may be off by twice what is the bound for them all.
      double squares = 0;
      for (const float w : want[0]) squares += double{w} * w;
      const double off = 4 * bound * std::sqrt(squares / static_cast<double>(want[0].size()));
      EXPECT_NEAR(want[0][likeliest(got[0])], want[0][likeliest(want[0])], off) << "token " << said;
      position += static_cast<std::uint32_t>(tokens.size());
      tokens = {static_cast<Token>(likeliest(want[0]))};
    }
  }

  vulkan::VulkanDeviceOptions options_ = vulkan_options();
};

class VulkanIntegerDotOf : public VulkanIntegerDot, public testing::WithParamInterface<DType> {};

TEST_P(VulkanIntegerDotOf, AgreesWithTheCpuEngine) {
  expect_the_cpu_engine(synthetic_model(GetParam(), shape_for(GetParam())));
}

// A token's rounding is its own: neither its company nor what a prompt was cut into shows.
TEST_P(VulkanIntegerDotOf, RowsDoNotDependOnTheirCompany) {
  const auto m = synthetic_model(GetParam(), shape_for(GetParam()));
  const auto device = executor(m);
  const SameRow same = std::bind_front(expect_same_row, std::cref(*device));
  expect_alone_equals_batched(*device, m.vocab(), same);
  expect_whole_equals_chunked(*device, m.vocab(), same);
}

INSTANTIATE_TEST_SUITE_P(Types, VulkanIntegerDotOf, testing::ValuesIn(kernels::block_dtypes()),
                         [](const auto& i) { return std::string(kernels::to_string(i.param)); });

// Experts, matrices of other widths, biases between: the bounds are VulkanFamily's.
TEST_F(VulkanIntegerDot, EveryFamilyAgreesWithTheCpuEngine) {
  for (const std::string_view shape : kFamilies) {
    SCOPED_TRACE(shape);
    const auto m = synthetic_model(DType::q8_0, shape);
    expect_the_cpu_engines_logits(*executor(m), *cpu_executor(m), m, 3e-2);
  }
}

TEST_F(VulkanIntegerDot, TheDemoModelSaysWhatItSaysOnTheCpu) {
  const auto bytes = model::embedded_demo_model();
  if (bytes.empty()) GTEST_SKIP() << "this build has no embedded demo model";
  RunModel m;
  m.file = model::ModelFile::from_bytes(bytes).value();
  expect_the_cpu_engine(m);
}

// One that claims such products and refuses their kernel, or is lost over the trial, works without them.
// The first build fills the driver's cache, the second is the trial's kernel. What lacks memory may have it
// later.
TEST_F(VulkanIntegerDot, AFailedTrialLeavesFloats) {
  using vulkan::Call;
  constexpr int kInvalidShader = -1000012000, kLost = -4, kOutOfMemory = -2;
  const auto m = synthetic_model(DType::f16, shape_for(DType::f16));
  int left = 0;  // calls of a kind, until one fails
  const auto failing = [&](Call kind, int nth, int code) {
    left = nth;
    options_.device.interceptor = [&left, kind, code](Call call) {
      return call == kind && --left == 0 ? code : 0;
    };
    return vulkan::make_vulkan_executor(*m.file, options_);
  };
  std::vector<std::string> warnings;
  options_.warn = [&](const std::string& what) { warnings.push_back(what); };
  std::vector<std::shared_ptr<const vulkan::Books>> books;
  options_.device.on_open = [&](auto of) { books.push_back(std::move(of)); };
  for (const auto& [kind, nth, code] :
       {std::tuple(Call::build, 2, kInvalidShader), {Call::submit, 1, kLost}, {Call::wait, 1, kLost}}) {
    warnings.clear();
    books.clear();
    const auto made = failing(kind, nth, code);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_FALSE((*made)->facts().integer_dot);
    EXPECT_EQ((*made)->arithmetic(), "floats");  // and KV on disk that dots made is not taken up
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_THAT(warnings[0], testing::HasSubstr("multiplied as floats instead"));
    ASSERT_EQ(books.size(), 2U);
    EXPECT_EQ(books[0]->live, 0);
    ASSERT_TRUE((*made)->reserve_kv(graph::kv_layout(m.file->config()), 4));
  }
  const auto full = failing(Call::allocate, 4, kOutOfMemory);  // the loader, its devices, the device, this
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::insufficient_memory);
  EXPECT_THAT(full.error().message, testing::HasSubstr("trial of dot products"));
}

// What is said of a device with memory of its own, but for the logits that the host reads, is what rounded
// activations take. Those of experts are a row for each use.
TEST_F(VulkanIntegerDot, HoldsWhatTheFootprintSays) {
  for (const std::string_view shape : {kLlama, kMixture}) {
    SCOPED_TRACE(shape);
    const auto m = synthetic_model(DType::q8_0, shape), floats = synthetic_model(DType::f16, shape);
    graph::FootprintShape one{.step_tokens = kRunStepTokens, .logit_rows = kRunSequences};
    graph::FootprintShape own = one;
    own.own_memory = true;
    const auto more = [&](const RunModel& model) {
      return vulkan::footprint(*model.file, own).scratch_bytes -
             vulkan::footprint(*model.file, one).scratch_bytes;
    };
    const std::uint64_t rounded = executor(m)->memory().scratch_bytes;
    options_.device.integer_dot = false;
    const std::uint64_t held = rounded - executor(m)->memory().scratch_bytes;
    options_.device.integer_dot = true;
    EXPECT_GT(held, 0U);
    EXPECT_EQ(more(m) - more(floats), held);
  }
}

// x is rounded once for all the matrices that it meets, and no product of these weights goes another way.
TEST_F(VulkanIntegerDot, RoundsOncePerProduct) {
  const auto m = synthetic_model(DType::q8_0, "dim=64,layers=3,heads=4,kv_heads=2,ffn=96,vocab=320");
  graph::KernelTimes times;
  options_.device.times = &times;
  const auto device = executor(m);
  if (!device->facts().timestamps) GTEST_SKIP() << "the device has no timestamps";
  const std::vector<std::uint32_t> blocks{1};
  for (const std::size_t n : {1U, 13U}) {
    times.clear();
    run_step(*device, {{random_tokens(n, m.vocab()), 0, blocks, true}}, m.vocab());
    std::uint64_t prepared = 0, products = 0;
    for (const auto& [name, time] : times.kernels()) {
      if (name == "prepare_activations") prepared = time.launches;
      if (graph::kind_of(name) == graph::KernelKind::product) {
        EXPECT_EQ(name, "matmul_dot_q8_0");
        products += time.launches;
      }
    }
    EXPECT_EQ(prepared, 4 * 3 + 1U);  // q, k and v; out; gate and up; down; logits
    EXPECT_EQ(products, 4 * 3 + 1U);
  }
}

}  // namespace
}  // namespace flyball::test
