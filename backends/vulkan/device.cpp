// A device and its memory.
#include "backends/vulkan/device.hpp"

#include <algorithm>
#include <array>

#include "backends/device/memory.hpp"
#include "backends/vulkan/choice.hpp"
#include "backends/vulkan/internal.hpp"
#include "backends/vulkan/memory_types.hpp"

namespace flyball::vulkan {
namespace {

using MemoryFlag = vk::MemoryPropertyFlagBits;

vk::BufferUsageFlags usage_of(const DeviceFacts& facts) {
  using enum vk::BufferUsageFlagBits;
  const vk::BufferUsageFlags usage =
      eStorageBuffer | eShaderDeviceAddress | eIndirectBuffer | eTransferSrc | eTransferDst;
  return facts.texel_bytes > 0 ? usage | eUniformTexelBuffer | eStorageTexelBuffer : usage;
}

std::vector<std::uint32_t> memory_types(const DeviceState& s, std::uint32_t allowed, const MemoryWish& wish) {
  static_assert(kDeviceLocal == static_cast<std::uint32_t>(MemoryFlag::eDeviceLocal) &&
                kHostVisible == static_cast<std::uint32_t>(MemoryFlag::eHostVisible) &&
                kHostCoherent == static_cast<std::uint32_t>(MemoryFlag::eHostCoherent) &&
                kHostCached == static_cast<std::uint32_t>(MemoryFlag::eHostCached));
  std::vector<std::uint32_t> flags;
  for (std::uint32_t i = 0; i < s.memory.memoryTypeCount; ++i)
    flags.push_back(static_cast<VkMemoryPropertyFlags>(s.memory.memoryTypes[i].propertyFlags));
  return memory_types(flags, allowed, wish);
}

// What is the device's own, and where that is the machine's, what the machine has left.
std::uint64_t free_bytes(const DeviceState& s) {
  const std::uint64_t allocated = s.books->bytes, own = s.limit > allocated ? s.limit - allocated : 0;
  if (!s.facts.unified) return own;
  const std::uint64_t machine =
      s.options.available_memory ? s.options.available_memory() : device::available_memory();
  return machine == 0 ? own : std::min(own, machine);
}

std::unexpected<Error> no_memory(const DeviceState& s, vk::Result result, std::uint64_t bytes,
                                 std::string_view what) {
  return fail(ErrorCode::insufficient_memory,
              "Not enough memory on " + s.facts.name + " for " + std::string(what) + ": " +
                  std::to_string(bytes) + " bytes are needed, " + std::to_string(free_bytes(s)) +
                  " are free, " + std::to_string(s.facts.max_allocation_bytes) + " at once (" +
                  vk::to_string(result) + ").");
}

std::unexpected<Error> not_allocated(const DeviceState& s, vk::Result result, std::uint64_t bytes,
                                     std::string_view what) {
  using enum vk::Result;
  if (result == eErrorOutOfDeviceMemory || result == eErrorOutOfHostMemory || result == eErrorTooManyObjects)
    return no_memory(s, result, bytes, what);
  return device_failed(s.facts, "an allocation for " + std::string(what), result);
}

}  // namespace

std::unexpected<Error> device_failed(const DeviceFacts& facts, const std::string& call, vk::Result result) {
  return fail(ErrorCode::device_lost, "The Vulkan device " + facts.name + " failed: " + call + " gave " +
                                          vk::to_string(result) + ".");
}

Memory::Memory() noexcept = default;
Memory::Memory(Memory&& other) noexcept
    : impl_(std::move(other.impl_)),
      bytes_(std::exchange(other.bytes_, 0)),
      address_(std::exchange(other.address_, 0)),
      host_(std::exchange(other.host_, nullptr)) {}
Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(impl_, other.impl_);
  std::swap(bytes_, other.bytes_);
  std::swap(address_, other.address_);
  std::swap(host_, other.host_);
  return *this;
}
Memory::~Memory() {
  if (impl_ && impl_->state->books->abandoned) (void)impl_.release();
}

