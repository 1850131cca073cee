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

class VulkanMlxFloat : public test::VulkanTest {};

// Words cannot be read from odd bytes in place: such tensors are copied to where they can.
TEST_F(VulkanMlxFloat, AgreesWithTheCpuEngineWhereverTensorsLie) {
  const test::TempDir dir;
  RunModel m;
  auto file = test::open_float_mlx(dir.path());
  ASSERT_TRUE(file) << file.error().message;
  m.file = std::move(*file);
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(m.file->weights().token_embedding.data) % 2, 1U);
  const auto tokens = test::random_tokens(37, m.vocab());
  const std::vector<std::uint32_t> blocks{5, 3, 60};
  auto cpu = test::cpu_executor(m);
  const auto want = test::run_step(*cpu, {{tokens, 0, blocks, true}}, m.vocab());
  auto device = test::vulkan_executor(m);
  const auto got = test::run_step(*device, {{tokens, 0, blocks, true}}, m.vocab());
  ASSERT_EQ(got.size(), 1U);
  EXPECT_LT(test::relative_error(got[0], want[0]), 2e-3);
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
