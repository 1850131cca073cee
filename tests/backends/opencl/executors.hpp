// An OpenCL engine of a small model, as executor_runs.hpp makes the CPU's.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/backends/cpu/executor_runs.hpp"
#include "tests/backends/opencl/support.hpp"

namespace flyball::opencl {

inline void PrintTo(const Pretence& pretence, std::ostream* out) {
  *out << (pretence.gpu ? "as a GPU" : "itself");
  if (pretence.kernel_items != 0) *out << ", groups of " << pretence.kernel_items << " items";
  if (pretence.local_bytes != 0) *out << ", " << pretence.local_bytes << " bytes of local memory";
}

}  // namespace flyball::opencl

namespace flyball::test {

inline opencl::OpenClDeviceOptions opencl_options(const opencl::Pretence& pretence = {}) {
  opencl::OpenClDeviceOptions options;
  options.devices = {any_device()};
  options.devices[0].pretence = pretence;
  options.program_cache = shared_programs();
  options.max_step_tokens = kRunStepTokens;
  options.max_logit_rows = kRunSequences;
  return options;
}

inline std::unique_ptr<opencl::OpenClExecutor> opencl_executor(
    const RunModel& m, kernels::DType kv_type = kernels::DType::f16,
    const opencl::OpenClDeviceOptions& options = opencl_options()) {
  return with_kv(opencl::make_opencl_executor(*m.file, options), *m.file, kv_type);
}

// The contract of rows computed beside others, or in other chunks: on a processor bit for bit. A GPU may
// choose a kernel by the number of rows, and its sums then run in another order: equal but for the rounding
// of f32 sums and f16 KV, and the same token is the likeliest.
inline void expect_same_row(const opencl::OpenClExecutor& device, const std::vector<float>& got,
                            const std::vector<float>& expected) {
  if (device.parts()[0].facts.processor) {
    EXPECT_EQ(got, expected);
    return;
  }
  EXPECT_LT(relative_error(got, expected), 2e-3);
  EXPECT_EQ(std::ranges::max_element(got) - got.begin(),
            std::ranges::max_element(expected) - expected.begin());
}

// What tests have the device be: itself, and, for machines without a GPU, one: other kernels, work-groups.
inline constexpr opencl::Pretence kItself{}, kAsGpu{.gpu = true};

inline std::string device_name(const opencl::Pretence& pretence) {
  return pretence.gpu ? "as_gpu" : "itself";
}

}  // namespace flyball::test
