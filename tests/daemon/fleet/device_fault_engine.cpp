// `device_fault_engine engine --backend opencl ...`: the real worker, but from some call on the GPU's driver
// fails, of several devices the last one's. XDG_FLYBALL_TEST_FAIL in the environment: "wait:20" is the 20th wait
// since the process's start; other calls as below. Engines without a GPU are the real ones.
#include <CL/cl.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "backends/worker/server.hpp"

namespace {

using flyball::opencl::DeviceOptions;
using VulkanOptions = flyball::vulkan::DeviceOptions;
using OpenClCall = flyball::opencl::Call;
using VulkanCall = flyball::vulkan::Call;

constexpr int kTimeout = 2, kLost = -4, kOutOfMemory = -2, kInvalidShader = -1000012000;  // VkResult

struct Failure {
  const char* name;
  OpenClCall opencl;
  VulkanCall vulkan;
  int vulkan_code;
};
constexpr Failure kFailures[] = {
    {"allocate", OpenClCall::allocate, VulkanCall::allocate, kOutOfMemory},
    {"build", OpenClCall::build, VulkanCall::build, kInvalidShader},
    {"enqueue", OpenClCall::enqueue, VulkanCall::submit, kLost},
    {"submit", OpenClCall::enqueue, VulkanCall::submit, kLost},
    {"wait", OpenClCall::wait, VulkanCall::wait, kLost},
    {"hang", OpenClCall::answer, VulkanCall::wait, kTimeout},  // and it never comes to rest
};

void fail_at(const std::string& at, DeviceOptions& opencl, VulkanOptions& vulkan) {
  const std::size_t colon = at.find(':');
  for (const Failure& f : kFailures) {
    if (at.substr(0, colon) != f.name) continue;
    const auto left = std::make_shared<std::atomic<long>>(std::stol(at.substr(colon + 1)));
    opencl.interceptor = [left, f](OpenClCall call) {
      return call == f.opencl && --*left <= 0 ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
    };
    vulkan.interceptor = [left, f](VulkanCall call) {
      if (call == VulkanCall::settle) return f.vulkan_code == kTimeout ? kTimeout : 0;
      return call == f.vulkan && --*left <= 0 ? f.vulkan_code : 0;
    };
  }
}

}  // namespace

int main(int argc, char** argv) {
  flyball::local::LocalBackendOptions options;
  int fd = -1;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--fd") fd = std::atoi(value.c_str());
    if (name == "--model") options.path = value;
    if (name == "--model-id") options.model_id = value;
    if (name == "--backend") options.backend = value;
    if (name == "--device-id") {
      if (!options.opencl[0].id.empty()) options.opencl.emplace_back();
      options.opencl.back().id = options.vulkan.id = value;
    }
    if (name == "--context") options.context = static_cast<std::uint32_t>(std::stoul(value));
    if (name == "--cache-dir") options.cache_dir = value;
  }
  if (const char* at = std::getenv("XDG_FLYBALL_TEST_FAIL"); at != nullptr)
    fail_at(at, options.opencl.back(), options.vulkan);
  std::_Exit(flyball::worker::serve_worker(fd, options));
}
