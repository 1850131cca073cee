// An OpenCL engine of a small model, as executor_runs.hpp makes the CPU's.
#pragma once

#include <memory>
#include <utility>

#include "tests/engine/executor_runs.hpp"
#include "tests/engine/opencl/support.hpp"

namespace flyball::test {

inline opencl::OpenClDeviceOptions opencl_options() {
  opencl::OpenClDeviceOptions options;
  options.device = any_device();
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

}  // namespace flyball::test