Result<std::vector<DeviceFacts>> list_devices() {
  const DeviceOptions options;
  auto driver = load_driver(options);
  if (!driver) return std::unexpected(std::move(driver.error()));
  std::vector<DeviceFacts> out;
  const vk::Result result = attempt(options, Call::allocate, [&] {
    for (const FoundDevice& found : find_devices(**driver)) out.push_back(found.facts);
  });
  if (result != vk::Result::eSuccess)
    return fail(ErrorCode::model_unavailable,
                "The Vulkan devices could not be listed: " + vk::to_string(result) + ".", "backend");
  return out;
}

Result<std::shared_ptr<Device>> Device::open(const DeviceOptions& options) {
  auto state = std::make_shared<DeviceState>();
  state->options = options;
  auto driver = load_driver(state->options);
  if (!driver) return std::unexpected(std::move(driver.error()));
  state->driver = std::move(*driver);
  std::vector<FoundDevice> devices;
  vk::Result result =
      attempt(state->options, Call::allocate, [&] { devices = find_devices(*state->driver); });
  if (result != vk::Result::eSuccess)
    return fail(ErrorCode::model_unavailable,
                "The Vulkan devices could not be listed: " + vk::to_string(result) + ".", "backend");
  std::vector<DeviceFacts> facts;
  for (const FoundDevice& d : devices) facts.push_back(d.facts);
  const auto i = choose_found(facts, options);
  if (!i) return std::unexpected(i.error());
  FoundDevice& found = devices[*i];
  state->facts = found.facts;
  if (options.integer_dot) state->facts.integer_dot = *options.integer_dot && found.facts.integer_dots;
  if (options.times != nullptr && !found.facts.timestamps)
    return fail(ErrorCode::model_unavailable,
                "The Vulkan device " + found.facts.name + " has no timestamps: its kernels cannot be timed.",
                "backend");
  state->limit = options.allocation_limit != 0 ? options.allocation_limit : found.facts.memory_bytes;
  if (options.on_open) options.on_open(state->books);
  result = attempt(state->options, Call::allocate, [&] {
    state->memory = found.physical.getMemoryProperties();
    state->tick = 1e-9 * static_cast<double>(found.physical.getProperties().limits.timestampPeriod);
    state->device.emplace(make_device(found));
    state->physical.emplace(std::move(found.physical));
    const vk::raii::Device& device = *state->device;
    state->queue.emplace(device, found.family, 0);
    vk::CommandPoolCreateInfo pool;
    pool.queueFamilyIndex = found.family;
    state->pool.emplace(device, pool);
    const vk::StructureChain<vk::SemaphoreCreateInfo, vk::SemaphoreTypeCreateInfo> timeline(
        {}, {vk::SemaphoreType::eTimeline, 0});
    state->timeline.emplace(device, timeline.get<vk::SemaphoreCreateInfo>());
    state->cache.emplace(device, vk::PipelineCacheCreateInfo{});
    if (state->facts.texel_bytes > 0) {
      constexpr auto kCompute = vk::ShaderStageFlagBits::eCompute;
      const std::array bindings = {
          vk::DescriptorSetLayoutBinding(0, vk::DescriptorType::eUniformTexelBuffer, 1, kCompute),
          vk::DescriptorSetLayoutBinding(1, vk::DescriptorType::eStorageBuffer, 1, kCompute),
          vk::DescriptorSetLayoutBinding(2, vk::DescriptorType::eStorageTexelBuffer, 1, kCompute)};
      state->texel_set.emplace(device, vk::DescriptorSetLayoutCreateInfo({}, bindings));
    }
  });
  if (result != vk::Result::eSuccess) return device_failed(state->facts, "its opening", result);
  return std::shared_ptr<Device>(new Device(std::move(state)));
}

Device::Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {
  ++state_->books->live;
}

Device::~Device() {
  --state_->books->live;
  if (!state_->books->abandoned) return;
  new std::shared_ptr<DeviceState>(std::move(state_));  // until the process ends
}

const DeviceFacts& Device::facts() const noexcept {
  return state_->facts;
}

std::uint64_t Device::allocated() const noexcept {
  return state_->books->bytes;
}

