#include "backends/vulkan/ceilings.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace flyball::vulkan {
namespace {

constexpr std::uint32_t kChains = 12;  // of kernels/vulkan/multiply_add.comp
constexpr std::uint32_t kGpuGroup = 256, kGpuGroups = 4096, kGpuRounds = 9'984;
constexpr std::uint32_t kProcessorGroups = 32, kProcessorRounds = 799'744;  // of one subgroup each

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Result<std::unique_ptr<DeviceCeilings>> DeviceCeilings::open(const DeviceOptions& options,
                                                             std::uint64_t read_bytes) {
  auto device = Device::open(options);
  if (!device) return pass(device);
  std::unique_ptr<DeviceCeilings> out(new DeviceCeilings(std::move(*device)));
  if (auto ok = out->build(read_bytes); !ok) return pass(ok);
  return out;
}

Result<void> DeviceCeilings::build(std::uint64_t read_bytes) {
  const DeviceFacts& facts = device_->facts();
  const std::uint32_t group =
      facts.processor ? facts.subgroup_size : std::min(kGpuGroup, facts.max_work_group);
  const std::uint32_t groups = facts.processor ? kProcessorGroups : kGpuGroups;
  const std::uint32_t rounds = facts.processor ? kProcessorRounds : kGpuRounds;
  const std::uint32_t items = group * groups;
  operations_ = 2.0 * kChains * rounds * items;
  for (const auto& [bytes, to] :
       {std::pair(read_bytes, &from_), std::pair(std::uint64_t{items} * sizeof(float), &sums_)}) {
    auto memory = device_->allocate(bytes, "the ceilings", Place::device);
    if (!memory) return pass(memory);
    *to = std::move(*memory);
  }
  const auto words = static_cast<std::uint32_t>(read_bytes / 16 / (4 * items) * (4 * items));
  const auto record = [&](Commands& to, const char* kernel, const auto& push) -> Result<void> {
    auto pipeline = device_->pipeline(kernel, {&group, 1}, sizeof push);
    if (!pipeline) return pass(pipeline);
    auto commands = device_->start_recording();
    if (!commands) return pass(commands);
    to = std::move(*commands);
    to.dispatch(*pipeline, push, {groups, 1, 1});
    return device_->finish_recording(to);
  };
  if (auto ok =
          record(read_, "read_bandwidth", ReadBandwidthPush{from_.address(), sums_.address(), words, 0});
      !ok)
    return ok;
  if (auto ok =
          record(multiply_add_, "multiply_add", MultiplyAddPush{sums_.address(), rounds, 0.0F, 0.25F, 0});
      !ok)
    return ok;
  for (int i = 0; i < 2; ++i) {  // finishes compiling, touches the memory
    if (auto ok = read(); !ok) return pass(ok);
    if (auto ok = multiply_add(); !ok) return pass(ok);
  }
  return {};
}

Result<double> DeviceCeilings::run(const Commands& commands, double work) {
  const double start = seconds();
  if (auto ok = device_->submit(commands); !ok) return pass(ok);
  if (auto ok = device_->wait(); !ok) return pass(ok);
  return work / (seconds() - start);
}

Result<double> DeviceCeilings::read() {
  return run(read_, static_cast<double>(from_.bytes()));
}

Result<double> DeviceCeilings::multiply_add() {
  return run(multiply_add_, operations_);
}

}  // namespace flyball::vulkan
