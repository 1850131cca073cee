// Any bytes as a safetensors file; every byte of every tensor that was accepted is touched.
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <span>
#include <vector>

#include "backends/model/safetensors.hpp"

namespace {
volatile std::uint64_t sink = 0;
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> bytes(begin, begin + size);  // exactly this size
  const auto tensors = flyball::model::read_safetensors(bytes);
  if (!tensors) {
    if (tensors.error().message.empty() || tensors.error().where.empty()) std::abort();
    return 0;
  }
  std::uint64_t total = 0;
  for (const auto& tensor : *tensors) {
    total += tensor.data.size();
    for (const std::byte b : tensor.data) sink = sink + static_cast<std::uint64_t>(b);
    const auto values =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::uint64_t{1}, std::multiplies());
    if (tensor.data.size() % values != 0) std::abort();
  }
  if (total > size) std::abort();
  return 0;
}
