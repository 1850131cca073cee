#include "tests/bench/cpu_ceilings.hpp"

#include <atomic>
#include <cstring>
#include <memory>

#include "tests/bench/cpu_peaks.hpp"
#include "tests/bench/program.hpp"

namespace flyball::bench {
namespace {

constexpr std::uint64_t kReadBytes = 512ULL << 20;  // beyond any cache
constexpr std::uint64_t kPiece = 4ULL << 20;        // a thread's turn: threads end together

}  // namespace

Result<std::unique_ptr<CpuCeilings>> CpuCeilings::open(std::uint32_t threads) {
  std::unique_ptr<CpuCeilings> out(new CpuCeilings(threads));
  auto pages = device::Pages::allocate(kReadBytes, "the ceilings");
  if (!pages) return std::unexpected(std::move(pages.error()));
  out->memory_ = std::move(*pages);
  std::memset(out->memory_.data(), 1, kReadBytes);
  return out;
}

double CpuCeilings::read() {
  const auto& k = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  std::atomic<std::uint64_t> sink{0};
  const double start = seconds();
  pool_.for_each(kReadBytes / kPiece,
                 [&](std::uint32_t i) { sink += k.read_sum(memory_.data() + i * kPiece, kPiece); });
  return static_cast<double>(kReadBytes) / (seconds() - start);
}

double CpuCeilings::rate(double (*loop)()) {
  const std::uint32_t turns = 4 * pool_.size();
  std::atomic<double> operations{0};
  const double start = seconds();
  pool_.for_each(turns, [&](std::uint32_t) { operations += loop(); });
  return operations / (seconds() - start);
}

double CpuCeilings::f32() {
  return rate(peak_loops(kernels::cpu::best_isa()).f32);
}

double CpuCeilings::int8() {
  return rate(peak_loops(kernels::cpu::best_isa()).int8);
}

}  // namespace flyball::bench
