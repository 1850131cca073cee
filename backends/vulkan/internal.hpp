// Vulkan's own headers, and what the few files that include them share. Nothing outside backends/vulkan
// includes this; Vulkan-Hpp's exceptions end in attempt().
#pragma once

#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#define VK_NO_PROTOTYPES
#define VULKAN_HPP_ENABLE_DYNAMIC_LOADER_TOOL 0  // its destructor would unload drivers, which not all survive
#include <vulkan/vulkan_raii.hpp>

#include "backends/vulkan/device.hpp"

namespace flyball::vulkan {

// The loader and its drivers. Outlives all devices.
struct Driver {
  vk::raii::Context context;
  vk::raii::Instance instance;
  std::optional<vk::raii::DebugUtilsMessengerEXT> messenger;
};

struct FoundDevice {
  vk::raii::PhysicalDevice physical;
  DeviceFacts facts;
  std::uint32_t family = 0;  // of queues that compute
};

// model_unavailable: no loader, no driver. The options outlive what they give.
Result<std::shared_ptr<Driver>> load_driver(const DeviceOptions& options);
// In the loader's order, which a process and its children see alike. May throw what Vulkan-Hpp throws.
std::vector<FoundDevice> find_devices(const Driver& driver);
// With every feature that the kernels use; the device lacks none. May throw what Vulkan-Hpp throws.
vk::raii::Device make_device(const FoundDevice& found);

struct DeviceState {
  DeviceOptions options;
  DeviceFacts facts;
  std::shared_ptr<Books> books = std::make_shared<Books>();
  std::uint64_t limit = 0;  // bytes
  // Released from the last to the first.
  std::shared_ptr<Driver> driver;
  std::optional<vk::raii::PhysicalDevice> physical;
  vk::PhysicalDeviceMemoryProperties memory;
  std::optional<vk::raii::Device> device;
  std::optional<vk::raii::Queue> queue;
  std::optional<vk::raii::CommandPool> pool;
  std::optional<vk::raii::Semaphore> timeline;
  std::optional<vk::raii::PipelineCache> cache;
  std::optional<vk::raii::DescriptorSetLayout> texel_set;  // where kernels read by texel
  struct Kernel {
    std::string name;
    vk::raii::PipelineLayout layout;
    vk::raii::Pipeline pipeline;
  };
  std::map<std::string, Kernel, std::less<>> kernels;  // by name and constants
  double tick = 0;                                     // seconds of a timestamp's unit
  std::vector<const Commands::Impl*> timed;  // submitted since all was waited for, where kernels are timed
  std::map<Address, Memory::Impl*> buffers;  // by where they begin
  std::uint64_t submitted = 0, done = 0;  // of the timeline: what it will reach, and was seen to have reached

  DeviceState() = default;
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;
};

// One in the books for as long as it lives.
class Counted {
 public:
  explicit Counted(std::shared_ptr<Books> books, std::uint64_t bytes = 0)
      : books_(std::move(books)), bytes_(bytes) {
    ++books_->live;
    books_->bytes += bytes_;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    --books_->live;
    books_->bytes -= bytes_;
  }

 private:
  std::shared_ptr<Books> books_;
  std::uint64_t bytes_;
};

// What a test wants of this call instead of making it; eSuccess: to make it.
inline vk::Result asked(const DeviceOptions& options, Call kind) {
  return options.interceptor ? static_cast<vk::Result>(options.interceptor(kind)) : vk::Result::eSuccess;
}

// The result of calls by Vulkan-Hpp, and nothing thrown.
template <class Calls>
vk::Result caught(Calls&& calls) noexcept {
  try {
    calls();
    return vk::Result::eSuccess;
  } catch (const vk::SystemError& e) {
    return static_cast<vk::Result>(e.code().value());
  } catch (const std::bad_alloc&) {
    return vk::Result::eErrorOutOfHostMemory;
  } catch (const std::exception&) {
    return vk::Result::eErrorUnknown;
  }
}
template <class Calls>
vk::Result attempt(const DeviceOptions& options, Call kind, Calls&& calls) noexcept {
  const vk::Result instead = asked(options, kind);
  return instead != vk::Result::eSuccess ? instead : caught(std::forward<Calls>(calls));
}

std::unexpected<Error> device_failed(const DeviceFacts& facts, const std::string& call, vk::Result result);

struct Memory::Impl {
  std::shared_ptr<DeviceState> state;
  std::optional<vk::raii::DeviceMemory> memory;
  std::optional<vk::raii::Buffer> buffer;
  std::optional<Counted> counted;
  Address begin = 0;       // of the buffer, once the state knows it
  std::uint64_t size = 0;  // of the buffer, bytes
  // Where it is read by texel.
  std::optional<vk::raii::BufferView> view;
  std::optional<vk::raii::DescriptorPool> sets;
  VkDescriptorSet set = VK_NULL_HANDLE;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (begin != 0) state->buffers.erase(begin);
  }
};

struct Commands::Impl {
  std::shared_ptr<DeviceState> state;
  vk::raii::CommandBuffer buffer;
  const void* bound = nullptr;  // pipeline
  std::optional<Counted> counted;
  // Where kernels are timed: a timestamp before the first and one after each, by name.
  std::optional<vk::raii::QueryPool> timestamps;
  std::vector<std::string_view> kernels;

  void begin_timing();
  void timed(const void* pipeline);  // the kernel just recorded
  void collect_times() const;        // once it has run
};

}  // namespace flyball::vulkan
