// MLX directories on the Vulkan engine: float and affine weights, read in the file or copied.
#include "tests/backends/graph/naive_forward.hpp"
#include "tests/backends/model/mlx/directory.hpp"
#include "tests/backends/vulkan/support.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::test {
namespace {

using vulkan::WeightsIn;

class VulkanMlx : public VulkanTest, public testing::WithParamInterface<bool> {
 protected:
  static bool affine() { return GetParam(); }
  // The reference's logits, of the model's own bytes and no others: norms and biases lie on the heap, and
  // what is between them is not the model's.
  static void expect_agreement(std::unique_ptr<model::ModelFile> file,
                               const vulkan::VulkanDeviceOptions& options) {
    RunModel m;
    m.file = std::move(file);
    const auto tokens = random_tokens(37, m.vocab());
    const auto device = with_kv(vulkan::make_vulkan_executor(*m.file, options), *m.file, kernels::DType::f16);
    const std::uint64_t between = 3 * sizeof(std::uint16_t) * MlxTestDirectory::kDim;  // norms, in the file
    EXPECT_LE(device->memory().weight_bytes, m.file->weight_bytes() + between);
    if (options.weights != WeightsIn::automatic) {
      EXPECT_EQ(device->statistics().weights_in, options.weights);
    } else if (device->facts().unified && device->facts().host_import) {
      EXPECT_EQ(device->statistics().weights_in, WeightsIn::file);
    }
    const auto got = run_step(*device, {{tokens, 0, {5, 3, 60}, true}}, m.vocab());
    ASSERT_EQ(got.size(), 1U);
    EXPECT_LT(relative_error(got[0], naive_forward(*m.file, tokens)), 2e-3);
  }
};

// safetensors promise no alignment, and MLX's own writer gives none.
TEST_P(VulkanMlx, GivesTheReferencesLogitsWhereverTensorsLie) {
  for (const bool aligned : {false, true}) {
    const TempDir dir;
    auto file = open_mlx(dir.path(), affine(), aligned);
    ASSERT_TRUE(file) << file.error().message;
    const auto at =
        reinterpret_cast<std::uintptr_t>((*file)->weights().of(model::WeightRole::token_embedding).data);
    ASSERT_EQ(at % 8, aligned ? 0U : 1U);
    expect_agreement(std::move(*file), vulkan_options());
  }
}

TEST_P(VulkanMlx, GivesTheReferencesLogitsOutOfMemory) {
  MlxTestDirectory d;
  affine() ? d.make_real() : d.make_float();
  const MlxTexts texts(d);
  for (const auto in : {WeightsIn::shared, WeightsIn::staged}) {
    auto file = model::ModelFile::from_mlx(texts.files());
    ASSERT_TRUE(file) << file.error().message;
    expect_agreement(std::move(*file), vulkan_options(in));
  }
}

// The file is read where it lies; what was made of it is copied, never imported.
TEST_P(VulkanMlx, OnlyTheFilesPagesAreImported) {
  const TempDir dir;
  auto file = open_mlx(dir.path(), affine());
  ASSERT_TRUE(file) << file.error().message;
  auto options = vulkan_options(WeightsIn::file);
  if (!vulkan::Device::open(options.device).value()->facts().host_import)
    GTEST_SKIP() << "this device cannot read the host's pages";
  int imports = 0;
  options.device.interceptor = [&](vulkan::Call call) {
    imports += call == vulkan::Call::import ? 1 : 0;
    return 0;
  };
  expect_agreement(std::move(*file), options);
  EXPECT_EQ(imports, 1);
}

INSTANTIATE_TEST_SUITE_P(Weights, VulkanMlx, testing::Bool(),
                         [](const auto& i) { return std::string(i.param ? "affine" : "float"); });

}  // namespace
}  // namespace flyball::test
