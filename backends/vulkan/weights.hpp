// A model's weights as the device reads them: the file's own bytes, row after row, not repacked. Where the
// device can, they are the file's mapped pages themselves, wherever in them a tensor begins; else they are
// copied once, to where whole words can be read. What is no part of a file (an MLX directory's norms, widened
// to F32) is copied in any case.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/graph/ops.hpp"
#include "backends/model/model_file.hpp"
#include "backends/vulkan/device.hpp"
#include "backends/vulkan/matmul_plan.hpp"
#include "backends/vulkan/read_ahead.hpp"

namespace flyball::vulkan {

struct DeviceWeight {
  WeightFormat format;
  std::uint32_t rows = 0, cols = 0, experts = 1;  // [experts, rows, cols]
  Address address = 0;                            // of an affine type that of its AffineMatrix
  std::uint32_t row_bytes() const noexcept {
    return static_cast<std::uint32_t>(kernels::row_bytes(format.type, cols));
  }
};

class Weights {
 public:
  // Where a copy is best made, and whether it pays to try without one.
  static WeightsIn copied(const DeviceFacts& facts) noexcept;
  static bool in_place(const DeviceFacts& facts, const model::ModelFile& model) noexcept;
  // The model must outlive the weights. Those that lie together become memories of up to `window` bytes.
  // insufficient_memory, device_lost; unsupported_value: this device cannot what `in`, which is not
  // automatic, demands.
  static Result<Weights> load(Device& device, const model::ModelFile& model, WeightsIn in,
                              std::uint64_t window, const graph::LoadProgress& progress);

  const DeviceWeight& operator[](graph::WeightRef ref) const noexcept;
  std::span<const DeviceWeight> all() const noexcept { return weights_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  WeightsIn in() const noexcept { return in_; }  // never automatic

 private:
  struct Piece;
  // Each stretch of the file is one memory; `begins` are their first bytes.
  Result<void> import(Device& device, const model::ModelFile& model, std::span<Piece* const> pieces,
                      std::uint64_t window, std::vector<const std::byte*>& begins);
  // Pages that a driver takes and cannot read fail the first submission that reads them.
  Result<void> read_imported(Device& device, std::span<const std::byte* const> begins) const;
  Result<void> copy(Device& device, std::span<Piece* const> pieces, Place place, std::uint64_t window,
                    const graph::LoadProgress& progress);
  Result<void> describe(Device& device, const model::ModelFile& model, std::span<const Piece> pieces);

  std::vector<Memory> memories_;  // stretches of the file, or what was copied
  Memory affine_;                 // an AffineMatrix for each matrix of such a type
  std::vector<DeviceWeight> weights_;
  std::vector<std::uint32_t> index_;  // by layer and role: into weights_
  std::uint64_t bytes_ = 0;
  WeightsIn in_ = WeightsIn::shared;
  ReadAhead read_ahead_;  // of imported stretches, where they all fit what memory there is
};

}  // namespace flyball::vulkan
