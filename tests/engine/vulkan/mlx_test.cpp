// MLX directories on the Vulkan engine: float weights, wherever they lie; quantized ones are refused.
#include "tests/engine/temp_dir.hpp"
#include "tests/engine/vulkan/support.hpp"
#include "tests/mlx/directory.hpp"

namespace flyball {
namespace {

using test::MlxTestDirectory;
using test::MlxTexts;
using test::RunModel;

TEST(VulkanMlx, RefusesAFormatWithoutKernels) {
  const MlxTexts texts{MlxTestDirectory()};
  const auto file = model::ModelFile::from_mlx(texts.files());
  ASSERT_TRUE(file) << file.error().message;
  const auto made = vulkan::make_vulkan_executor(**file, test::vulkan_options());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::model_unsupported);
  EXPECT_NE(made.error().message.find("no kernels for AFFINE4_G32"), std::string::npos)
      << made.error().message;
}

class VulkanMlxFloat : public test::VulkanTest {
 protected:
  // The same logits as the CPU engine's, of the model's own bytes and no others: norms and biases lie on the
  // heap, and what is between them is not the model's.
  static void expect_agreement(std::unique_ptr<model::ModelFile> file,
                               const vulkan::VulkanDeviceOptions& options, vulkan::WeightsIn in) {
    RunModel m;
    m.file = std::move(file);
    const auto tokens = test::random_tokens(37, m.vocab());
    const std::vector<std::uint32_t> blocks{5, 3, 60};
    auto cpu = test::cpu_executor(m);
    const auto want = test::run_step(*cpu, {{tokens, 0, blocks, true}}, m.vocab());
    auto device = test::with_kv(vulkan::make_vulkan_executor(*m.file, options), *m.file, kernels::DType::f16);
    const std::uint64_t between = 3 * sizeof(std::uint16_t) * MlxTestDirectory::kDim;  // norms, in the file
    EXPECT_LE(device->memory().weight_bytes, m.file->weight_bytes() + between);
    if (in != vulkan::WeightsIn::automatic) {
      EXPECT_EQ(device->statistics().weights_in, in);
    }
    const auto got = test::run_step(*device, {{tokens, 0, blocks, true}}, m.vocab());
    ASSERT_EQ(got.size(), 1U);
    EXPECT_LT(test::relative_error(got[0], want[0]), 2e-3);
  }
};

// Words cannot be read from odd bytes in place: such tensors are copied to where they can.
TEST_F(VulkanMlxFloat, AgreesWithTheCpuEngineWhereverTensorsLie) {
  for (const bool aligned : {false, true}) {
    const test::TempDir dir;
    auto file = test::open_float_mlx(dir.path(), aligned);
    ASSERT_TRUE(file) << file.error().message;
    const auto at = reinterpret_cast<std::uintptr_t>((*file)->weights().token_embedding.data);
    ASSERT_EQ(at % 8, aligned ? 0U : 1U);
    expect_agreement(std::move(*file), test::vulkan_options(), vulkan::WeightsIn::automatic);
  }
}

TEST_F(VulkanMlxFloat, AgreesWithTheCpuEngineOutOfMemory) {
  MlxTestDirectory d;
  d.make_float();
  d.aligned = true;
  const MlxTexts texts(d);
  for (const auto in : {vulkan::WeightsIn::shared, vulkan::WeightsIn::staged}) {
    auto file = model::ModelFile::from_mlx(texts.files());
    ASSERT_TRUE(file) << file.error().message;
    expect_agreement(std::move(*file), test::vulkan_options(in), in);
  }
}

// The file is read where it lies; what was made of it is copied, never imported.
TEST_F(VulkanMlxFloat, OnlyTheFilesPagesAreImported) {
  const test::TempDir dir;
  auto file = test::open_float_mlx(dir.path(), true);
  ASSERT_TRUE(file) << file.error().message;
  auto options = test::vulkan_options(vulkan::WeightsIn::file);
  if (!vulkan::Device::open(options.device).value()->facts().host_import)
    GTEST_SKIP() << "this device cannot read the host's pages";
  int imports = 0;
  options.device.interceptor = [&](vulkan::Call call) {
    imports += call == vulkan::Call::import ? 1 : 0;
    return 0;
  };
  expect_agreement(std::move(*file), options, vulkan::WeightsIn::file);
  EXPECT_EQ(imports, 1);
}

TEST_F(VulkanMlxFloat, OddTensorsCannotBeReadInTheFile) {
  const test::TempDir dir;
  const auto file = test::open_float_mlx(dir.path());
  ASSERT_TRUE(file) << file.error().message;
  const auto made = vulkan::make_vulkan_executor(**file, test::vulkan_options(vulkan::WeightsIn::file));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::unsupported_value);
  EXPECT_NE(made.error().message.find("multiples of 8"), std::string::npos) << made.error().message;
}

}  // namespace
}  // namespace flyball
