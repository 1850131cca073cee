// One part of a model on one OpenCL device: its weights, its KV cache and the ops over them. A whole model is
// one stage; over several devices the stages are a pipeline (opencl_device.cpp).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/device/executor.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/opencl/opencl_ops.hpp"
#include "backends/opencl/tuning.hpp"

namespace flyball::opencl {

class Stage {
 public:
  // Loads nothing yet. Model and options outlive it.
  Stage(const model::ModelFile& model, const OpenClDeviceOptions& options, std::shared_ptr<Device> device,
        const graph::ModelPart& part);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  // Precondition: at_rest() was asked. Where it said no this must not be destroyed at all.
  ~Stage();

  // model_unsupported (a kernel that this device never builds), model_unavailable, insufficient_memory,
  // unsupported_value, device_lost.
  Result<void> load(const graph::LoadProgress& progress);
  // Of the whole model's layout: it takes its layers' share.
  Result<void> reserve_kv(const graph::KvLayout& layout, std::uint32_t n_blocks);

  // ---- a step ---------------------------------------------------------------------------------------------
  // begin(), then the rows of the stage before, then submit(), which reads them and the stage's own memory
  // alone.

  // Waits for the last step, if nobody has, and enqueues the copies.
  Result<void> begin(std::span<const device::BlockCopy> copies);
  // Where the stage before puts its residual rows, [rows, dim]: memory pinned for this device.
  std::span<std::byte> inbox(std::size_t rows) noexcept;
  // Enqueues the part, or only its first layer with what stands around it (a warm-up). cancelled: `stop`, if
  // there is one, became true, and no more was enqueued than the layer that runs and the next.
  Result<void> submit(const graph::StepInputs& inputs, bool first_layer, const std::atomic<bool>* stop);
  // Waits for all that was enqueued, and hands over what of it is wanted.
  Result<void> read(graph::Buffer from, std::uint64_t at, std::span<std::byte> to);
  Result<void> wait();

  // The part's share of whole blocks (device::BlockRead), between steps.
  Result<void> read_blocks(std::span<const device::BlockRead> blocks);
  Result<void> write_blocks(std::span<const device::BlockWrite> blocks);

  // Whether the device touches nothing of the host's any more (Device::at_rest).
  bool at_rest() noexcept { return device_->at_rest(); }
  // Keeps what was compiled. After a step, because some drivers finish compiling at the first launch.
  void store_programs();

  const Device& device() const noexcept { return *device_; }
  const graph::ModelPart& part() const noexcept { return part_; }
  graph::MemoryPlan memory() const;
  const Programs& programs() const noexcept { return programs_; }
  const Weights& weights() const noexcept { return weights_; }
  const Matmul& products() const noexcept { return ops_->products(); }

 private:
  void load_tuning_table();
  // Blocks that are moved at once.
  Result<std::size_t> stage_blocks();
  // Where the part's keys, and its values, begin in the bytes of a block.
  std::array<std::uint64_t, 2> places(std::uint64_t block_bytes) const noexcept;
  Result<void> keep_pace(Handle<cl_event>& before_last);

  const model::ModelFile& model_;
  const OpenClDeviceOptions& options_;
  const std::shared_ptr<Device> device_;
  const graph::ModelPart part_;
  Programs programs_;
  Weights weights_;
  TuningTable tuning_;
  std::unique_ptr<OpenClOps> ops_;
  Device::Pinned inbox_;           // of a part that does not embed
  Memory staging_;                 // of blocks on their way, on the device
  std::vector<std::byte> staged_;  // and in the host's memory, where an abandoned device may still write
  std::uint32_t stored_ = 0;       // programs compiled when the cache was last written
};

}  // namespace flyball::opencl
