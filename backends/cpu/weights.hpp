// A model's weights as the CPU kernels want them: matrices repacked once for the ISA into one allocation, or
// read in the file; experts in a cache of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/expert_cache.hpp"
#include "backends/device/memory.hpp"
#include "backends/device/thread_pool.hpp"
#include "backends/graph/load_progress.hpp"
#include "backends/graph/ops.hpp"
#include "backends/model/model_file.hpp"
#include "kernels/cpu/kernels.hpp"

namespace flyball::cpu {

class CpuWeights {
 public:
  // Packs on all threads; the file's pages of what was packed are given back. insufficient_memory.
  // expert_bytes_limit: what packed experts may take; 0: three quarters of what is free beside the other
  // weights.
  static Result<CpuWeights> load(const model::ModelFile& model, const kernels::cpu::Kernels& kernels,
                                 device::ThreadPool& pool, std::uint64_t expert_bytes_limit = 0,
                                 const graph::LoadProgress& progress = {});

  const CpuMatrix& matrix(graph::WeightRef ref) const noexcept;  // not an expert's, not the embedding table
  const float* vector(graph::WeightRef ref) const noexcept;      // a norm or a bias
  const model::Weight& embedding() const noexcept { return embedding_; }
  ExpertCache* experts() const noexcept { return experts_.get(); }  // null: a dense model
  // Held or read in place, the embedding table included.
  std::uint64_t bytes() const noexcept;
  // The bytes themselves: packed matrices and experts, and what is read in place in the file.
  std::vector<std::span<const std::byte>> held_memory() const;
  // For scratch: every matrix but the experts'; those without rows are none of this model's.
  std::span<const CpuMatrix> matrices() const noexcept { return matrices_; }

 private:
  static std::size_t index(graph::WeightRef ref) noexcept;

  device::Pages packed_;
  std::vector<CpuMatrix> matrices_;         // by index()
  std::vector<float> vectors_;              // one after the other
  std::vector<std::size_t> vectors_begin_;  // in vectors_, by index()
  model::Weight embedding_;
  std::vector<std::span<const std::byte>> in_place_;  // the embedding table, and what the ISA reads unpacked
  std::unique_ptr<ExpertCache> experts_;
  std::uint64_t bytes_ = 0;  // without experts
};

}  // namespace flyball::cpu
