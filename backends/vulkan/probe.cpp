#include "backends/vulkan/probe.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "embedded/vulkan_probe.hpp"

namespace flyball::vulkan {
namespace {

constexpr std::uint64_t kFenceTimeoutNs = 10'000'000'000;  // below the parent's patience with the whole probe
constexpr std::uint32_t kGroupSize = 64;                   // local_size_x of kernels/vulkan/probe.comp

struct Failed {  // one call that did not succeed; caught once a device
  std::string what;
};

void must(VkResult result, const char* call) {
  if (result != VK_SUCCESS) throw Failed{std::string(call) + " gave VkResult " + std::to_string(result)};
}

template <class F>
F load(PFN_vkGetInstanceProcAddr get, VkInstance instance, const char* name) {
  const auto f = reinterpret_cast<F>(get(instance, name));
  if (!f) throw Failed{std::string("the driver has no ") + name};
  return f;
}
#define LOAD(name) const auto name = load<PFN_##name>(get_, instance_, #name)

const char* kind_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "discrete";
    default:
      return "software";
  }
}

class Probe {
 public:
  Probe(PFN_vkGetInstanceProcAddr get, VkInstance instance) : get_(get), instance_(instance) {}

  std::vector<DeviceReport> devices() {
    LOAD(vkEnumeratePhysicalDevices);
    std::uint32_t n = 0;
    must(vkEnumeratePhysicalDevices(instance_, &n, nullptr), "vkEnumeratePhysicalDevices");
    std::vector<VkPhysicalDevice> physical(n);
    must(vkEnumeratePhysicalDevices(instance_, &n, physical.data()), "vkEnumeratePhysicalDevices");
    std::vector<DeviceReport> out;
    for (const VkPhysicalDevice device : physical) {
      DeviceReport report = describe(device);
      try {
        dispatch(device);
        report.dispatched = true;
      } catch (const Failed& failed) {
        report.error = failed.what;
      }
      out.push_back(std::move(report));
    }
    return out;
  }

 private:
  DeviceReport describe(VkPhysicalDevice physical) {
    LOAD(vkGetPhysicalDeviceProperties2);
    LOAD(vkGetPhysicalDeviceMemoryProperties);
    VkPhysicalDeviceDriverProperties driver{};
    driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &driver;
    vkGetPhysicalDeviceProperties2(physical, &properties);
    DeviceReport report;
    report.name = properties.properties.deviceName;
    report.vendor = vendor_name(properties.properties.vendorID);
    report.kind = kind_of(properties.properties.deviceType);
    report.driver = std::string(driver.driverName) + " " + driver.driverInfo;
    report.unified = report.kind != "discrete";
    VkPhysicalDeviceMemoryProperties memory{};
    vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i)
      if ((memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0)
        report.memory_bytes = std::max<std::uint64_t>(report.memory_bytes, memory.memoryHeaps[i].size);
    return report;
  }

