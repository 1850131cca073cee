// A model's weights as the CPU kernels want them: repacked once for the ISA into one allocation, or read in
// the file.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/memory.hpp"
#include "backends/cpu/thread_pool.hpp"
#include "backends/graph/ops.hpp"
#include "backends/model/model_file.hpp"
#include "kernels/cpu/kernels.hpp"

namespace flyball::cpu {

struct CpuMatrix {
  kernels::DType type = kernels::DType::f32;
  std::uint32_t rows = 0, cols = 0;
  const void* data = nullptr;  // packed, or the file's bytes where the ISA reads them in place
};

class CpuWeights {
 public:
  // Packs on all threads; the file's pages of what was packed are given back. insufficient_memory.
  static Result<CpuWeights> load(const model::ModelFile& model, const kernels::cpu::Kernels& kernels,
                                 ThreadPool& pool);

  const CpuMatrix& matrix(graph::WeightRef ref) const noexcept;
  const float* norm(graph::WeightRef ref) const noexcept;  // [dim]
  const model::Weight& embedding() const noexcept { return embedding_; }
  std::uint64_t bytes() const noexcept {
    return bytes_;
  }  // held or read in place, the embedding table included
  // Widest activation row of each matrix, for scratch.
  std::span<const CpuMatrix> matrices() const noexcept { return matrices_; }

 private:
  Pages packed_;
  std::vector<CpuMatrix> matrices_;  // 7 a layer, then the output
  std::vector<float> norms_;         // 2 a layer, then the output's: [dim] each
  std::uint32_t dim_ = 0, n_layers_ = 0;
  model::Weight embedding_;
  std::uint64_t bytes_ = 0;
};

}  // namespace flyball::cpu
