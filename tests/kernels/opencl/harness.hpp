// The OpenCL kernels without the engine around them: the first device of this machine, programs from the
// source tree, and plans run over buffers. Shared by tests and benchmarks; errors of the API end the program.
#pragma once

#define CL_HPP_ENABLE_EXCEPTIONS
#define CL_HPP_TARGET_OPENCL_VERSION 120
#define CL_HPP_MINIMUM_OPENCL_VERSION 120
#include <CL/opencl.hpp>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/opencl/matmul_plan.hpp"
#include "kernels/formats/row_groups.hpp"

namespace flyball::opencl::test {

class Harness {
 public:
  // Null: no loader's driver, no device.
  static std::unique_ptr<Harness> open() {
    std::vector<cl::Platform> platforms;
    try {
      cl::Platform::get(&platforms);
      for (const cl::Platform& platform : platforms) {
        std::vector<cl::Device> devices;
        platform.getDevices(CL_DEVICE_TYPE_ALL, &devices);
        if (!devices.empty()) return std::unique_ptr<Harness>(new Harness(devices.front()));
      }
    } catch (const cl::Error& error) {
      if (error.err() != CL_DEVICE_NOT_FOUND && error.err() != -1001) throw;  // -1001: no platform
    }
    return nullptr;
  }

  const cl::Context& context() const { return context_; }
  const cl::CommandQueue& queue() const { return queue_; }
  const MatmulDevice& facts() const { return facts_; }
  std::string name() const { return device_.getInfo<CL_DEVICE_NAME>(); }
  std::uint32_t compute_units() const { return device_.getInfo<CL_DEVICE_MAX_COMPUTE_UNITS>(); }

  cl::Kernel kernel(const std::vector<std::string_view>& files, std::string_view kernel,
                    const std::string& options) {
    std::string text;
    for (const std::string_view file : files) text += source(file);
    cl::Program& program = programs_[text + options];
    if (!program()) {
      program = cl::Program(context_, text);
      try {
        program.build(device_, options.c_str());
      } catch (const cl::Error&) {
        throw std::runtime_error(std::string(kernel) + ": " +
                                 program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device_));
      }
    }
    return cl::Kernel(program, std::string(kernel).c_str());
  }

  template <class... Args>
  void run(const MatmulPlan& plan, const Args&... args) {
    run(kernel(plan.files, plan.kernel, plan.options), plan, args...);
  }
  template <class... Args>
  void run(cl::Kernel k, const MatmulPlan& plan, const Args&... args) {
    cl_uint i = 0;
    (k.setArg(i++, args), ...);
    queue_.enqueueNDRangeKernel(k, cl::NullRange, cl::NDRange(plan.global[0], plan.global[1]),
                                cl::NDRange(plan.local[0], plan.local[1]));
  }

 private:
  explicit Harness(const cl::Device& device)
      : device_(device), context_(device), queue_(context_, device), facts_(facts_of(device)) {}

  static MatmulDevice facts_of(const cl::Device& d) {
    return {.processor = (d.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_CPU) != 0,
            .vector_floats = d.getInfo<CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT>(),
            .max_work_group = static_cast<std::uint32_t>(d.getInfo<CL_DEVICE_MAX_WORK_GROUP_SIZE>()),
            .local_bytes = d.getInfo<CL_DEVICE_LOCAL_MEM_SIZE>()};
  }
  static std::string source(std::string_view name) {
    const std::string root = FLYBALL_SOURCE_DIR "/kernels/";
    const std::string path = name == "format_table" ? root + "formats/format_table.h"
                                                    : root + "opencl/" + std::string(name) + ".cl";
    std::ifstream in(path);
    if (!in) throw std::runtime_error("no " + path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  cl::Device device_;
  cl::Context context_;
  cl::CommandQueue queue_;
  MatmulDevice facts_;
  std::map<std::string, cl::Program> programs_;  // by text and options
};

inline std::vector<std::uint8_t> grouped(kernels::DType type, std::uint32_t rows, std::uint32_t cols,
                                         const kernels::SourceRows& file) {
  std::vector<std::uint8_t> out(kernels::grouped_bytes(kGroupRows, type, rows, cols));
  kernels::group_rows(kGroupRows, type, rows, cols, file, out.data(), 0, rows);
  return out;
}

}  // namespace flyball::opencl::test
