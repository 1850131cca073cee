// The Vulkan devices of this machine, what their drivers say of them, and a logical device with all that the
// kernels can use.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/vulkan/internal.hpp"

namespace flyball::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr const char* kHostImport = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
constexpr const char* kIntegerDot = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
constexpr const char* kSubgroupSize = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
constexpr const char* kCooperativeMatrix = "VK_KHR_cooperative_matrix";  // younger than Debian 12's headers

const char* kind_of(vk::PhysicalDeviceType type) {
  switch (type) {
    case vk::PhysicalDeviceType::eIntegratedGpu:
      return "integrated";
    case vk::PhysicalDeviceType::eDiscreteGpu:
    case vk::PhysicalDeviceType::eVirtualGpu:
      return "discrete";
    default:
      return "software";
  }
}

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
  const auto& options = *static_cast<const DeviceOptions*>(user);
  if (options.on_validation) options.on_validation(data->pMessage);
  return VK_FALSE;
}

bool has_layer(const vk::raii::Context& context, const char* name) {
  return std::ranges::any_of(context.enumerateInstanceLayerProperties(), [&](const vk::LayerProperties& l) {
    return std::strcmp(l.layerName, name) == 0;
  });
}

vk::raii::Instance make_instance(const vk::raii::Context& context, bool validate) {
  vk::ApplicationInfo app;
  app.pApplicationName = "flyball";
  app.apiVersion = VK_API_VERSION_1_2;
  vk::InstanceCreateInfo info;
  info.pApplicationInfo = &app;
  const vk::ValidationFeatureEnableEXT checks[] = {
      vk::ValidationFeatureEnableEXT::eSynchronizationValidation};
  vk::ValidationFeaturesEXT features;
  features.setEnabledValidationFeatures(checks);
  const char* extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
  if (validate) {
    info.setPEnabledLayerNames(kValidationLayer);
    info.setPEnabledExtensionNames(extensions);
    info.pNext = &features;
  }
  return {context, info};
}

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

struct Extensions {
  bool host_import = false, integer_dot = false, cooperative_matrix = false, subgroup_size = false,
       pci = false;
};

Extensions extensions_of(const vk::raii::PhysicalDevice& device) {
  Extensions e;
  for (const vk::ExtensionProperties& x : device.enumerateDeviceExtensionProperties()) {
    const std::string_view name(x.extensionName.data());
    e.host_import |= name == kHostImport;
    e.integer_dot |= name == kIntegerDot;
    e.cooperative_matrix |= name == kCooperativeMatrix;
    e.subgroup_size |= name == kSubgroupSize;
    e.pci |= name == VK_EXT_PCI_BUS_INFO_EXTENSION_NAME;
  }
  return e;
}

std::optional<std::uint32_t> compute_family(const vk::raii::PhysicalDevice& device) {
  const auto families = device.getQueueFamilyProperties();
  std::optional<std::uint32_t> any;
  for (std::uint32_t i = 0; i < families.size(); ++i) {
    if (!(families[i].queueFlags & vk::QueueFlagBits::eCompute)) continue;
    // One that does nothing else is not shared with what draws the screen.
    if (!(families[i].queueFlags & vk::QueueFlagBits::eGraphics)) return i;
    if (!any) any = i;
  }
  return any;
}

// Kernels pass values through subgroups, and have work-groups that are one: a driver that picks a subgroup's
// size when it compiles must be told.
bool subgroups_do(const vk::raii::PhysicalDevice& device, const vk::PhysicalDeviceVulkan11Properties& v11) {
  constexpr auto kCompute = vk::ShaderStageFlagBits::eCompute;
  constexpr vk::SubgroupFeatureFlags kUsed =
      vk::SubgroupFeatureFlagBits::eArithmetic | vk::SubgroupFeatureFlagBits::eShuffle;
  if (!extensions_of(device).subgroup_size || !(v11.subgroupSupportedStages & kCompute) ||
      (v11.subgroupSupportedOperations & kUsed) != kUsed)
    return false;
  const auto features =
      device.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceSubgroupSizeControlFeatures>()
          .get<vk::PhysicalDeviceSubgroupSizeControlFeatures>();
  const auto sizes =
      device.getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceSubgroupSizeControlProperties>()
          .get<vk::PhysicalDeviceSubgroupSizeControlProperties>();
  return features.subgroupSizeControl && features.computeFullSubgroups &&
         (sizes.requiredSubgroupSizeStages & kCompute);
}

