#include "daemon/probe/hardware_facts.hpp"

#include <algorithm>
#include <cmath>

#include "backends/device/choice.hpp"

namespace flyball::probe {
namespace {

constexpr const char* kProbe = kProbeSource;
constexpr const char* kBuild = "build";
constexpr const char* kManifest = "manifest";
constexpr const char* kDefault = "default";
constexpr const char* kFromConfig = "config";
constexpr std::uint64_t kMostMemory = 1ULL << 50;  // of one device: sums stay far from any limit

std::int64_t as_integer(std::uint64_t value) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX));
}

std::vector<const DeviceReport*> working(const DeviceProbe& probe, std::string_view kind) {
  std::vector<const DeviceReport*> out;
  for (const DeviceReport& device : probe.devices)
    if (device.dispatched && device.kind == kind) out.push_back(&device);
  return out;
}

// Of two views of the same hardware, the one that shows more of it.
std::vector<const DeviceReport*> gpus(const HardwareReport& report, std::string_view kind) {
  auto vulkan = working(report.vulkan, kind);
  auto opencl = working(report.opencl, kind);
  return opencl.size() > vulkan.size() ? opencl : vulkan;
}

bool more_memory(const DeviceReport* a, const DeviceReport* b) {
  return a->memory_bytes < b->memory_bytes;
}

std::string with_devices(std::string reason, const DeviceProbe& probe) {
  std::string found;
  for (const DeviceReport& device : probe.devices)
    if (device.dispatched)
      found += (found.empty() ? "" : ", ") + device.name + (device.kind == "software" ? " (software)" : "");
  return found.empty() ? reason : reason + "; device found: " + found;
}

// Of the devices that ran the probe's kernel the best GPU, or what `names` names, each once. Or why one is
// missing.
std::expected<std::vector<std::string>, std::string> approved(const DeviceProbe& probe,
                                                              const std::string& api,
                                                              const std::vector<std::string>& names) {
  std::vector<device::Candidate> candidates;
  for (const DeviceReport& device : probe.devices) candidates.push_back({&device, device.dispatched});
  std::vector<std::string> ids;
  const auto take = [&](const std::string& name) {
    const auto i = device::choose_device(candidates, name);
    if (i) ids.push_back(probe.devices[*i].id);
    if (i) candidates[*i].usable = false;
    return i.has_value();
  };
  if (names.empty() && !take(""))
    return std::unexpected(with_devices("no GPU ran the probe's kernel by " + api, probe));
  for (const std::string& name : names)
    if (const bool beside = !ids.empty(); !take(name))
      return std::unexpected(with_devices("no " + api + " device called " + name + " ran the probe's kernel" +
                                              (beside ? ", beside those already taken" : ""),
                                          probe));
  return ids;
}

}  // namespace

std::expected<std::vector<std::string>, std::string> opencl_devices(const HardwareReport& report,
                                                                    const config::OpenClEngine& opencl) {
  return approved(report.opencl, "OpenCL", opencl.devices);
}

std::expected<std::vector<std::string>, std::string> vulkan_devices(const HardwareReport& report,
                                                                    const config::VulkanEngine& vulkan) {
  std::vector<std::string> names;
  if (!vulkan.device.empty()) names.push_back(vulkan.device);
  return approved(report.vulkan, "Vulkan", names);
}

bool has_own_memory(const DeviceProbe& probe, const std::string& id) {
  const auto device = std::ranges::find(probe.devices, id, &DeviceReport::id);
  return device != probe.devices.end() && !device->unified;
}

void set_hardware_facts(const HardwareReport& report, policy::Facts& facts) {
  const cpu::CpuReport& c = report.cpu;
  facts.set("hardware.os", std::string("linux"), kBuild);
  facts.set("hardware.cluster.nodes", std::int64_t{1},
            kFromConfig);  // no orchestrator upstream is configured
  if (!c.model.empty()) facts.set("hardware.cpu.model", c.model, kProbe);
  facts.set("hardware.cpu.isa", c.isa, kProbe);
  facts.set("hardware.cpu.cores", std::int64_t{c.cores}, kProbe);
  facts.set("hardware.cpu.threads", std::int64_t{c.threads}, kProbe);
  if (c.bandwidth_1t > 0) {
    const auto rounded = [](double gb_per_s) {
      return std::round(gb_per_s * 10) / 10;
    };  // no more was measured
    facts.set("hardware.cpu.bandwidth_1t", rounded(c.bandwidth_1t), kProbe);
    facts.set("hardware.cpu.bandwidth", rounded(c.bandwidth), kProbe);
  }
  if (c.memory_total > 0) {
    facts.set("hardware.memory.total", as_integer(c.memory_total), kProbe);
    facts.set("hardware.memory.available", as_integer(c.memory_available), kProbe);
  }

  const auto discrete = gpus(report, "discrete");
  const auto integrated = gpus(report, "integrated");
  const bool all_answered = report.vulkan.answered && report.opencl.answered;
  if (discrete.empty() && integrated.empty() && !all_answered) return;
  facts.set("hardware.gpu.count", static_cast<std::int64_t>(discrete.size() + integrated.size()), kProbe);
  facts.set("hardware.gpu.discrete_count", static_cast<std::int64_t>(discrete.size()), kProbe);
  facts.set("hardware.gpu.integrated_count", static_cast<std::int64_t>(integrated.size()), kProbe);
  facts.set("hardware.memory.unified", discrete.empty() && !integrated.empty(), kProbe);

  const auto& best_kind = discrete.empty() ? integrated : discrete;
  if (!best_kind.empty()) {
    const DeviceReport& best = **std::ranges::max_element(best_kind, more_memory);
    facts.set("hardware.gpu.kind", best.kind, kProbe);
    facts.set("hardware.gpu.name", best.name, kProbe);
    facts.set("hardware.gpu.vendor", best.vendor, kProbe);
    facts.set("hardware.gpu.memory", as_integer(best.memory_bytes), kProbe);
  } else {
    const bool software = !gpus(report, "software").empty();
    facts.set("hardware.gpu.kind", std::string(software ? "software" : "none"), kProbe);
    facts.set("hardware.gpu.vendor", std::string("none"), kProbe);
  }
  std::uint64_t total = 0;
  for (const DeviceReport* device : discrete) total += std::min(device->memory_bytes, kMostMemory);
  facts.set("hardware.gpu.memory_total", as_integer(total), kProbe);
}

