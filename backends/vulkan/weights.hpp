// A model's weights as the device reads them: the file's own bytes, row after row, not repacked. Where the
// device can, they are the file's mapped pages themselves; else they are copied once, as they are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/graph/ops.hpp"
#include "backends/model/model_file.hpp"
#include "backends/vulkan/device.hpp"

namespace flyball::vulkan {

struct DeviceWeight {
  kernels::DType type = kernels::DType::f32;
  std::uint32_t rows = 0, cols = 0, experts = 1;  // [experts, rows, cols]
  Address address = 0;
  std::uint32_t row_bytes() const noexcept {
    return static_cast<std::uint32_t>(kernels::row_bytes(type, cols));
  }
  std::uint64_t matrix_bytes() const noexcept { return std::uint64_t{rows} * row_bytes(); }
};

class Weights {
 public:
  // The model must outlive the weights. insufficient_memory, device_lost; unsupported_value: this device
  // cannot what `in` demands.
  static Result<Weights> load(Device& device, const model::ModelFile& model, WeightsIn in,
                              const graph::LoadProgress& progress);

  const DeviceWeight& operator[](graph::WeightRef ref) const noexcept;
  std::span<const DeviceWeight> all() const noexcept { return weights_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  WeightsIn in() const noexcept { return in_; }  // never automatic

 private:
  struct Window;
  static std::vector<Window> windows_of(const model::ModelFile& model,
                                        std::span<const model::Weight* const> weights,
                                        std::vector<std::size_t>& window_of);
  Result<void> import(Device& device, std::span<Window> windows);
  // What was not imported.
  Result<void> copy(Device& device, std::span<Window> windows, const graph::LoadProgress& progress);

  std::vector<Memory> windows_;
  std::vector<DeviceWeight> weights_;
  std::vector<std::uint32_t> index_;  // by layer and role: into weights_
  std::uint64_t bytes_ = 0;
  WeightsIn in_ = WeightsIn::automatic;
};

}  // namespace flyball::vulkan