std::uint64_t Device::free_bytes() const noexcept {
  return state_->limit > allocated() ? state_->limit - allocated() : 0;
}

Result<Memory> Device::allocate(std::uint64_t bytes, std::string_view what, Place place) {
  DeviceState& s = *state_;
  bytes = std::max<std::uint64_t>((bytes + 15) / 16 * 16, 16);
  // The host's memory is not the device's to count, where they are apart.
  const bool counted =
      s.facts.unified || place == Place::device || (place == Place::shared && s.facts.host_visible);
  if ((counted && bytes > vulkan::free_bytes(s)) || bytes > s.facts.max_allocation_bytes)
    return no_memory(s, vk::Result::eErrorOutOfDeviceMemory, bytes, what);
  Memory out;
  std::vector<std::uint32_t> types;
  vk::Result result{};
  // A heap may be full that is not the only one: that of a discrete GPU's mapped memory above all.
  for (std::size_t i = 0; i == 0 || (result == vk::Result::eErrorOutOfDeviceMemory && i < types.size());
       ++i) {
    out.impl_ = std::make_unique<Memory::Impl>();
    out.impl_->state = state_;
    result = attempt(s.options, Call::allocate, [&] {
      vk::BufferCreateInfo info;
      info.size = bytes;
      info.usage = usage_of(s.facts);
      auto& buffer = out.impl_->buffer.emplace(*s.device, info);
      const vk::MemoryRequirements needs = buffer.getMemoryRequirements();
      types = memory_types(s, needs.memoryTypeBits, wish_of(place, s.facts.unified));
      if (types.empty()) return;
      const vk::StructureChain<vk::MemoryAllocateInfo, vk::MemoryAllocateFlagsInfo> allocate(
          {needs.size, types[i]}, {vk::MemoryAllocateFlagBits::eDeviceAddress});
      auto& memory = out.impl_->memory.emplace(*s.device, allocate.get<vk::MemoryAllocateInfo>());
      buffer.bindMemory(*memory, 0);
      out.address_ = s.device->getBufferAddress({*buffer});
      constexpr vk::MemoryPropertyFlags kMapped = MemoryFlag::eHostVisible | MemoryFlag::eHostCoherent;
      if ((s.memory.memoryTypes[types[i]].propertyFlags & kMapped) == kMapped)
        out.host_ = static_cast<std::byte*>(memory.mapMemory(0, VK_WHOLE_SIZE));
    });
  }
  if (result != vk::Result::eSuccess) return not_allocated(s, result, bytes, what);
  if (types.empty())
    return fail(ErrorCode::model_unavailable,
                "The Vulkan device " + s.facts.name + " has no memory of the kind that " + std::string(what) +
                    " needs.",
                "backend");
  out.bytes_ = bytes;
  out.impl_->begin = out.address_;
  out.impl_->size = bytes;
  s.buffers.emplace(out.address_, out.impl_.get());
  out.impl_->counted.emplace(s.books, counted ? bytes : 0);
  return out;
}

