// Verbs that take values one by one, or row by row. Software devices have kernels of their own for the two
// that take time: texel_rms_norm and texel_glu, of eight values at a time.
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "backends/vulkan/vulkan_ops.hpp"

namespace flyball::vulkan {
namespace {

using graph::Buffer;

constexpr std::uint32_t kMostGroups = 65535;  // of a grid's dimension, on every device
constexpr std::uint32_t kEight = 8;

}  // namespace

Result<bool> VulkanOps::in_eights() {
  const DeviceFacts& facts = device_.facts();
  if (facts.texel_bytes == 0) return false;
  const std::uint64_t most = std::min(facts.texel_bytes, facts.storage_bytes);
  for (const Buffer b : {Buffer::residual, Buffer::normed, Buffer::projected, Buffer::gate, Buffer::up,
                         Buffer::wanted_residual})
    if (cols(b) % kEight != 0 || buffer(b).bytes() > most) return false;
  for (const DeviceWeight& w : weights_.all()) {
    if (w.rows != 1 || w.experts != 1) continue;
    auto texels = device_.texels(w.address);
    if (!texels) return std::unexpected(std::move(texels.error()));
    const std::uint64_t at = w.address - texels->begin;
    if (at % (kEight * sizeof(float)) != 0 || at + w.cols * sizeof(float) > facts.texel_bytes) return false;
  }
  return true;
}

template <class Push>
void VulkanOps::dispatch_eights(const Pipeline& kernel, Push& push, std::initializer_list<Address*> places,
                                const Groups& groups) {
  std::array<Texels, 3> sets;
  std::size_t count = 0;
  for (Address* place : places) {
    auto texels = device_.texels(*place);
    if (!texels) return keep(std::move(texels.error()));
    *place -= texels->begin;
    sets[count++] = *texels;
  }
  commands_->dispatch(kernel, push, groups, std::span(sets).first(count));
}

void VulkanOps::rms_norm(std::uint32_t n, Buffer x, graph::WeightRef weight, Buffer out) {
  after_all();
  RmsNormPush push{at(x), weights_[weight].address, at(out), cols(x), config_.norm_eps};
  if (eights_)
    dispatch_eights(rms_norm_, push, {&push.x, &push.weight, &push.to}, {1, n, 1});
  else
    commands_->dispatch(rms_norm_, push, {1, n, 1});
}

Groups VulkanOps::by_four(std::string_view kernel, std::uint32_t width, std::uint32_t rows) const {
  return {divided_up(width, std::uint64_t{4} * group_size(device_.facts(), kernel)), rows, 1};
}

void VulkanOps::bias(std::uint32_t n, Buffer x, graph::WeightRef b) {
  after_all();
  commands_->dispatch(bias_, BiasPush{at(x), weights_[b].address, cols(x), 0}, by_four("bias", cols(x), n));
}

void VulkanOps::head_norm(std::uint32_t n, Buffer x, graph::WeightRef weight) {
  after_all();
  commands_->dispatch(head_norm_,
                      HeadNormPush{at(x), weights_[weight].address, cols(x) / config_.head_dim,
                                   config_.head_dim, config_.norm_eps, 0},
                      {1, n, 1});
}

Groups VulkanOps::by_stride(std::string_view kernel, std::uint64_t count) const {
  const std::uint32_t groups = divided_up(count, std::uint64_t{4} * group_size(device_.facts(), kernel));
  return {std::min(groups, kMostGroups), 1, 1};
}

void VulkanOps::elementwise(const Pipeline& kernel, std::string_view name, std::uint64_t count, Buffer x,
                            Buffer y) {
  after_all();
  commands_->dispatch(kernel, ElementwisePush{at(x), at(y), static_cast<std::uint32_t>(count), 0},
                      by_stride(name, count));
}

void VulkanOps::glu(std::uint32_t n, Buffer gate, Buffer up) {
  const std::uint64_t count = std::uint64_t{n} * cols(gate);
  if (!eights_) return elementwise(glu_, "glu", count, gate, up);
  after_all();
  ElementwisePush push{at(gate), at(up), static_cast<std::uint32_t>(count), 0};
  dispatch_eights(glu_, push, {&push.x, &push.y}, by_stride("texel_glu", count / 2));
}

void VulkanOps::softcap(std::uint32_t n, Buffer x, float cap) {
  after_all();
  const std::uint64_t count = std::uint64_t{n} * cols(x);
  commands_->dispatch(softcap_, SoftcapPush{at(x), static_cast<std::uint32_t>(count), cap},
                      by_stride("softcap", count));
}

void VulkanOps::add(std::uint32_t n, Buffer x, Buffer y) {
  elementwise(add_, "add", std::uint64_t{n} * cols(x), x, y);
}

}  // namespace flyball::vulkan
