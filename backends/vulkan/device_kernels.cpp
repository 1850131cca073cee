// A device's kernels: built once each, several at a time, and the driver's cache of them.
#include <algorithm>
#include <atomic>
#include <expected>
#include <thread>

#include "backends/vulkan/internal.hpp"
#include "backends/vulkan/shaders.hpp"

namespace flyball::vulkan {
namespace {

constexpr std::string_view kByTexel = "texel_";  // kernels that read sets
constexpr std::size_t kMostSets = 3;

using Kernel = DeviceState::Kernel;

std::string key_of(const KernelSpec& spec) {
  std::string key = spec.name;
  for (const std::uint32_t c : spec.constants) key += " " + std::to_string(c);
  return key;
}

std::unexpected<Error> refuse(const DeviceState& s, const KernelSpec& spec, const std::string& why) {
  return fail(ErrorCode::model_unsupported,
              "The kernel " + spec.name + " cannot be made on " + s.facts.name + ": " + why + ".", "backend",
              "kernels/vulkan");
}

Result<void> check(const DeviceState& s, const KernelSpec& spec) {
  if (shader(spec.name).empty()) return refuse(s, spec, "this build has none of that name");
  if (!spec.constants.empty() && spec.constants[0] > s.facts.max_work_group)
    return refuse(s, spec,
                  "it needs work-groups of " + std::to_string(spec.constants[0]) + ", the device has " +
                      std::to_string(s.facts.max_work_group));
  return {};
}

Error failed(const DeviceState& s, const KernelSpec& spec, vk::Result result) {
  using enum vk::Result;
  if (result == eErrorDeviceLost)
    return device_failed(s.facts, "the build of " + key_of(spec), result).error();
  if (result == eErrorOutOfDeviceMemory || result == eErrorOutOfHostMemory)
    return fail(ErrorCode::insufficient_memory, "Not enough memory to build " + key_of(spec) + " on " +
                                                    s.facts.name + " (" + vk::to_string(result) + ").")
        .error();
  return refuse(s, spec, vk::to_string(result)).error();
}

// Of what it names nothing is changed: any thread may. Throws what Vulkan-Hpp throws.
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

}  // namespace

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
    if (auto ok = check(s, spec); !ok) return ok;
    if (const vk::Result instead = asked(s.options, Call::build); instead != vk::Result::eSuccess)
      return std::unexpected(failed(s, spec, instead));
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
    // Where there are no more threads to have, this one does it all.
    (void)caught([&] {
      while (others.size() + 1 < most) others.emplace_back(work);
    });
    work();
  }
  for (auto& [key, job] : wanted) {
    if (job.result != vk::Result::eSuccess) return std::unexpected(failed(s, *job.spec, job.result));
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
    if (auto ok = build({&spec, 1}); !ok) return std::unexpected(std::move(ok.error()));
    known = kernels.find(key);
  }
  return Pipeline{&known->second, push_bytes};
}

std::uint32_t Device::pipelines() const noexcept {
  return static_cast<std::uint32_t>(state_->kernels.size());
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

}  // namespace flyball::vulkan
