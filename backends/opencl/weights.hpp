// A model's weights on the device, each matrix in the file's own layout: where the device is the host they
// are read in the mapping of the file, elsewhere they are uploaded.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/graph/ops.hpp"
#include "backends/model/model_file.hpp"
#include "backends/opencl/device.hpp"
#include "backends/opencl/upload.hpp"

namespace flyball::opencl {

struct DeviceMatrix {
  kernels::DType type = kernels::DType::f32;
  std::uint32_t rows = 0, cols = 0, experts = 1;  // [experts, rows, cols]
  bool of_experts = false;  // a role that only routed rows meet
  Memory buffer;
  std::uint64_t at = 0;  // byte of the buffer where the first row begins
  std::uint64_t row_bytes() const noexcept { return kernels::row_bytes(type, cols); }
};

class Weights {
 public:
  // in_place: read the host's bytes without a copy, where the device can. insufficient_memory, device_lost.
  static Result<Weights> load(Device& device, const model::ModelFile& model, bool in_place,
                              const UploadProgress& progress);

  const DeviceMatrix& matrix(graph::WeightRef ref) const noexcept;
  std::span<const DeviceMatrix> matrices() const noexcept { return matrices_; }
  // F32 vectors (norms, biases) lie in one buffer, at these offsets in values.
  const Memory& vectors() const noexcept { return vectors_; }
  std::uint32_t vector_at(graph::WeightRef ref) const noexcept;
  std::uint64_t bytes() const noexcept { return bytes_; }
  bool in_place() const noexcept { return in_place_; }

 private:
  std::vector<DeviceMatrix> matrices_;
  std::vector<std::uint32_t> index_;  // by layer and role: into matrices_, or an offset into vectors_
  Memory vectors_;
  std::uint64_t bytes_ = 0;
  bool in_place_ = false;
};

}  // namespace flyball::opencl
