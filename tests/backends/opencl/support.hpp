// An OpenCL device for tests: whatever there is, software devices included. PoCL's own cache goes to a folder
// of the test, so that nothing a user has is touched.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "backends/opencl/opencl_device.hpp"
#include "backends/opencl/upload.hpp"
#include "tests/backends/model/run_model.hpp"
#include "tests/harness/kernel_caches.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::test {

inline opencl::DeviceOptions any_device() {
  opencl::DeviceOptions options;
  options.allow_processor = true;
  return options;
}

inline RunModel small_model(std::string_view shape = "dim=64,layers=1,heads=4,kv_heads=2,ffn=96,vocab=320") {
  return synthetic_model(kernels::DType::q8_0, shape);
}

inline bool has_device() {
  own_pocl_cache();
  static const bool has = opencl::Device::open(any_device()).has_value();
  return has;
}
// A GPU may choose a kernel by the number of rows, and its sums then run in another order.
inline bool device_is_a_gpu() {
  static const bool is = [] {
    const auto device = opencl::Device::open(any_device());
    return device && !(*device)->facts().processor;
  }();
  return is;
}

// Everything an engine does: open, load, reserve, a prompt with a copied block in a step that might be given
// up, a decoded token, its row of logits whole and cut.
inline Result<void> live_once(const model::ModelFile& file, const opencl::OpenClDeviceOptions& options) {
  auto executor = opencl::make_opencl_executor(file, options);
  if (!executor) return std::unexpected(std::move(executor.error()));
  if (auto ok = (*executor)->reserve_kv(graph::kv_layout(file.config()), 4); !ok)
    return std::unexpected(std::move(ok.error()));
  const std::vector<Token> prompt{1, 2, 3, 4, 5};
  const std::vector<std::uint32_t> table{0, 1};
  const device::BlockCopy copy{2, 3};
  const std::atomic<bool> never{false};
  for (std::uint32_t at = 0; at < 6; at += 5) {
    const device::StepSequence sequence{0, at == 0 ? 5U : 1U, at, table, true, at == 0 ? 0U : 3U, true};
    auto step = (*executor)->submit(
        {std::span(prompt).first(sequence.n_tokens), {&sequence, 1}, 0, at == 0 ? &never : nullptr},
        {&copy, at == 0 ? 1U : 0U});
    if (!step) return std::unexpected(std::move(step.error()));
    if (auto rows = (*executor)->wait(*step); !rows) return std::unexpected(std::move(rows.error()));
  }
  return {};
}

class OpenClTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "this machine has no OpenCL device";
  }
};

}  // namespace flyball::test
