#include "backends/opencl/matmul.hpp"

#include <string>

namespace flyball::opencl {
namespace {

constexpr std::uint32_t kLocal = 32;

Grid grid_of(const DeviceMatrix& w, std::uint32_t results) {
  Grid grid;
  grid.local = {kLocal, 1, 1};
  grid.global = {(w.rows + kLocal - 1) / kLocal * kLocal, results, 1};
  return grid;
}

}  // namespace

Result<Matmul> Matmul::make(Device& device, Programs& programs, const Weights& weights) {
  Matmul out;
  out.device_ = &device;
  constexpr std::string_view kFiles[] = {"dequantize", "matmul_plain"};
  for (const DeviceMatrix& w : weights.matrices()) {
    Kernels& made = out.plain_[static_cast<std::size_t>(w.type)];
    const std::string format = "-D FORMAT=" + std::to_string(static_cast<int>(w.type));
    if (w.of_experts && !made.experts.kernel) {
      constexpr std::string_view kExpertFiles[] = {"dequantize", "moe_matmul_plain"};
      auto experts = programs.kernel("moe_matmul_plain", kExpertFiles, format);
      if (!experts) return std::unexpected(std::move(experts.error()));
      made.experts = std::move(*experts);
    }
    if (made.store.kernel) continue;
    auto store = programs.kernel("matmul_plain", kFiles, format);
    if (!store) return std::unexpected(std::move(store.error()));
    made.store = std::move(*store);
    auto add = programs.kernel("matmul_plain", kFiles, format + " -D ADD=1");
    if (!add) return std::unexpected(std::move(add.error()));
    made.add = std::move(*add);
  }
  return out;
}

Result<void> Matmul::run_experts(std::uint32_t results, const Memory& x, std::uint32_t share,
                                 const DeviceMatrix& w, const Memory& experts, const Memory& y) const {
  return device_->run(plain_[static_cast<std::size_t>(w.type)].experts, grid_of(w, results), w.buffer,
                      cl_ulong{w.at}, cl_ulong{w.row_bytes()}, x, y, experts, share, w.rows, w.cols);
}

Result<void> Matmul::run(std::uint32_t n, const Memory& x, const DeviceMatrix& w, const Memory& y,
                         bool add) const {
  const Kernels& kernels = plain_[static_cast<std::size_t>(w.type)];
  return device_->run(add ? kernels.add : kernels.store, grid_of(w, n), w.buffer, cl_ulong{w.at},
                      cl_ulong{w.row_bytes()}, x, y, w.rows, w.cols);
}

}  // namespace flyball::opencl
