// Recording, submission and waiting.
#include <algorithm>
#include <cstdlib>

#include "backends/vulkan/internal.hpp"

namespace flyball::vulkan {
namespace {

using Stage = vk::PipelineStageFlagBits;
using Access = vk::AccessFlagBits;

constexpr vk::PipelineStageFlags kWork = Stage::eComputeShader | Stage::eTransfer;
constexpr vk::AccessFlags kWrites = Access::eShaderWrite | Access::eTransferWrite;
constexpr vk::AccessFlags kAll =
    Access::eShaderRead | Access::eShaderWrite | Access::eTransferRead | Access::eTransferWrite;

constexpr std::uint32_t kMostTimed = 8192;  // kernels of a recording; those beyond are not timed

void memory_barrier(const vk::raii::CommandBuffer& buffer, vk::PipelineStageFlags to,
                    vk::AccessFlags access) {
  buffer.pipelineBarrier(kWork, to, {}, vk::MemoryBarrier(kWrites, access), {}, {});
}

}  // namespace

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

Result<Commands> Device::start_recording() {
  DeviceState& s = *state_;
  Commands out;
  const vk::Result result = attempt(s.options, Call::record, [&] {
    vk::raii::CommandBuffers buffers(*s.device, {**s.pool, vk::CommandBufferLevel::ePrimary, 1});
    out.impl_ = std::unique_ptr<Commands::Impl>(
        new Commands::Impl{state_, std::move(buffers.front()), nullptr, {}, {}, {}});
    out.impl_->counted.emplace(s.books);
    out.impl_->buffer.begin({});
    // What earlier submissions wrote, keys and values above all.
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

namespace {

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

}  // namespace

void Commands::dispatch(const Pipeline& pipeline, std::span<const std::byte> push, const Groups& groups) {
  use_kernel(impl_->buffer, impl_->bound, pipeline, push);
  impl_->buffer.dispatch(groups[0], groups[1], groups[2]);
  impl_->timed(pipeline.handle);
}

void Commands::bind(const Pipeline& pipeline, std::span<const Texels> sets) {
  const auto& kernel = *static_cast<const DeviceState::Kernel*>(pipeline.handle);
  std::vector<vk::DescriptorSet> all;
  for (const Texels& texels : sets)
    all.emplace_back(static_cast<VkDescriptorSet>(const_cast<void*>(texels.set)));
  impl_->buffer.bindDescriptorSets(vk::PipelineBindPoint::eCompute, *kernel.layout, 0, all, {});
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

namespace {

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

Result<void> Device::wait(std::uint32_t but, std::uint32_t times) {
  DeviceState& s = *state_;
  const std::uint64_t value = s.submitted - std::min<std::uint64_t>(but, s.submitted);
  if (value <= s.done) return {};
  const auto patience = s.options.fence_deadline * times;
  const vk::Result result = reached(s, Call::wait, value, patience);
  if (result != vk::Result::eSuccess) s.timed.clear();  // their recordings may go now
  if (result == vk::Result::eTimeout)
    return fail(ErrorCode::device_lost, "The Vulkan device " + s.facts.name + " gave no answer within " +
                                            std::to_string(patience.count() / 1000) + " ms.");
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
