// A weight matrix as the CPU kernels read it, and packing on all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/device/thread_pool.hpp"
#include "kernels/cpu/kernels.hpp"

namespace flyball::cpu {

struct CpuMatrix {
  kernels::DType type = kernels::DType::f32;
  std::uint32_t rows = 0, cols = 0;
  const void* data = nullptr;  // packed, or the file's bytes where the ISA reads them in place
};

struct PackJob {
  kernels::SourceRows from;  // in the file's layout
  std::byte* to = nullptr;   // of kernels.packed_bytes()
};
// Matrices of one shape.
void pack_matrices(const kernels::cpu::Kernels& kernels, device::ThreadPool& pool, const CpuMatrix& shape,
                   std::span<const PackJob> jobs);
// Gives the pages of a file's matrix back.
void release_source(const kernels::SourceRows& from, const CpuMatrix& shape) noexcept;

}  // namespace flyball::cpu