Result<Memory> Device::import(std::span<const std::byte> bytes, std::string_view what) {
  DeviceState& s = *state_;
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::unsupported_value, "The Vulkan device " + s.facts.name + " cannot read " +
                                                  std::string(what) + " where it lies: " + why + ".");
  };
  if (!s.facts.host_import) return refuse("it has no VK_EXT_external_memory_host");
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = begin / s.facts.import_alignment * s.facts.import_alignment;
  const std::uintptr_t end = (begin + bytes.size() + s.facts.import_alignment - 1) /
                             s.facts.import_alignment * s.facts.import_alignment;
  if (end - first > s.facts.max_allocation_bytes)
    return refuse(std::to_string(end - first) + " bytes are more than " +
                  std::to_string(s.facts.max_allocation_bytes) + " at once");
  Memory out;
  out.impl_ = std::make_unique<Memory::Impl>();
  out.impl_->state = state_;
  bool typed = true;
  const vk::Result result = attempt(s.options, Call::import, [&] {
    constexpr auto kHandle = vk::ExternalMemoryHandleTypeFlagBits::eHostAllocationEXT;
    auto* host = reinterpret_cast<void*>(first);
    const vk::MemoryHostPointerPropertiesEXT pointer =
        s.device->getMemoryHostPointerPropertiesEXT(kHandle, host);
    const vk::StructureChain<vk::BufferCreateInfo, vk::ExternalMemoryBufferCreateInfo> info(
        {{}, end - first, usage_of(s.facts)}, {kHandle});
    auto& buffer = out.impl_->buffer.emplace(*s.device, info.get<vk::BufferCreateInfo>());
    const vk::MemoryRequirements needs = buffer.getMemoryRequirements();
    const auto types = memory_types(s, needs.memoryTypeBits & pointer.memoryTypeBits, {});
    typed = !types.empty() && needs.size <= end - first;
    if (!typed) return;
    const vk::StructureChain<vk::MemoryAllocateInfo, vk::MemoryAllocateFlagsInfo,
                             vk::ImportMemoryHostPointerInfoEXT>
        allocate({end - first, types[0]}, {vk::MemoryAllocateFlagBits::eDeviceAddress}, {kHandle, host});
    auto& memory = out.impl_->memory.emplace(*s.device, allocate.get<vk::MemoryAllocateInfo>());
    buffer.bindMemory(*memory, 0);
    out.address_ = s.device->getBufferAddress({*buffer}) + (begin - first);
  });
  if (result == vk::Result::eErrorDeviceLost) return device_failed(s.facts, "an import", result);
  if (result != vk::Result::eSuccess) return refuse(vk::to_string(result));
  if (!typed) return refuse("no memory type takes these pages");
  out.bytes_ = bytes.size();
  out.impl_->begin = out.address_ - (begin - first);
  out.impl_->size = end - first;
  s.buffers.emplace(out.impl_->begin, out.impl_.get());
  out.impl_->counted.emplace(s.books);
  return out;
}

Result<Texels> Device::texels(Address address) {
  DeviceState& s = *state_;
  const auto after = s.buffers.upper_bound(address);
  if (after == s.buffers.begin() || !s.texel_set) std::abort();  // a plan for another device
  Memory::Impl& m = *std::prev(after)->second;
  if (m.set == VK_NULL_HANDLE) {
    const vk::Result result = attempt(s.options, Call::allocate, [&] {
      const vk::BufferViewCreateInfo view({}, **m.buffer, vk::Format::eR32G32B32A32Uint, 0,
                                          std::min(m.size / 16 * 16, s.facts.texel_bytes));
      m.view.emplace(*s.device, view);
      const std::array sizes = {vk::DescriptorPoolSize(vk::DescriptorType::eUniformTexelBuffer, 1),
                                vk::DescriptorPoolSize(vk::DescriptorType::eStorageBuffer, 1),
                                vk::DescriptorPoolSize(vk::DescriptorType::eStorageTexelBuffer, 1)};
      m.sets.emplace(*s.device, vk::DescriptorPoolCreateInfo({}, 1, sizes));
      const vk::DescriptorSetLayout layout = **s.texel_set;
      const auto made = (**s.device).allocateDescriptorSets({**m.sets, layout}, *s.device->getDispatcher());
      const vk::BufferView texels = **m.view;
      const vk::DescriptorBufferInfo written(**m.buffer, 0, std::min(m.size, s.facts.storage_bytes));
      s.device->updateDescriptorSets(
          {vk::WriteDescriptorSet(made[0], 0, 0, vk::DescriptorType::eUniformTexelBuffer, {}, {}, texels),
           vk::WriteDescriptorSet(made[0], 1, 0, vk::DescriptorType::eStorageBuffer, {}, written),
           vk::WriteDescriptorSet(made[0], 2, 0, vk::DescriptorType::eStorageTexelBuffer, {}, {}, texels)},
          {});
      m.set = made[0];
    });
    if (result != vk::Result::eSuccess) return not_allocated(s, result, 0, "a view of what is there");
  }
  return Texels{m.set, m.begin};
}

}  // namespace flyball::vulkan
