#include "backends/graph/kernel_times.hpp"

#include <cstdlib>
#include <iterator>

namespace flyball::graph {
namespace {

struct Named {
  std::string_view prefix;
  KernelKind kind;
};
// The first that fits.
constexpr Named kKinds[] = {
    {"matmul", KernelKind::product},
    {"matvec", KernelKind::product},
    {"panel", KernelKind::product},
    {"moe_matmul", KernelKind::product},
    {"moe_matvec", KernelKind::product},
    {"attend", KernelKind::attention},
    {"rope_kv_store", KernelKind::kv},
    {"embed", KernelKind::dequantization},
    {"prepare_activations", KernelKind::dequantization},
    {"moe_", KernelKind::moe_routing},
    {"top_k", KernelKind::sampling},
    {"sample", KernelKind::sampling},
    {"rms_norm", KernelKind::norm_activation},
    {"head_norm", KernelKind::norm_activation},
    {"rope", KernelKind::norm_activation},
    {"glu", KernelKind::norm_activation},
    {"softcap", KernelKind::norm_activation},
    {"add", KernelKind::norm_activation},
    {"bias", KernelKind::norm_activation},
    {"gather", KernelKind::norm_activation},
};

}  // namespace

std::string_view to_string(KernelKind kind) noexcept {
  constexpr std::string_view kNames[kKernelKindCount] = {
      "GEMM/GEMV", "attention", "KV", "dequantization", "norm/activation", "MoE routing", "sampling"};
  return kNames[static_cast<std::size_t>(kind)];
}

KernelKind kind_of(std::string_view kernel) noexcept {
  constexpr std::string_view kByTexel = "texel_";  // of Vulkan's software devices, else named alike
  if (kernel.starts_with(kByTexel)) kernel.remove_prefix(kByTexel.size());
  for (const Named& named : kKinds)
    if (kernel.starts_with(named.prefix)) return named.kind;
  std::abort();  // a kernel whose name is no op's
}

void KernelTimes::add(std::string_view kernel, double seconds) {
  auto at = kernels_.find(kernel);
  if (at == kernels_.end()) at = kernels_.emplace(kernel, KernelTime{}).first;
  ++at->second.launches;
  at->second.seconds += seconds;
}

std::array<KernelTime, kKernelKindCount> KernelTimes::by_kind() const {
  std::array<KernelTime, kKernelKindCount> kinds{};
  for (const auto& [name, time] : kernels_) {
    KernelTime& kind = kinds[static_cast<std::size_t>(kind_of(name))];
    kind.launches += time.launches;
    kind.seconds += time.seconds;
  }
  return kinds;
}

double KernelTimes::seconds() const {
  double all = 0;
  for (const auto& [name, time] : kernels_) all += time.seconds;
  return all;
}

}  // namespace flyball::graph
