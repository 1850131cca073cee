// Where a device's time goes: by kernel, and by the seven kinds of kernels that inference consists of.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace flyball::graph {

enum class KernelKind : std::uint8_t {
  product,  // GEMM, GEMV; of quantized weights, what unfolds them within
  attention,
  kv,               // appends to the cache
  dequantization,   // by itself: rows of the embedding table, and activations quantized for a product
  norm_activation,  // and rotations, sums, rows moved
  moe_routing,
  sampling,
};
inline constexpr std::size_t kKernelKindCount = 7;
std::string_view to_string(KernelKind kind) noexcept;  // "GEMM/GEMV"
// Of a kernel named for its op, as every engine's are ("matmul_tile", "attend_split"). Precondition: it is.
KernelKind kind_of(std::string_view kernel) noexcept;

struct KernelTime {
  std::uint64_t launches = 0;
  double seconds = 0;
};

class KernelTimes {
 public:
  void add(std::string_view kernel, double seconds);
  void clear() noexcept { kernels_.clear(); }
  const std::map<std::string, KernelTime, std::less<>>& kernels() const noexcept { return kernels_; }
  std::array<KernelTime, kKernelKindCount> by_kind() const;
  double seconds() const;

 private:
  std::map<std::string, KernelTime, std::less<>> kernels_;
};

}  // namespace flyball::graph