std::string lacks(const vk::PhysicalDeviceFeatures& base, const vk::PhysicalDeviceVulkan11Features& v11,
                  const vk::PhysicalDeviceVulkan12Features& v12, bool subgroups) {
  std::string out;
  const auto need = [&](vk::Bool32 has, const char* name) {
    if (has == VK_FALSE) out += (out.empty() ? "" : ", ") + std::string(name);
  };
  need(base.shaderInt64, "shaderInt64");
  need(v11.storageBuffer16BitAccess, "storageBuffer16BitAccess");
  need(v12.bufferDeviceAddress, "bufferDeviceAddress");
  need(v12.scalarBlockLayout, "scalarBlockLayout");
  need(v12.timelineSemaphore, "timelineSemaphore");
  need(subgroups, "subgroups of a fixed size with arithmetic and shuffles");
  return out;
}

// Whether a heap with most of the device's memory can be mapped; some drivers keep a few per cent out of it.
bool host_reaches_all(const vk::PhysicalDeviceMemoryProperties& memory, std::uint64_t device_bytes) {
  constexpr vk::MemoryPropertyFlags kBoth = vk::MemoryPropertyFlagBits::eDeviceLocal |
                                            vk::MemoryPropertyFlagBits::eHostVisible |
                                            vk::MemoryPropertyFlagBits::eHostCoherent;
  for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i)
    if ((memory.memoryTypes[i].propertyFlags & kBoth) == kBoth &&
        memory.memoryHeaps[memory.memoryTypes[i].heapIndex].size >= device_bytes / 10 * 9)
      return true;
  return false;
}

DeviceFacts facts_of(const vk::raii::PhysicalDevice& device) {
  DeviceFacts f;
  const vk::PhysicalDeviceProperties base = device.getProperties();
  f.name = base.deviceName.data();
  f.vendor = vendor_name(base.vendorID);
  f.kind = kind_of(base.deviceType);
  f.processor = f.kind == "software";
  f.unified = f.kind != "discrete";
  f.max_work_group = base.limits.maxComputeWorkGroupInvocations;
  const vk::PhysicalDeviceMemoryProperties memory = device.getMemoryProperties();
  for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i)
    if (memory.memoryHeaps[i].flags & vk::MemoryHeapFlagBits::eDeviceLocal)
      f.memory_bytes = std::max<std::uint64_t>(f.memory_bytes, memory.memoryHeaps[i].size);
  f.host_visible = host_reaches_all(memory, f.memory_bytes);
  if (base.apiVersion < VK_API_VERSION_1_2) {
    f.driver = std::to_string(base.driverVersion);
    f.lacks = "Vulkan 1.2";
    return f;
  }
  const auto properties =
      device.getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceVulkan11Properties,
                            vk::PhysicalDeviceVulkan12Properties>();
  const auto& v11 = properties.get<vk::PhysicalDeviceVulkan11Properties>();
  const auto& v12 = properties.get<vk::PhysicalDeviceVulkan12Properties>();
  f.driver = std::string(v12.driverName.data()) + " " + v12.driverInfo.data();
  f.subgroup_size = v11.subgroupSize;
  f.max_allocation_bytes = v11.maxMemoryAllocationSize;
  f.storage_bytes = base.limits.maxStorageBufferRange;
  f.permutes = f.processor && f.subgroup_size == 8 && has_avx2();
  if (f.processor)  // and bytes are counted in 32 bits
    f.texel_bytes = std::min<std::uint64_t>(std::uint64_t{16} * base.limits.maxTexelBufferElements,
                                            std::numeric_limits<std::uint32_t>::max() / 16 * 16);
  f.uuid = hex(v11.deviceUUID);

  const auto features = device.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceVulkan11Features,
                                            vk::PhysicalDeviceVulkan12Features>();
  const auto& wanted = features.get<vk::PhysicalDeviceVulkan12Features>();
  f.lacks = lacks(features.get<vk::PhysicalDeviceFeatures2>().features,
                  features.get<vk::PhysicalDeviceVulkan11Features>(), wanted, subgroups_do(device, v11));
  f.fp16 = wanted.shaderFloat16 == VK_TRUE;
  f.int8 = wanted.shaderInt8 == VK_TRUE;
  const Extensions has = extensions_of(device);
  f.cooperative_matrix = has.cooperative_matrix;
  f.host_import = has.host_import;
  if (has.pci) {
    const auto at =
        device.getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDevicePCIBusInfoPropertiesEXT>()
            .get<vk::PhysicalDevicePCIBusInfoPropertiesEXT>();
    f.pci = pci_address(at.pciDomain, at.pciBus, at.pciDevice, at.pciFunction);
  }
  if (has.host_import)
    f.import_alignment = device
                             .getProperties2<vk::PhysicalDeviceProperties2,
                                             vk::PhysicalDeviceExternalMemoryHostPropertiesEXT>()
                             .get<vk::PhysicalDeviceExternalMemoryHostPropertiesEXT>()
                             .minImportedHostPointerAlignment;
  if (has.integer_dot)
    f.integer_dots =
        device.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceShaderIntegerDotProductFeatures>()
            .get<vk::PhysicalDeviceShaderIntegerDotProductFeatures>()
            .shaderIntegerDotProduct == VK_TRUE;
  if (f.integer_dots)
    f.integer_dot = device
                        .getProperties2<vk::PhysicalDeviceProperties2,
                                        vk::PhysicalDeviceShaderIntegerDotProductProperties>()
                        .get<vk::PhysicalDeviceShaderIntegerDotProductProperties>()
                        .integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE;
  return f;
}

}  // namespace

