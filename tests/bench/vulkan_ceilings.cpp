#include "tests/bench/vulkan_ceilings.hpp"

#include <algorithm>

#include "tests/bench/program.hpp"

namespace flyball::bench {
namespace {

constexpr std::uint64_t kReadBytes = 512ULL << 20;  // beyond any cache, like the weights of a 1.1B model
constexpr std::uint32_t kChains = 12;               // of kernels/vulkan/multiply_add.comp
constexpr std::uint32_t kGpuGroup = 256, kGpuGroups = 4096, kGpuRounds = 9'984;
constexpr std::uint32_t kProcessorGroups = 32, kProcessorRounds = 49'984;  // of one subgroup each

}  // namespace

Result<std::unique_ptr<VulkanCeilings>> VulkanCeilings::open(const vulkan::DeviceOptions& options) {
  auto device = vulkan::Device::open(options);
  if (!device) return std::unexpected(std::move(device.error()));
  std::unique_ptr<VulkanCeilings> out(new VulkanCeilings(std::move(*device)));
  if (auto ok = out->build(); !ok) return std::unexpected(std::move(ok.error()));
  return out;
}

Result<void> VulkanCeilings::build() {
  const vulkan::DeviceFacts& facts = device_->facts();
  const std::uint32_t group =
      facts.processor ? facts.subgroup_size : std::min(kGpuGroup, facts.max_work_group);
  const std::uint32_t groups = facts.processor ? kProcessorGroups : kGpuGroups;
  const std::uint32_t rounds = facts.processor ? kProcessorRounds : kGpuRounds;
  const std::uint32_t items = group * groups;
  operations_ = 2.0 * kChains * rounds * items;
  for (const auto& [bytes, to] :
       {std::pair(kReadBytes, &from_), std::pair(std::uint64_t{items} * sizeof(float), &sums_)}) {
    auto memory = device_->allocate(bytes, "the ceilings", vulkan::Place::device);
    if (!memory) return std::unexpected(std::move(memory.error()));
    *to = std::move(*memory);
  }
  const auto words = static_cast<std::uint32_t>(kReadBytes / 16 / (4 * items) * (4 * items));
  const auto record = [&](vulkan::Commands& to, const char* kernel, const auto& push) -> Result<void> {
    auto pipeline = device_->pipeline(kernel, {&group, 1}, sizeof push);
    if (!pipeline) return std::unexpected(std::move(pipeline.error()));
    auto commands = device_->start_recording();
    if (!commands) return std::unexpected(std::move(commands.error()));
    to = std::move(*commands);
    to.dispatch(*pipeline, push, {groups, 1, 1});
    return device_->finish_recording(to);
  };
  if (auto ok = record(read_, "read_bandwidth",
                       vulkan::ReadBandwidthPush{from_.address(), sums_.address(), words, 0});
      !ok)
    return ok;
  if (auto ok = record(multiply_add_, "multiply_add",
                       vulkan::MultiplyAddPush{sums_.address(), rounds, 0.0F, 0.25F, 0});
      !ok)
    return ok;
  for (int i = 0; i < 2; ++i) {  // finishes compiling, touches the memory
    if (auto ok = read(); !ok) return std::unexpected(std::move(ok.error()));
    if (auto ok = multiply_add(); !ok) return std::unexpected(std::move(ok.error()));
  }
  return {};
}

Result<double> VulkanCeilings::run(const vulkan::Commands& commands, double work) {
  const double start = seconds();
  if (auto ok = device_->submit(commands); !ok) return std::unexpected(std::move(ok.error()));
  if (auto ok = device_->wait(); !ok) return std::unexpected(std::move(ok.error()));
  return work / (seconds() - start);
}

Result<double> VulkanCeilings::read() {
  return run(read_, static_cast<double>(kReadBytes));
}

Result<double> VulkanCeilings::multiply_add() {
  return run(multiply_add_, operations_);
}

}  // namespace flyball::bench