  std::uint32_t compute_family(VkPhysicalDevice physical) {
    LOAD(vkGetPhysicalDeviceQueueFamilyProperties);
    std::uint32_t n = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, nullptr);
    std::vector<VkQueueFamilyProperties> families(n);
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, families.data());
    for (std::uint32_t i = 0; i < n; ++i)
      if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) return i;
    throw Failed{"no compute queue"};
  }

  std::uint32_t host_memory_type(VkPhysicalDevice physical, std::uint32_t allowed) {
    LOAD(vkGetPhysicalDeviceMemoryProperties);
    VkPhysicalDeviceMemoryProperties memory{};
    vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    constexpr VkMemoryPropertyFlags kWanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i)
      if ((allowed & (1U << i)) != 0 && (memory.memoryTypes[i].propertyFlags & kWanted) == kWanted) return i;
    throw Failed{"no host-visible memory"};
  }

  // Everything that a first dispatch takes. What is made here is left to the end of the process: this is the
  // child that `probe` starts for the purpose, and a driver that fails half-way is not trusted with a
  // clean-up either.
  void dispatch(VkPhysicalDevice physical) {
    LOAD(vkCreateDevice);
    LOAD(vkGetDeviceQueue);
    LOAD(vkCreateBuffer);
    LOAD(vkGetBufferMemoryRequirements);
    LOAD(vkAllocateMemory);
    LOAD(vkBindBufferMemory);
    LOAD(vkMapMemory);
    LOAD(vkCreateShaderModule);
    LOAD(vkCreateDescriptorSetLayout);
    LOAD(vkCreatePipelineLayout);
    LOAD(vkCreateComputePipelines);
    LOAD(vkCreateDescriptorPool);
    LOAD(vkAllocateDescriptorSets);
    LOAD(vkUpdateDescriptorSets);
    LOAD(vkCreateCommandPool);
    LOAD(vkAllocateCommandBuffers);
    LOAD(vkBeginCommandBuffer);
    LOAD(vkCmdBindPipeline);
    LOAD(vkCmdBindDescriptorSets);
    LOAD(vkCmdDispatch);
    LOAD(vkEndCommandBuffer);
    LOAD(vkCreateFence);
    LOAD(vkQueueSubmit);
    LOAD(vkWaitForFences);

    const std::uint32_t family = compute_family(physical);
    const float priority = 1.0F;
    VkDeviceQueueCreateInfo queue_info{};
    queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue_info.queueFamilyIndex = family;
    queue_info.queueCount = 1;
    queue_info.pQueuePriorities = &priority;
    VkDeviceCreateInfo device_info{};
    device_info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    device_info.queueCreateInfoCount = 1;
    device_info.pQueueCreateInfos = &queue_info;
    VkDevice device{};
    must(vkCreateDevice(physical, &device_info, nullptr, &device), "vkCreateDevice");
    VkQueue queue{};
    vkGetDeviceQueue(device, family, 0, &queue);

    VkBufferCreateInfo buffer_info{};
    buffer_info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    buffer_info.size = kProbeElements * sizeof(std::uint32_t);
    buffer_info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
    VkBuffer buffer{};
    must(vkCreateBuffer(device, &buffer_info, nullptr, &buffer), "vkCreateBuffer");
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(device, buffer, &needs);
    VkMemoryAllocateInfo memory_info{};
    memory_info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    memory_info.allocationSize = needs.size;
    memory_info.memoryTypeIndex = host_memory_type(physical, needs.memoryTypeBits);
    VkDeviceMemory memory{};
    must(vkAllocateMemory(device, &memory_info, nullptr, &memory), "vkAllocateMemory");
    must(vkBindBufferMemory(device, buffer, memory, 0), "vkBindBufferMemory");
    void* mapped = nullptr;
    must(vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    auto* data = static_cast<volatile std::uint32_t*>(mapped);
    for (std::uint32_t i = 0; i < kProbeElements; ++i) data[i] = ~i;

    const auto code = embedded::vulkan_probe();
    VkShaderModuleCreateInfo shader_info{};
    shader_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    shader_info.codeSize = code.size();
    shader_info.pCode = reinterpret_cast<const std::uint32_t*>(code.data());  // embedded at 64-byte alignment
    VkShaderModule shader{};
    must(vkCreateShaderModule(device, &shader_info, nullptr, &shader), "vkCreateShaderModule");
    VkDescriptorSetLayoutBinding binding{};
    binding.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    binding.descriptorCount = 1;
    binding.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    VkDescriptorSetLayoutCreateInfo set_layout_info{};
    set_layout_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    set_layout_info.bindingCount = 1;
    set_layout_info.pBindings = &binding;
    VkDescriptorSetLayout set_layout{};
    must(vkCreateDescriptorSetLayout(device, &set_layout_info, nullptr, &set_layout),
         "vkCreateDescriptorSetLayout");
    VkPipelineLayoutCreateInfo layout_info{};
    layout_info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout_info.setLayoutCount = 1;
    layout_info.pSetLayouts = &set_layout;
    VkPipelineLayout layout{};
    must(vkCreatePipelineLayout(device, &layout_info, nullptr, &layout), "vkCreatePipelineLayout");
    VkComputePipelineCreateInfo pipeline_info{};
    pipeline_info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    pipeline_info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    pipeline_info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    pipeline_info.stage.module = shader;
    pipeline_info.stage.pName = "main";
    pipeline_info.layout = layout;
    VkPipeline pipeline{};
    must(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &pipeline_info, nullptr, &pipeline),
         "vkCreateComputePipelines");

    const VkDescriptorPoolSize pool_size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    VkDescriptorPoolCreateInfo pool_info{};
    pool_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    pool_info.maxSets = 1;
    pool_info.poolSizeCount = 1;
    pool_info.pPoolSizes = &pool_size;
    VkDescriptorPool pool{};
    must(vkCreateDescriptorPool(device, &pool_info, nullptr, &pool), "vkCreateDescriptorPool");
    VkDescriptorSetAllocateInfo set_info{};
    set_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    set_info.descriptorPool = pool;
    set_info.descriptorSetCount = 1;
    set_info.pSetLayouts = &set_layout;
    VkDescriptorSet set{};
    must(vkAllocateDescriptorSets(device, &set_info, &set), "vkAllocateDescriptorSets");
    const VkDescriptorBufferInfo whole{buffer, 0, VK_WHOLE_SIZE};
    VkWriteDescriptorSet write{};
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = set;
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = &whole;
    vkUpdateDescriptorSets(device, 1, &write, 0, nullptr);

    VkCommandPoolCreateInfo command_pool_info{};
    command_pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    command_pool_info.queueFamilyIndex = family;
    VkCommandPool command_pool{};
    must(vkCreateCommandPool(device, &command_pool_info, nullptr, &command_pool), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo commands_info{};
    commands_info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    commands_info.commandPool = command_pool;
    commands_info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    commands_info.commandBufferCount = 1;
    VkCommandBuffer commands{};
    must(vkAllocateCommandBuffers(device, &commands_info, &commands), "vkAllocateCommandBuffers");
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    must(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    vkCmdDispatch(commands, kProbeElements / kGroupSize, 1, 1);
    must(vkEndCommandBuffer(commands), "vkEndCommandBuffer");

    VkFenceCreateInfo fence_info{};
    fence_info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    VkFence fence{};
    must(vkCreateFence(device, &fence_info, nullptr, &fence), "vkCreateFence");
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands;
    must(vkQueueSubmit(queue, 1, &submit, fence), "vkQueueSubmit");
    must(vkWaitForFences(device, 1, &fence, VK_TRUE, kFenceTimeoutNs), "vkWaitForFences");
    for (std::uint32_t i = 0; i < kProbeElements; ++i)
      if (data[i] != ~i + i * kProbeFactor)
        throw Failed{"the kernel's answer is wrong at element " + std::to_string(i)};
  }

  PFN_vkGetInstanceProcAddr get_;
  VkInstance instance_;
};

}  // namespace

DeviceProbe probe_devices() {
  DeviceProbe out;
  void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    out.error = "no Vulkan loader (libvulkan.so.1) on this machine";
    return out;
  }
  try {
    const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
    if (!get) throw Failed{"libvulkan.so.1 has no vkGetInstanceProcAddr"};
    const auto vkCreateInstance = load<PFN_vkCreateInstance>(get, VK_NULL_HANDLE, "vkCreateInstance");
    VkApplicationInfo app{};
    app.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    app.pApplicationName = "flyball";
    app.apiVersion = VK_API_VERSION_1_2;
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &app;
    VkInstance instance{};
    must(vkCreateInstance(&info, nullptr, &instance), "vkCreateInstance");
    out.devices = Probe(get, instance).devices();
    if (out.devices.empty()) out.error = "no Vulkan device";
  } catch (const Failed& failed) {
    out.error = failed.what;
  }
  return out;
}

}  // namespace flyball::vulkan
