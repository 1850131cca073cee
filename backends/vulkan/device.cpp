// A device, its memory, its kernels and its work.
#include "backends/vulkan/device.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <expected>
#include <thread>

#include "backends/device/memory.hpp"
#include "backends/vulkan/choice.hpp"
#include "backends/vulkan/internal.hpp"
#include "backends/vulkan/memory_types.hpp"
#include "backends/vulkan/shaders.hpp"
#include "config/units.hpp"

namespace flyball::vulkan {
namespace {

using MemoryFlag = vk::MemoryPropertyFlagBits;
using Kernel = DeviceState::Kernel;
using Stage = vk::PipelineStageFlagBits;
using Access = vk::AccessFlagBits;

constexpr std::string_view kByTexel = "texel_";  // kernels that read sets
constexpr std::size_t kMostSets = 3;
constexpr std::uint32_t kMostTimed = 8192;  // kernels of a recording; those beyond are not timed

constexpr vk::PipelineStageFlags kWork = Stage::eComputeShader | Stage::eTransfer;
constexpr vk::AccessFlags kWrites = Access::eShaderWrite | Access::eTransferWrite;
constexpr vk::AccessFlags kAll =
    Access::eShaderRead | Access::eShaderWrite | Access::eTransferRead | Access::eTransferWrite;

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
  const auto sizes = config::sizes_to_compare({bytes, free_bytes(s), s.facts.max_allocation_bytes});
  return fail(ErrorCode::insufficient_memory, "Not enough memory on " + s.facts.name + " for " +
                                                  std::string(what) + ": " + sizes[0] + " are needed, " +
                                                  sizes[1] + " are free, " + sizes[2] + " at once (" +
                                                  vk::to_string(result) + ").");
}

std::unexpected<Error> not_allocated(const DeviceState& s, vk::Result result, std::uint64_t bytes,
                                     std::string_view what) {
  using enum vk::Result;
  if (result == eErrorOutOfDeviceMemory || result == eErrorOutOfHostMemory || result == eErrorTooManyObjects)
    return no_memory(s, result, bytes, what);
  return device_failed(s.facts, "an allocation for " + std::string(what), result);
}

std::string key_of(const KernelSpec& spec) {
  std::string key = spec.name;
  for (const std::uint32_t c : spec.constants) key += " " + std::to_string(c);
  return key;
}

std::unexpected<Error> refuse_kernel(const DeviceState& s, const KernelSpec& spec, const std::string& why) {
  return fail(ErrorCode::model_unsupported,
              "The kernel " + spec.name + " cannot be made on " + s.facts.name + ": " + why + ".", "backend",
              "kernels/vulkan");
}

Result<void> check_kernel(const DeviceState& s, const KernelSpec& spec) {
  if (shader(spec.name).empty()) return refuse_kernel(s, spec, "this build has none of that name");
  if (!spec.constants.empty() && spec.constants[0] > s.facts.max_work_group)
    return refuse_kernel(s, spec,
                         "it needs work-groups of " + std::to_string(spec.constants[0]) +
                             ", the device has " + std::to_string(s.facts.max_work_group));
  return {};
}

Error build_failed(const DeviceState& s, const KernelSpec& spec, vk::Result result) {
  using enum vk::Result;
  if (result == eErrorDeviceLost)
    return device_failed(s.facts, "the build of " + key_of(spec), result).error();
  if (result == eErrorOutOfDeviceMemory || result == eErrorOutOfHostMemory)
    return fail(ErrorCode::insufficient_memory, "Not enough memory to build " + key_of(spec) + " on " +
                                                    s.facts.name + " (" + vk::to_string(result) + ").")
        .error();
  return refuse_kernel(s, spec, vk::to_string(result)).error();
}

// Changes nothing of its arguments, so any thread may call it. Throws what Vulkan-Hpp throws.
Kernel build_kernel(const DeviceState& s, const KernelSpec& spec) {
  std::vector<vk::SpecializationMapEntry> entries;
  for (std::uint32_t i = 0; i < spec.constants.size(); ++i) entries.emplace_back(i, 4 * i, 4);
  const std::span<const std::byte> code = shader(spec.name);
  const vk::raii::ShaderModule module(*s.device,
                                      {{}, code.size(), reinterpret_cast<const std::uint32_t*>(code.data())});
  const vk::PushConstantRange range(vk::ShaderStageFlagBits::eCompute, 0, spec.push_bytes);
  vk::PipelineLayoutCreateInfo layout_info;
  if (spec.push_bytes > 0) layout_info.setPushConstantRanges(range);
  std::vector<vk::DescriptorSetLayout> sets;
  if (spec.name.starts_with(kByTexel)) sets.assign(kMostSets, **s.texel_set);
  layout_info.setSetLayouts(sets);
  vk::raii::PipelineLayout layout(*s.device, layout_info);
  const vk::SpecializationInfo special(static_cast<std::uint32_t>(entries.size()), entries.data(),
                                       spec.constants.size() * sizeof(std::uint32_t), spec.constants.data());
  vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, *module, "main", &special);
  const vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo one_subgroup(s.facts.subgroup_size);
  if (!spec.constants.empty() &&
      spec.constants[0] == s.facts.subgroup_size) {  // a work-group so large is one
    stage.flags = vk::PipelineShaderStageCreateFlagBits::eRequireFullSubgroups;
    stage.pNext = &one_subgroup;
  }
  vk::raii::Pipeline pipeline(*s.device, *s.cache, vk::ComputePipelineCreateInfo({}, stage, *layout));
  return {spec.name, std::move(layout), std::move(pipeline)};
}