Result<std::shared_ptr<Driver>> load_driver(const DeviceOptions& options) {
  void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(ErrorCode::model_unavailable, "This machine has no Vulkan loader (libvulkan.so.1).",
                "backend");
  const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (get == nullptr)
    return fail(ErrorCode::model_unavailable, "The Vulkan loader has no vkGetInstanceProcAddr.", "backend");
  std::shared_ptr<Driver> driver;
  const vk::Result result = attempt(options, Call::allocate, [&] {
    vk::raii::Context context(get);
    const bool validate = options.validate && has_layer(context, kValidationLayer);
    vk::raii::Instance instance = make_instance(context, validate);
    std::optional<vk::raii::DebugUtilsMessengerEXT> messenger;
    if (validate) {
      using Severity = vk::DebugUtilsMessageSeverityFlagBitsEXT;
      using Type = vk::DebugUtilsMessageTypeFlagBitsEXT;
      vk::DebugUtilsMessengerCreateInfoEXT info;
      info.messageSeverity = Severity::eWarning | Severity::eError;
      info.messageType = Type::eValidation | Type::ePerformance;
      info.pfnUserCallback = &on_message;
      info.pUserData = const_cast<DeviceOptions*>(&options);
      messenger.emplace(instance, info);
    }
    driver = std::make_shared<Driver>(Driver{std::move(context), std::move(instance), std::move(messenger)});
  });
  if (result != vk::Result::eSuccess)
    return fail(ErrorCode::model_unavailable,
                "No Vulkan driver could be loaded: " + vk::to_string(result) + ".", "backend");
  return driver;
}

std::vector<FoundDevice> find_devices(const Driver& driver) {
  std::vector<FoundDevice> found;
  for (vk::raii::PhysicalDevice& device : driver.instance.enumeratePhysicalDevices()) {
    DeviceFacts f = facts_of(device);
    const auto family = compute_family(device);
    if (!family) continue;
    f.timestamps = device.getQueueFamilyProperties()[*family].timestampValidBits > 0;
    const auto same =
        std::ranges::count_if(found, [&](const FoundDevice& other) { return other.facts.name == f.name; });
    f.id = device_id(f.name, same, f.driver) + " " + f.uuid;
    found.push_back({std::move(device), std::move(f), *family});
  }
  return found;
}

vk::raii::Device make_device(const FoundDevice& found) {
  vk::PhysicalDeviceFeatures2 features;
  features.features.shaderInt64 = VK_TRUE;
  vk::PhysicalDeviceVulkan11Features v11;
  v11.storageBuffer16BitAccess = VK_TRUE;
  vk::PhysicalDeviceVulkan12Features v12;
  v12.bufferDeviceAddress = v12.scalarBlockLayout = v12.timelineSemaphore = VK_TRUE;
  vk::PhysicalDeviceSubgroupSizeControlFeatures subgroups;
  subgroups.subgroupSizeControl = subgroups.computeFullSubgroups = VK_TRUE;
  features.pNext = &v11;
  v11.pNext = &v12;
  v12.pNext = &subgroups;
  vk::PhysicalDeviceShaderIntegerDotProductFeatures integer_dot;
  integer_dot.shaderIntegerDotProduct = VK_TRUE;
  if (found.facts.integer_dots) subgroups.pNext = &integer_dot;

  std::vector<const char*> extensions{kSubgroupSize};
  if (found.facts.integer_dots) extensions.push_back(kIntegerDot);
  if (found.facts.host_import) extensions.push_back(kHostImport);
  const float priority = 1.0F;
  vk::DeviceQueueCreateInfo queue;
  queue.queueFamilyIndex = found.family;
  queue.setQueuePriorities(priority);
  vk::DeviceCreateInfo info;
  info.setQueueCreateInfos(queue);
  info.setPEnabledExtensionNames(extensions);
  info.pNext = &features;
  return {found.physical, info};
}

}  // namespace flyball::vulkan