void set_engine_facts(const HardwareReport& report, const config::OpenClEngine& opencl,
                      const config::VulkanEngine& vulkan, policy::Facts& facts) {
  facts.set("backend.cpu.available", true, kBuild);
  const auto absent = [&](const std::string& backend, std::string reason, const char* source) {
    facts.set("backend." + backend + ".available", false, source);
    facts.set("backend." + backend + ".reason", std::move(reason), source);
  };
  const auto probed = [&](const std::string& backend,
                          std::expected<std::vector<std::string>, std::string> devices) {
    if (!devices)
      absent(backend, std::move(devices.error()), kProbe);
    else
      facts.set("backend." + backend + ".available", true, kProbe);
  };
  probed("vulkan", vulkan_devices(report, vulkan));
  const auto opened = opencl_devices(report, opencl);
  probed("opencl", opened);
  std::uint64_t memory = 0;
  for (const DeviceReport& device : report.opencl.devices)
    if (opened && device.kind == "discrete" && std::ranges::find(*opened, device.id) != opened->end())
      memory += std::min(device.memory_bytes, kMostMemory);
  if (memory > 0) facts.set("hardware.gpu.memory_used", as_integer(memory), kProbe);
  for (const std::string_view backend : policy::known_backends())
    if (policy::is_remote(backend))
      absent(std::string(backend), "no upstream of this kind is configured", kFromConfig);
}

policy::Facts facts_of(const HardwareReport& report, const config::OpenClEngine& opencl,
                       const config::VulkanEngine& vulkan) {
  policy::Facts facts;
  set_hardware_facts(report, facts);
  set_engine_facts(report, opencl, vulkan, facts);
  return facts;
}

void set_app_facts(const config::AppManifest& app, policy::Facts& facts) {
  const auto set_if = [&](const char* name, const auto& value) {
    if (value) facts.set(name, static_cast<std::int64_t>(*value), kManifest);
  };
  const auto set_time = [&](const char* name, const std::optional<std::chrono::milliseconds>& value) {
    if (value) facts.set(name, std::int64_t{value->count()}, kManifest);
  };
  facts.set("app.id", app.id, kManifest);
  facts.set("app.privacy", std::string(to_string(app.privacy.value_or(config::kDefaultPrivacy))),
            app.privacy ? kManifest : kDefault);
  set_time("app.slo.ttft", app.slo.ttft);
  set_time("app.slo.tpot", app.slo.tpot);
  set_time("app.slo.deadline", app.slo.deadline);
  const config::Workload& w = app.workload;
  facts.set("workload.class", std::string(to_string(w.kind.value_or(config::kDefaultClass))),
            w.kind ? kManifest : kDefault);
  if (w.modalities.empty())
    facts.set("workload.modalities", std::vector<std::string>{config::kDefaultModality}, kDefault);
  else
    facts.set("workload.modalities", w.modalities, kManifest);
  facts.set("workload.delivery", w.delivery.empty() ? std::string(config::kDefaultDelivery) : w.delivery,
            w.delivery.empty() ? kDefault : kManifest);
  const auto set_flag = [&](const char* name, const std::optional<bool>& value) {
    if (value) facts.set(name, *value, kManifest);
  };
  const auto set_text = [&](const char* name, const std::string& value) {
    if (!value.empty()) facts.set(name, value, kManifest);
  };
  set_flag("workload.fixed_critical", w.fixed_critical);
  set_flag("workload.structured_output", w.structured_output);
  set_flag("workload.draft_model", w.draft_model);
  set_text("workload.phase", w.phase);
  set_text("workload.objective", w.objective);
  set_if("workload.batch_size", w.batch_size);
  set_if("workload.prompt_tokens", w.prompt_tokens);
  set_if("workload.output_tokens", w.output_tokens);
  set_if("workload.shared_prefix_tokens", w.shared_prefix_tokens);
  set_if("workload.concurrency", w.concurrency);
}

}  // namespace flyball::probe
