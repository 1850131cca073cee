// A model's weights on the device: the embedding table as the file has it, every matrix in row groups
// (kernels/formats/row_groups.hpp). Where the device is the host, it reads pages of this process; elsewhere
// the bytes are uploaded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/device/memory.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/model/model_file.hpp"
#include "backends/opencl/device.hpp"
#include "backends/opencl/tuning.hpp"
#include "backends/opencl/upload.hpp"

namespace flyball::opencl {

struct DeviceMatrix {
  kernels::DType type = kernels::DType::f32;
  std::uint32_t rows = 0, cols = 0, experts = 1;  // [experts, rows, cols]
  bool of_experts = false;                        // a role that only routed rows meet
  bool added = false;                             // what it gives is added to the residual
  Memory buffer;
  std::uint64_t expert_bytes = 0;  // from one expert's matrix to the next
};

// The embedding table, in the file's own layout.
struct DeviceTable {
  kernels::DType type = kernels::DType::f32, scale_type = kernels::DType::f32;
  std::uint32_t cols = 0;
  std::uint64_t scale_row_bytes = 0;  // of affine types
  Memory buffer;
  // Bytes of the buffer where the rows begin, and of affine types their scales and biases.
  std::uint64_t at = 0, scales_at = 0, biases_at = 0;
};

// The shapes of a model's matrices, each once, those it reads most bytes of first.
std::vector<MatrixShape> matrix_shapes(const model::ModelFile& model);

class Weights {
 public:
  // Those of one part. in_place: the device reads this process's memory, and the file's mapping; the model
  // must outlive the weights. insufficient_memory, device_lost.
  static Result<Weights> load(Device& device, const model::ModelFile& model, const graph::ModelPart& part,
                              bool in_place, const graph::LoadProgress& progress);

  // Of what the part has; not the embedding table.
  const DeviceMatrix& matrix(graph::WeightRef ref) const noexcept;
  const DeviceTable& embedding() const noexcept { return embedding_; }  // of a part that embeds
  std::span<const DeviceMatrix> matrices() const noexcept { return matrices_; }
  // F32 vectors (norms, biases) lie in one buffer, at these offsets in values.
  const Memory& vectors() const noexcept { return vectors_; }
  std::uint32_t vector_at(graph::WeightRef ref) const noexcept;
  std::uint64_t bytes() const noexcept { return bytes_; }
  bool in_place() const noexcept { return in_place_; }

 private:
  struct Entry;
  Result<void> load_vectors(Device& device, std::span<const Entry> entries);
  Result<void> load_in_place(Device& device, const model::ModelFile& model, std::span<const Entry> entries,
                             const graph::LoadProgress& progress);
  void describe_table(const model::Weight& table) noexcept;
  Result<void> load_by_upload(Device& device, std::span<const Entry> entries,
                              const graph::LoadProgress& progress);

  device::Pages packed_;  // in place: what the matrices' buffers are over
  std::vector<DeviceMatrix> matrices_;
  DeviceTable embedding_;
  std::vector<std::uint32_t> index_;  // by layer and role: into matrices_, or an offset into vectors_
  Memory vectors_;
  std::uint64_t bytes_ = 0;
  bool in_place_ = false;
};

}  // namespace flyball::opencl
