// KV that goes from an OpenCL device to the disk and comes back.
#include "tests/backends/local/spill_cases.hpp"
#include "tests/backends/opencl/support.hpp"

namespace flyball::test {
namespace {

class SpillOnOpenCl : public SpillModel, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "this machine has no OpenCL device";
    SpillModel::SetUp();
    rounds_ = device_is_a_gpu();
  }
  static local::LocalBackendOptions plain() {
    auto o = options(GetParam(), 2);
    o.backend = "opencl";
    o.opencl = {any_device()};
    o.cache_dir = kernel_caches();
    return o;
  }
};

TEST_P(SpillOnOpenCl, ASessionReturnsAfterARestart) {
  expect_same_after_a_restart(plain());
}

TEST_P(SpillOnOpenCl, ASessionReturnsAfterEviction) {
  expect_same_after_eviction(plain());
}

INSTANTIATE_TEST_SUITE_P(KvTypes, SpillOnOpenCl, testing::Values("f16", "q8_0"),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace flyball::test
