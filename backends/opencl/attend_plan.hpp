// How attention is compiled for a device (kernels/opencl/attend.cl): a pure function of what the device says of
// itself, and where it then builds less than it said, of that.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/opencl/matmul_plan.hpp"

namespace flyball::opencl {

struct AttendPlan {
  std::uint32_t rows = 1;   // of a prompt that share a work-group
  std::uint32_t lanes = 1;  // work-items of a work-group; 1 on a processor
  std::uint32_t stage = 1;  // positions of a block that are in local memory at a time; divides the block
};

// group: query heads of a KV head. block: positions of a KV block, a power of two.
AttendPlan plan_attend(const MatmulDevice& device, std::uint32_t head_dim, std::uint32_t group,
                       std::uint32_t block) noexcept;
// Positions of a split of decode attention, of sequences of up to `positions`: long enough to hide its start,
// short enough that one stream spreads over a device. A processor's few cores are busy with the KV heads
// alone. Longer contexts get longer splits, so that the partial results stay small.
std::uint32_t attend_split(bool processor, std::uint64_t positions) noexcept;
// What to try where a kernel of this plan does not build: the one for rows of prompts, or any. nullopt: nothing
// asks for less.
std::optional<AttendPlan> smaller(AttendPlan plan, bool kernel_of_rows) noexcept;

}  // namespace flyball::opencl
