#include "backends/cpu/cpu_matrix.hpp"

#include <algorithm>

#include "backends/device/memory.hpp"

namespace flyball::cpu {
namespace {

// Of one claim: some hundred kilobytes, so that claims cost nothing and threads end together.
constexpr std::uint32_t kPackClaimRows = 256;

}  // namespace

void pack_matrices(const kernels::cpu::Kernels& kernels, device::ThreadPool& pool, const CpuMatrix& shape,
                   std::span<const PackJob> jobs) {
  const std::uint32_t group = kernels.row_group(shape.type);
  const std::uint32_t step = (kPackClaimRows + group - 1) / group * group;
  const std::uint32_t claims = (shape.rows + step - 1) / step;
  pool.for_each(static_cast<std::uint32_t>(jobs.size()) * claims, [&](std::uint32_t i) {
    const PackJob& job = jobs[i / claims];
    const std::uint32_t row = i % claims * step;
    kernels.pack(shape.type, shape.rows, shape.cols, job.from, job.to,
                 {row, std::min(shape.rows, row + step)});
  });
}

void release_source(const kernels::SourceRows& from, const CpuMatrix& shape) noexcept {
  device::release_file_pages({from.data, shape.rows * kernels::row_bytes(shape.type, shape.cols)});
  const std::size_t scale_bytes = from.scale_bytes(shape.type, shape.rows, shape.cols);
  if (scale_bytes == 0) return;
  device::release_file_pages({from.scales, scale_bytes});
  device::release_file_pages({from.biases, scale_bytes});
}

}  // namespace flyball::cpu
