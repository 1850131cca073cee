// Requests that share KV on a Vulkan device: cold equals prefix hit, a copied block equals a computed one,
// before equals after preemption, bit for bit, with a cache of each type.
#include "tests/backends/local/sharing_cases.hpp"
#include "tests/backends/vulkan/support.hpp"

namespace flyball::test {
namespace {

class SharingOnVulkan : public SharingModel, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!has_vulkan_device()) GTEST_SKIP() << "this machine has no Vulkan device that the engine can use";
    rounds_ = vulkan_device_is_a_gpu();
  }
  static std::unique_ptr<Backend> make(std::uint32_t sequences, std::uint32_t blocks = 0,
                                       std::uint32_t step_tokens = 64) {
    auto o = options(GetParam(), sequences, blocks, step_tokens);
    o.backend = "vulkan";
    o.vulkan = any_vulkan_device();
    o.cache_dir = kernel_caches();
    return make_backend(o);
  }
};

TEST_P(SharingOnVulkan, ColdEqualsPrefixHit) {
  expect_cold_equals_prefix_hit(*make(4));
}

TEST_P(SharingOnVulkan, ForcedTokensEqualComputedOnes) {
  expect_forced_equals_computed(*make(4), 11);
}

TEST_P(SharingOnVulkan, ACopiedBlockEqualsAComputedOne) {
  expect_copied_equals_computed(*make(1), *make(6));
}

TEST_P(SharingOnVulkan, BeforeEqualsAfterPreemption) {
  expect_before_equals_after_preemption(*make(1), *make(4, kTightBlocks, 7));
}

INSTANTIATE_TEST_SUITE_P(KvTypes, SharingOnVulkan, testing::Values("f16", "q8_0"),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace flyball::test
