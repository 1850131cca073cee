// MLX directories on the OpenCL engine: float and affine weights, packed in this process or uploaded.
#include "tests/backends/graph/naive_forward.hpp"
#include "tests/backends/model/mlx/directory.hpp"
#include "tests/backends/opencl/executors.hpp"

namespace flyball::test {
namespace {

class OpenClMlx : public OpenClTest, public testing::WithParamInterface<bool> {};

// safetensors promise no alignment: here every tensor begins at an odd byte of its mapping.
TEST_P(OpenClMlx, TheSameWhereverTensorsLie) {
  const TempDir dir;
  RunModel m;
  auto file = open_mlx(dir.path(), GetParam());
  ASSERT_TRUE(file) << file.error().message;
  m.file = std::move(*file);
  ASSERT_EQ(
      reinterpret_cast<std::uintptr_t>(m.file->weights().of(model::WeightRole::token_embedding).data) % 2,
      1U);
  const auto tokens = random_tokens(37, m.vocab());
  const auto want = naive_forward(*m.file, tokens);
  for (const bool upload : {false, true}) {
    auto options = opencl_options();
    options.upload = upload;
    const auto device = opencl_executor(m, kernels::DType::f16, options);
    const auto got = run_step(*device, {{tokens, 0, {5, 3, 60}, true}}, m.vocab());
    ASSERT_EQ(got.size(), 1U);
    EXPECT_LT(relative_error(got[0], want), 2e-3) << upload;
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, OpenClMlx, testing::Bool(),
                         [](const auto& i) { return std::string(i.param ? "affine" : "float"); });

}  // namespace
}  // namespace flyball::test
