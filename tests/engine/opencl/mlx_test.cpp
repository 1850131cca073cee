// MLX directories on the OpenCL engine: float weights, wherever they lie; quantized ones are refused.
#include "tests/engine/opencl/executors.hpp"
#include "tests/mlx/directory.hpp"

namespace flyball {
namespace {

using test::MlxTestDirectory;
using test::MlxTexts;
using test::RunModel;

TEST(OpenClMlx, RefusesAFormatWithoutKernels) {
  const MlxTexts texts{MlxTestDirectory()};
  const auto file = model::ModelFile::from_mlx(texts.files());
  ASSERT_TRUE(file) << file.error().message;
  const auto made = opencl::make_opencl_executor(**file, test::opencl_options());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::model_unsupported);
  EXPECT_NE(made.error().message.find("no kernels for AFFINE4_G32"), std::string::npos)
      << made.error().message;
}

class OpenClMlxFloat : public test::OpenClTest {};

// safetensors promises no alignment: here every tensor begins at an odd byte of its mapping.
TEST_F(OpenClMlxFloat, AgreesWithTheCpuEngine) {
  const test::TempDir dir;
  RunModel m;
  auto file = test::open_float_mlx(dir.path());
  ASSERT_TRUE(file) << file.error().message;
  m.file = std::move(*file);
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(m.file->weights().token_embedding.data) % 2, 1U);
  const auto tokens = test::random_tokens(37, m.vocab());
  const std::vector<std::uint32_t> blocks{5, 3, 60};
  auto cpu = test::cpu_executor(m);
  auto device = test::opencl_executor(m);
  const auto want = test::run_step(*cpu, {{tokens, 0, blocks, true}}, m.vocab());
  const auto got = test::run_step(*device, {{tokens, 0, blocks, true}}, m.vocab());
  ASSERT_EQ(got.size(), 1U);
  EXPECT_LT(test::relative_error(got[0], want[0]), 2e-3);
}

}  // namespace
}  // namespace flyball
