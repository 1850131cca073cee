// Reads every byte once, in order, and adds them up as 64-bit words: what a probe or benchmark times to learn
// the read bandwidth a kernel can reach. Included by ops_<isa>.cpp, after a simd_*.hpp.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace flyball::kernels::cpu {
namespace {

std::uint64_t read_sum(const void* data, std::size_t n_bytes) {
  constexpr std::size_t kBytes = 4 * Simd::kLanes;  // a vector
  constexpr std::size_t kStride = 4 * kBytes;
  // Far enough ahead to cover memory latency at one core's bandwidth (100 ns at 40 GB/s), across the 4 KiB
  // pages at which hardware prefetchers stop.
  constexpr std::size_t kPrefetchBytes = 4096;
  const auto* p = static_cast<const std::uint8_t*>(data);
  Simd::I sums[4] = {Simd::set1_i32(0), Simd::set1_i32(0), Simd::set1_i32(0), Simd::set1_i32(0)};
  for (; n_bytes >= kStride; n_bytes -= kStride, p += kStride) {
    for (std::size_t line = 0; line < kStride; line += 64) Simd::prefetch(p + kPrefetchBytes + line);
    for (std::size_t i = 0; i < 4; ++i) sums[i] = Simd::add_u64(sums[i], Simd::load_quads(p + i * kBytes));
  }
  std::uint64_t sum =
      Simd::reduce_u64(Simd::add_u64(Simd::add_u64(sums[0], sums[1]), Simd::add_u64(sums[2], sums[3])));
  for (; n_bytes > 0;) {  // the last word is filled up with zeros
    const std::size_t n = n_bytes < 8 ? n_bytes : 8;
    std::uint64_t word = 0;
    std::memcpy(&word, p, n);
    sum += word;
    p += n;
    n_bytes -= n;
  }
  return sum;
}

}  // namespace
}  // namespace flyball::kernels::cpu
