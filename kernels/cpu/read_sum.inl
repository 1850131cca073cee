// Reads every byte once, in order, and adds them up as 64-bit words: what a probe or benchmark times to learn
// the read bandwidth a kernel can reach. Included by ops_<isa>.cpp, after a simd_*.hpp.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace flyball::kernels::cpu {
namespace {

std::uint64_t read_sum(const void* data, std::size_t n_bytes) {
  // Far enough ahead to cover memory latency at one core's bandwidth (100 ns at 20 GB/s), across the 4 KiB
  // pages at which hardware prefetchers stop.
  constexpr std::size_t kPrefetchBytes = 4096;
  const auto* p = static_cast<const std::uint8_t*>(data);
  std::uint64_t sum = 0;
  for (; n_bytes >= 256; n_bytes -= 256, p += 256) {
    for (int line = 0; line < 256; line += 64) Simd::prefetch(p + kPrefetchBytes + line);
    sum += Simd::read_sum(p);
  }
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
