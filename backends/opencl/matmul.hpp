// y = x * w on the device: turns plans (matmul_plan.hpp) into kernels, built once, and dispatches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "backends/opencl/matmul_plan.hpp"
#include "backends/opencl/programs.hpp"
#include "backends/opencl/tuning.hpp"
#include "backends/opencl/weights.hpp"

namespace flyball::opencl {

// Which expert each (row, use) goes to, and the same sorted by expert for those who multiply expert by
// expert.
struct ExpertChoice {
  Memory ids;      // [pairs]
  Memory offsets;  // [n_experts + 1]
  Memory order;    // [pairs]
  std::uint32_t n_experts = 0;
};

MatmulDevice matmul_device(const DeviceFacts& facts) noexcept;

class Matmul {
 public:
  struct Product {
    const DeviceMatrix* w;
    const Memory* y;
  };

  // Builds every kernel that a step may need, and runs each once: some drivers finish compiling there. Where the
  // device does not build one, with smaller work-groups: its compiler may want more registers or local memory
  // than the device's own limits tell. References outlive it. model_unsupported, model_unavailable,
  // insufficient_memory, device_lost.
  static Result<std::unique_ptr<Matmul>> make(Device& device, Programs& programs, const Weights& weights,
                                              std::uint32_t step_tokens, std::uint32_t experts_used,
                                              TuningTable tuning);

  // y[n, w.rows] = x[n, w.cols] * w for each product, or y += where `add`. device_lost.
  Result<void> run(std::uint32_t n, const Memory& x, std::span<const Product> products, bool add);
  // Completes a choice whose ids are there, for run_experts() of as many pairs.
  Result<void> group(std::uint32_t pairs, const ExpertChoice& choice);
  // y[i] = x[i / per_row] * w[expert of pair i].
  Result<void> run_experts(std::uint32_t pairs, const Memory& x, std::uint32_t per_row, const DeviceMatrix& w,
                           const ExpertChoice& choice, const Memory& y);

  // Products planned so far, and those of them by what `flyball tune` found.
  std::uint32_t planned() const noexcept { return static_cast<std::uint32_t>(planned_.size()); }
  std::uint32_t tuned() const noexcept { return tuned_; }

 private:
  struct Dispatch {
    const Kernel* kernel = nullptr;
    Grid grid;
    bool grouped = false;
  };

  Matmul(Device& device, Programs& programs, TuningTable tuning);
  const MatmulTuning& tuning_of(kernels::DType type, std::uint32_t rows, std::uint32_t cols, RowClass c);
  Result<void> warm_up(const Weights& weights, std::uint32_t step_tokens, std::uint32_t experts_used);
  // ran: kernels that have run once; those that run here are added.
  Result<void> warm_up_experts(const DeviceMatrix& w, std::uint32_t most_pairs, const Memory& x,
                               std::set<const Kernel*>& ran);
  Result<Dispatch> built(const MatmulPlan& plan);
  Result<Dispatch> product_dispatch(std::uint32_t n, kernels::DType type, std::span<const std::uint32_t> rows,
                                    std::uint32_t cols, bool add);
  Result<Dispatch> expert_dispatch(std::uint32_t pairs, const DeviceMatrix& w);

  Device& device_;
  Programs& programs_;
  MatmulDevice shape_;
  const TuningTable tuning_;
  std::string_view not_built_;  // the kernel that the device did not build
  std::uint32_t group_items_ = 1;
  std::uint32_t tuned_ = 0;
  std::map<std::string, Kernel, std::less<>> kernels_;        // by name and options
  std::map<std::array<std::uint32_t, 6>, Dispatch> planned_;  // by what was asked: planning writes text
};

}  // namespace flyball::opencl