void memory_barrier(const vk::raii::CommandBuffer& buffer, vk::PipelineStageFlags to,
                    vk::AccessFlags access) {
  buffer.pipelineBarrier(kWork, to, {}, vk::MemoryBarrier(kWrites, access), {}, {});
}

void use_kernel(const vk::raii::CommandBuffer& buffer, const void*& bound, const Pipeline& pipeline,
                std::span<const std::byte> push) {
  if (!pipeline || push.size() != pipeline.push_bytes)
    std::abort();  // a kernel that was not built for this call
  const auto& kernel = *static_cast<const DeviceState::Kernel*>(pipeline.handle);
  if (bound != pipeline.handle) buffer.bindPipeline(vk::PipelineBindPoint::eCompute, *kernel.pipeline);
  bound = pipeline.handle;
  buffer.pushConstants<std::byte>(*kernel.layout, vk::ShaderStageFlagBits::eCompute, 0,
                                  {static_cast<std::uint32_t>(push.size()), push.data()});
}

vk::Result reached(const DeviceState& s, Call kind, std::uint64_t value, std::chrono::microseconds patience) {
  vk::Result waited = vk::Result::eSuccess;
  const vk::Result result = attempt(s.options, kind, [&] {
    const vk::Semaphore timeline = **s.timeline;
    waited = s.device->waitSemaphores({{}, 1, &timeline, &value},
                                      static_cast<std::uint64_t>(patience.count()) * 1000);
  });
  return result != vk::Result::eSuccess ? result : waited;
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

Commands::Commands() noexcept = default;
Commands::Commands(Commands&&) noexcept = default;
Commands& Commands::operator=(Commands&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Commands::~Commands() {
  if (impl_ && impl_->state->books->abandoned) (void)impl_.release();
}

void Commands::Impl::begin_timing() {
  timestamps.emplace(*state->device, vk::QueryPoolCreateInfo({}, vk::QueryType::eTimestamp, kMostTimed + 1));
  buffer.resetQueryPool(**timestamps, 0, kMostTimed + 1);
  buffer.writeTimestamp(Stage::eBottomOfPipe, **timestamps, 0);
}

void Commands::Impl::timed(const void* pipeline) {
  if (!timestamps || kernels.size() == kMostTimed) return;
  kernels.push_back(static_cast<const DeviceState::Kernel*>(pipeline)->name);
  buffer.writeTimestamp(Stage::eBottomOfPipe, **timestamps, static_cast<std::uint32_t>(kernels.size()));
}

void Commands::Impl::collect_times() const {
  const auto n = static_cast<std::uint32_t>(kernels.size()) + 1;
  const auto [result, ticks] = timestamps->getResults<std::uint64_t>(
      0, n, n * sizeof(std::uint64_t), sizeof(std::uint64_t), vk::QueryResultFlagBits::e64);
  if (result != vk::Result::eSuccess) return;
  for (std::uint32_t i = 0; i < kernels.size(); ++i)
    state->options.times->add(kernels[i], static_cast<double>(ticks[i + 1] - ticks[i]) * state->tick);
}

void Commands::dispatch(const Pipeline& pipeline, std::span<const std::byte> push, const Groups& groups) {
  use_kernel(impl_->buffer, impl_->bound, pipeline, push);
  impl_->buffer.dispatch(groups[0], groups[1], groups[2]);
  impl_->timed(pipeline.handle);
}

void Commands::dispatch_indirect(const Pipeline& pipeline, std::span<const std::byte> push,
                                 const Memory& from, std::uint64_t at) {
  use_kernel(impl_->buffer, impl_->bound, pipeline, push);
  impl_->buffer.dispatchIndirect(**from.impl_->buffer, from.address_ - from.impl_->begin + at);
  impl_->timed(pipeline.handle);
}

void Commands::barrier() {
  memory_barrier(impl_->buffer, kWork, kAll);
}

void Commands::copy(const Memory& from, std::uint64_t from_at, const Memory& to, std::uint64_t to_at,
                    std::uint64_t bytes) {
  impl_->buffer.copyBuffer(**from.impl_->buffer, **to.impl_->buffer,
                           vk::BufferCopy(from.address_ - from.impl_->begin + from_at,
                                          to.address_ - to.impl_->begin + to_at, bytes));
}

void Commands::bind(const Pipeline& pipeline, std::span<const Texels> sets) {
  const auto& kernel = *static_cast<const DeviceState::Kernel*>(pipeline.handle);
  std::vector<vk::DescriptorSet> all;
  for (const Texels& texels : sets)
    all.emplace_back(static_cast<VkDescriptorSet>(const_cast<void*>(texels.set)));
  impl_->buffer.bindDescriptorSets(vk::PipelineBindPoint::eCompute, *kernel.layout, 0, all, {});
}

Result<std::vector<DeviceFacts>> list_devices() {
  const DeviceOptions options;
  auto driver = load_driver(options);
  if (!driver) return pass(driver);
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
  if (!driver) return pass(driver);
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
  if (!i) return pass(i);
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
  if (end - first > s.facts.max_allocation_bytes) {
    const auto sizes = config::sizes_to_compare({end - first, s.facts.max_allocation_bytes});
    return refuse(sizes[0] + " are more than " + sizes[1] + " at once");
  }
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

Result<void> Device::build(std::span<const KernelSpec> specs) {
  DeviceState& s = *state_;
  struct Job {
    const KernelSpec* spec;
    std::optional<Kernel> kernel{};
    vk::Result result = vk::Result::eSuccess;
  };
  std::map<std::string, Job> wanted;  // by name and constants
  for (const KernelSpec& spec : specs) {
    std::string key = key_of(spec);
    if (s.kernels.contains(key) || wanted.contains(key)) continue;
    if (auto ok = check_kernel(s, spec); !ok) return pass(ok);
    if (const vk::Result instead = asked(s.options, Call::build); instead != vk::Result::eSuccess)
      return std::unexpected(build_failed(s, spec, instead));
    wanted.emplace(std::move(key), Job{&spec});
  }
  std::vector<Job*> jobs;
  for (auto& [key, job] : wanted) jobs.push_back(&job);
  std::atomic<std::size_t> next{0};
  const auto work = [&]() noexcept {
    for (std::size_t i = 0; (i = next++) < jobs.size();)
      jobs[i]->result = caught([&] { jobs[i]->kernel.emplace(build_kernel(s, *jobs[i]->spec)); });
  };
  {
    std::vector<std::jthread> others;
    const std::size_t most = std::min<std::size_t>(jobs.size(), std::thread::hardware_concurrency());
    // This thread does it all if the system gives no more threads.
    (void)caught([&] {
      while (others.size() + 1 < most) others.emplace_back(work);
    });
    work();
  }
  for (auto& [key, job] : wanted) {
    if (job.result != vk::Result::eSuccess) return std::unexpected(build_failed(s, *job.spec, job.result));
    s.kernels.emplace(key, std::move(*job.kernel));
  }
  return {};
}

Result<Pipeline> Device::pipeline(std::string_view name, std::span<const std::uint32_t> constants,
                                  std::uint32_t push_bytes) {
  const KernelSpec spec{std::string(name), {constants.begin(), constants.end()}, push_bytes};
  const std::string key = key_of(spec);
  const auto& kernels = state_->kernels;
  auto known = kernels.find(key);
  if (known == kernels.end()) {
    if (auto ok = build({&spec, 1}); !ok) return pass(ok);
    known = kernels.find(key);
  }
  return Pipeline{&known->second, push_bytes};
}

void Device::load_pipeline_cache(std::span<const std::byte> bytes) {
  DeviceState& s = *state_;
  (void)attempt(s.options, Call::build, [&] {
    vk::raii::PipelineCache cache(*s.device, vk::PipelineCacheCreateInfo({}, bytes.size(), bytes.data()));
    s.cache = std::move(cache);
  });
}

std::vector<std::byte> Device::pipeline_cache() {
  std::vector<std::byte> out;
  (void)attempt(state_->options, Call::build, [&] {
    for (const std::uint8_t b : state_->cache->getData()) out.push_back(static_cast<std::byte>(b));
  });
  return out;
}

std::uint32_t Device::pipelines() const noexcept {
  return static_cast<std::uint32_t>(state_->kernels.size());
}

Result<Commands> Device::start_recording() {
  DeviceState& s = *state_;
  Commands out;
  const vk::Result result = attempt(s.options, Call::record, [&] {
    vk::raii::CommandBuffers buffers(*s.device, {**s.pool, vk::CommandBufferLevel::ePrimary, 1});
    out.impl_ = std::unique_ptr<Commands::Impl>(
        new Commands::Impl{state_, std::move(buffers.front()), nullptr, {}, {}, {}});
    out.impl_->counted.emplace(s.books);
    out.impl_->buffer.begin({});
    // Waits for the writes of earlier submissions, keys and values above all.
    memory_barrier(out.impl_->buffer, kWork | Stage::eDrawIndirect, kAll | Access::eIndirectCommandRead);
    if (s.options.times != nullptr) out.impl_->begin_timing();
  });
  if (result != vk::Result::eSuccess) return device_failed(s.facts, "the start of a recording", result);
  return out;
}

Result<void> Device::finish_recording(Commands& commands) {
  DeviceState& s = *state_;
  const vk::Result result = attempt(s.options, Call::record, [&] {
    memory_barrier(commands.impl_->buffer, Stage::eHost, Access::eHostRead);
    commands.impl_->buffer.end();
  });
  if (result != vk::Result::eSuccess) return device_failed(s.facts, "a recording", result);
  return {};
}

Result<void> Device::submit(const Commands& commands) {
  DeviceState& s = *state_;
  const std::uint64_t value = s.submitted + 1;
  const vk::Result result = attempt(s.options, Call::submit, [&] {
    const vk::CommandBuffer buffer = *commands.impl_->buffer;
    const vk::Semaphore timeline = **s.timeline;
    const vk::TimelineSemaphoreSubmitInfo values(0, nullptr, 1, &value);
    vk::SubmitInfo info;
    info.setCommandBuffers(buffer);
    info.setSignalSemaphores(timeline);
    info.pNext = &values;
    s.queue->submit(info);
  });
  if (result != vk::Result::eSuccess) return device_failed(s.facts, "a submission", result);
  s.submitted = value;
  if (commands.impl_->timestamps) s.timed.push_back(commands.impl_.get());
  return {};
}

Result<void> Device::wait(std::uint32_t but, std::uint32_t times) {
  DeviceState& s = *state_;
  const std::uint64_t value = s.submitted - std::min<std::uint64_t>(but, s.submitted);
  if (value <= s.done) return {};
  const auto patience = s.options.fence_deadline * times;
  const vk::Result result = reached(s, Call::wait, value, patience);
  if (result != vk::Result::eSuccess) s.timed.clear();  // their recordings may go now
  if (result == vk::Result::eTimeout)
    return fail(ErrorCode::device_lost, "The Vulkan device " + s.facts.name + " gave no answer within " +
                                            config::exact_time_text(patience.count()) + ".");
  if (result != vk::Result::eSuccess) return device_failed(s.facts, "waiting for the device", result);
  s.done = value;
  if (s.timed.empty() || value < s.submitted) return {};
  const vk::Result told = attempt(s.options, Call::wait, [&] {
    for (const Commands::Impl* commands : s.timed) commands->collect_times();
  });
  s.timed.clear();
  if (told != vk::Result::eSuccess) return device_failed(s.facts, "reading timestamps", told);
  return {};
}

bool Device::busy() const noexcept {
  return state_->done < state_->submitted;
}

bool Device::at_rest() noexcept {
  DeviceState& s = *state_;
  if (s.books->abandoned) return false;
  if (!busy()) return true;
  // One that says it is lost may still write what was under way.
  const vk::Result result = reached(s, Call::settle, s.submitted, s.options.settle_deadline);
  if (result == vk::Result::eSuccess)
    s.done = s.submitted;
  else
    s.books->abandoned = true;
  return result == vk::Result::eSuccess;
}

}  // namespace flyball::vulkan
