// The kernels that the ops run: built for one device, model and KV type.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "backends/opencl/opencl_ops.hpp"

namespace flyball::opencl {
namespace {

constexpr std::uint32_t kNormLanes = 256, kTopKLanes = 256, kRouteLanes = 64;  // work-items that share a row

std::string define(const char* name, std::uint64_t value) {
  return std::string(" -D ") + name + "=" + std::to_string(value);
}

Result<void> set(Kernel& kernel, Result<Kernel> made) {
  if (!made) return std::unexpected(std::move(made.error()));
  kernel = std::move(*made);
  return {};
}

}  // namespace

std::uint32_t OpenClOps::lanes(std::uint32_t most) const {
  if (device_.facts().processor) return 1;
  std::uint32_t lanes = 1;
  while (2 * lanes <= std::min(most, device_.facts().max_work_group)) lanes *= 2;
  return lanes;
}

Result<void> OpenClOps::build(Programs& programs, const TuningTable& tuning) {
  programs_ = &programs;
  // First: it stores what it has compiled, and of the others nothing has run yet.
  auto matmul =
      Matmul::make(device_, programs, weights_, limits_.step_tokens, config_.n_experts_used, tuning);
  if (!matmul) return std::unexpected(std::move(matmul.error()));
  matmul_ = std::move(*matmul);
  const auto make = [&](Kernel& kernel, const std::string& name, const std::string& options) {
    const std::string_view files[] = {name};
    return set(kernel, programs.kernel(name, files, options));
  };
  const auto make_shared = [&](Kernel& kernel, const std::string& name, std::uint32_t& items,
                               std::uint32_t most) {
    items = lanes(most);
    return with_fewer_items(items, [&](std::uint32_t n) { return make(kernel, name, define("WG", n)); });
  };
  if (part_.embeds) {
    const std::string_view files[] = {"block_layout", "dequantize", "embed"};
    const DeviceTable& table = weights_.embedding();
    const std::string formats = define("FORMAT", static_cast<std::uint64_t>(table.type)) + " " +
                                define("SCALE_FORMAT", static_cast<std::uint64_t>(table.scale_type));
    if (auto ok = set(embed_, programs.kernel("embed", files, formats)); !ok) return ok;
  }
  if (auto ok = make_shared(rms_norm_, "rms_norm", norm_lanes_, kNormLanes); !ok) return ok;
  const bool gelu = config_.activation == kernels::Activation::gelu;
  if (auto ok = make(glu_, "glu", define("GELU", gelu ? 1 : 0)); !ok) return ok;
  if (auto ok = make(add_, "add", ""); !ok) return ok;
  if (part_.projects) {
    if (auto ok = make(gather_, "gather", ""); !ok) return ok;
    if (config_.logit_cap != 0.0F)
      if (auto ok = make(softcap_, "softcap", ""); !ok) return ok;
    if (auto ok = make_shared(top_k_, "top_k", top_k_lanes_, kTopKLanes); !ok) return ok;
  }
  if (config_.qkv_bias)
    if (auto ok = make(bias_, "bias", ""); !ok) return ok;
  if (config_.qk_norm)
    if (auto ok = make(head_norm_, "head_norm", ""); !ok) return ok;
  if (config_.n_experts > 0) {
    if (auto ok = make_shared(moe_route_, "moe_route", route_lanes_, kRouteLanes); !ok) return ok;
    if (auto ok = make(moe_add_, "moe_add", ""); !ok) return ok;
  }
  return {};
}

Result<void> OpenClOps::build_attend(Programs& programs) {
  const auto make = [&](Kernel& kernel, const std::string& name, std::string_view file,
                        const std::string& options) {
    return set(kernel, programs.kernel(name, {&file, 1}, options));
  };
  const std::string stored = define("KV_Q8_0", kv_q8_0_ ? 1 : 0);
  const std::string interleaved =
      define("INTERLEAVED", config_.rope_style == kernels::RopeStyle::interleaved ? 1 : 0);
  if (auto ok = make(rope_kv_store_, "rope_kv_store", "rope_kv_store", stored + interleaved); !ok) return ok;
  const std::uint32_t group = config_.n_heads / config_.n_kv_heads;
  std::string seen = config_.windowed() ? define("WINDOWED", 1) : "";
  if (config_.attention_cap != 0.0F) seen += " -D CAP=" + std::to_string(config_.attention_cap) + "f";
  attend_ = plan_attend(matmul_device(device_.facts()), config_.head_dim, group, block_size_);
  for (;;) {
    const std::string shape = define("HEAD_DIM", config_.head_dim) + define("GROUP", group) +
                              define("TILE", block_size_) + define("STAGE", attend_.stage) +
                              define("SPLIT", split_) + define("WG", attend_.lanes) + stored + seen;
    const std::string apart = shape + define("TQ", 1) + define("SPLITS_APART", 1);
    auto ok = make(attend_split_, "attend", "attend", apart);
    if (ok) ok = make(attend_combine_, "attend_combine", "attend", apart);
    const bool decodes = ok.has_value();
    if (decodes)
      ok = make(attend_rows_, "attend", "attend",
                shape + define("TQ", attend_.rows) + define("SPLITS_APART", 0));
    if (ok || ok.error().code != ErrorCode::model_unsupported) return ok;
    const auto next = smaller(attend_, decodes);
    if (!next) return ok;
    attend_ = *next;
  }
}

}  // namespace flyball::opencl
