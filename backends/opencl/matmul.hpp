// y = x * w on the device: which kernel runs for a weight's format and a number of rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "backends/opencl/programs.hpp"
#include "backends/opencl/weights.hpp"

namespace flyball::opencl {

class Matmul {
 public:
  // Builds the kernels of the formats that the model has. model_unavailable.
  static Result<Matmul> make(Device& device, Programs& programs, const Weights& weights);

  // y[n, w.rows] = x[n, w.cols] * w, or y += where `add`. device_lost.
  Result<void> run(std::uint32_t n, const Memory& x, const DeviceMatrix& w, const Memory& y, bool add) const;
  // y[i] = x[i / share] * w[experts[i]] for `results` rows of y. device_lost.
  Result<void> run_experts(std::uint32_t results, const Memory& x, std::uint32_t share, const DeviceMatrix& w,
                           const Memory& experts, const Memory& y) const;

 private:
  Device* device_ = nullptr;
  struct Kernels {
    Kernel store, add, experts;
  };
  std::array<Kernels, std::size(kernels::kAllDTypes)> plain_;  // by type
};

}  // namespace flyball::opencl
