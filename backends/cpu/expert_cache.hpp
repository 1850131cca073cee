// The experts of a mixture, packed for the ISA: as many as memory holds. Where all fit they are packed at
// load. Where not, an expert is read from the file and packed when a token is routed to it, and the one that
// was needed longest ago gives way: experts nobody is routed to are never read.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/cpu_matrix.hpp"
#include "backends/device/memory.hpp"
#include "backends/device/thread_pool.hpp"
#include "backends/graph/ops.hpp"
#include "backends/model/model_file.hpp"
#include "kernels/cpu/kernels.hpp"

namespace flyball::cpu {

class ExpertCache {
 public:
  // References outlive the cache. bytes_limit: what packed experts may take; 0: three quarters of what is
  // free. loaded: told of bytes of the file that were packed. insufficient_memory where the experts of one
  // layer do not fit.
  static Result<std::unique_ptr<ExpertCache>> make(const model::ModelFile& model,
                                                   const kernels::cpu::Kernels& kernels,
                                                   device::ThreadPool& pool, std::uint64_t bytes_limit,
                                                   const std::function<void(std::uint64_t)>& loaded = {});
  static std::uint64_t file_bytes(const model::ModelFile& model) noexcept;  // of all experts

  // Packs those of `layer` that are not there, on all threads. They stay until another layer's are required.
  // Precondition: distinct, at most n_experts.
  void require(std::uint32_t layer, std::span<const std::uint32_t> experts);
  // Precondition: required, and no other layer since.
  CpuMatrix matrix(graph::WeightRef ref, std::uint32_t expert) const noexcept;
  kernels::DType type(graph::WeightRef ref) const noexcept;  // of every expert of the layer
  // The matrices of an expert, of every layer, for scratch.
  std::span<const CpuMatrix> shapes() const noexcept { return shapes_; }

  std::uint64_t bytes() const noexcept { return packed_.size(); }
  std::span<const std::byte> held_memory() const noexcept { return {packed_.data(), packed_.size()}; }
  std::uint64_t packed_experts() const noexcept { return n_packed_; }  // since it was made

 private:
  static constexpr std::uint32_t kNone = ~0U;
  static constexpr std::size_t kMatrices = 3;  // gate, up, down
  struct Slot {
    std::uint32_t owner = kNone;  // layer * n_experts + expert
    std::uint64_t used = 0;       // when, by clock_
  };
  // Where each of a layer's matrices begins in a slot.
  using Layer = std::array<std::size_t, kMatrices>;

  ExpertCache(const model::ModelFile& model, const kernels::cpu::Kernels& kernels, device::ThreadPool& pool)
      : model_(model), kernels_(kernels), pool_(pool), n_experts_(model.config().n_experts) {}
  const model::Weight& file_weight(graph::WeightRef ref) const noexcept;
  std::uint32_t take_slot() noexcept;  // the one needed longest ago
  void pack_missing(std::uint32_t layer);

  const model::ModelFile& model_;
  const kernels::cpu::Kernels& kernels_;
  device::ThreadPool& pool_;
  std::uint32_t n_experts_;
  std::vector<Layer> layers_;
  std::vector<CpuMatrix> shapes_;
  std::size_t slot_bytes_ = device::kAlignment;  // the largest layer's expert; never 0
  device::Pages packed_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> slot_of_;  // [layers, experts] or kNone
  // Scratch of require(), reserved for n_experts.
  std::vector<std::uint32_t> missing_;
  std::vector<PackJob> jobs_;
  std::uint64_t clock_ = 0, n_packed_ = 0;
};

}  // namespace flyball::cpu
