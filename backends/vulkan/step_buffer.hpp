// What differs between steps of one shape, at addresses that recordings name: tokens, slots, rotations, block
// tables, the work of attention and its grids. The host writes it before a step is submitted, when the device
// has done with the step before.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backends/device/rope_args.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/vulkan/device.hpp"
#include "backends/vulkan/matmul_plan.hpp"

namespace flyball::vulkan {

struct OpsLimits {
  std::uint32_t step_tokens = 0, logit_rows = 0;
  std::uint32_t positions = 0;  // of one sequence
};

// How a step's rows attend to the KV cache.
struct AttendLayout {
  AttendPlan plan;
  std::uint32_t block_size = 0;
  std::uint32_t max_splits =
      0;  // of one row; one that needs more goes to the kernel that takes them in order
};

class StepBuffer {
 public:
  // The device and the model's shape outlive it.
  StepBuffer(Device& device, const model::ModelConfig& config, const OpsLimits& limits)
      : device_(device), config_(config), limits_(limits), rope_tables_(device::make_rope_tables(config)) {}
  // insufficient_memory, device_lost.
  Result<void> allocate();
  Result<void> reserve_tables(const AttendLayout& layout, std::uint32_t n_blocks);
  // insufficient_memory, device_lost: where sequences share blocks, all tables together may outgrow what
  // there is. internal: a sequence is longer than attention is planned for.
  Result<void> write(const graph::StepInputs& inputs);

  std::uint64_t bytes() const noexcept { return memory_.bytes() + tables_.bytes(); }
  // Counts up when recordings made before are void: the tables have moved.
  std::uint32_t generation() const noexcept { return generation_; }
  // Of the step written last.
  std::uint32_t wanted() const noexcept { return n_wanted_; }
  std::uint32_t asked() const noexcept { return n_asked_; }

  Address tokens_at() const noexcept { return tokens_.address; }
  Address slots_at() const noexcept { return slots_.address; }
  Address wanted_at() const noexcept { return wanted_.address; }
  Address asked_at() const noexcept { return asked_.address; }
  Address rotations_at(std::uint32_t table) const noexcept;
  Address tables_at() const noexcept { return tables_.address(); }
  Address row_work_at() const noexcept { return row_work_.address; }
  Address split_work_at() const noexcept { return split_work_.address; }
  enum class Grid : std::uint8_t { attend_rows, attend_split, attend_combine };
  // Which grids of the step written last have groups: a recording holds the dispatches of these and no other.
  using Grids = std::array<bool, 3>;
  const Grids& attends_by() const noexcept { return attends_by_; }
  const Memory& grids() const noexcept { return memory_; }
  std::uint64_t grid_at(Grid grid) const noexcept {  // bytes into grids()
    return grids_.address - memory_.address() + static_cast<std::uint64_t>(grid) * sizeof(Groups4);
  }

 private:
  // A part of the buffer.
  template <class T>
  struct Part {
    T* host = nullptr;
    Address address = 0;
  };
  struct Work {
    std::uint32_t first_row, n_rows, first_position, table_at;
  };
  struct Groups4 {
    std::uint32_t x, y, z, unused;
  };
  Result<void> room_for_tables(std::size_t blocks);
  Result<void> lay_out_attention(const graph::StepInputs& inputs);

  Device& device_;
  const model::ModelConfig& config_;
  OpsLimits limits_;
  const std::vector<device::RopeTable> rope_tables_;
  AttendLayout layout_;
  Memory memory_;
  Memory tables_;  // block ids of the step's sequences; grows
  Part<Token> tokens_;
  Part<std::uint32_t> slots_, wanted_, asked_;
  Part<float> rotations_;
  Part<Work> row_work_, split_work_;  // of prompts; of decode
  Part<Groups4> grids_;
  std::uint32_t n_wanted_ = 0, n_asked_ = 0, generation_ = 0;
  Grids attends_by_{};
};

}  // namespace flyball::vulkan
