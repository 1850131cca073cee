#include "backends/opencl/attend_plan.hpp"

#include <algorithm>
#include <bit>

namespace flyball::opencl {
namespace {

// Query vectors that share a tile of keys and values in prompts: what their accumulators leave of a
// work-group's registers and local memory.
constexpr std::uint32_t kMostQueries = 32;
constexpr std::uint32_t kLanes = 128;
constexpr std::uint64_t kSplitPositions = 64, kProcessorSplitPositions = 512, kMostSplits = 64;

}  // namespace

AttendPlan plan_attend(const MatmulDevice& device, std::uint32_t head_dim, std::uint32_t group,
                       std::uint32_t block) noexcept {
  AttendPlan plan;
  plan.rows = std::max(1U, kMostQueries / group);
  plan.lanes = device.processor ? 1 : std::bit_floor(std::clamp(device.max_work_group, 1U, kLanes));
  plan.stage = block;
  // Queries, a tile of keys and of values, scores, and the rows' books, all f32.
  const auto fits = [&] {
    const std::uint64_t queries = std::uint64_t{plan.rows} * group;
    return 4 * (queries * (head_dim + plan.stage + 7) + 2ULL * plan.stage * head_dim) <= device.local_bytes;
  };
  while (plan.rows > 1 && !fits()) plan.rows /= 2;
  while (plan.stage > 1 && !fits()) plan.stage /= 2;
  return plan;
}

std::uint32_t attend_split(bool processor, std::uint64_t positions) noexcept {
  const std::uint64_t shortest = processor ? kProcessorSplitPositions : kSplitPositions;
  const std::uint64_t shortests = (positions + kMostSplits * shortest - 1) / (kMostSplits * shortest);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, shortests) * shortest);
}

// Whether work-items or local memory are short nobody says: both give way.
std::optional<AttendPlan> smaller(AttendPlan plan, bool kernel_of_rows) noexcept {
  if (kernel_of_rows && plan.rows > 1) {
    plan.rows /= 2;
    return plan;
  }
  if (plan.lanes == 1 && plan.stage == 1) return std::nullopt;
  plan.lanes = std::max(1U, plan.lanes / 2);
  plan.stage = std::max(1U, plan.stage / 2);
  return plan;
}

}  // namespace flyball::opencl
