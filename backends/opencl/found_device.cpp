#include "backends/opencl/found_device.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "backends/device/choice.hpp"

namespace flyball::opencl {
namespace {

constexpr cl_device_info kUuid = 0x106A;        // CL_DEVICE_UUID_KHR of cl_khr_device_uuid: 16 bytes
constexpr cl_device_info kPciBusInfo = 0x410F;  // CL_DEVICE_PCI_BUS_INFO_KHR of cl_khr_pci_bus_info

std::string text_of(const Api& api, cl_device_id device, cl_device_info what) {
  std::size_t n = 0;
  if (api.clGetDeviceInfo(device, what, 0, nullptr, &n) != CL_SUCCESS) return {};
  std::string out(n, '\0');
  if (api.clGetDeviceInfo(device, what, n, out.data(), nullptr) != CL_SUCCESS) return {};
  while (!out.empty() && out.back() == '\0') out.pop_back();
  return out;
}

// 0 where the driver does not know the question.
template <class T>
T number_of(const Api& api, cl_device_id device, cl_device_info what) {
  T value{};
  return api.clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
}

std::string uuid_of(const Api& api, cl_device_id device, const std::string& extensions) {
  if (extensions.find("cl_khr_device_uuid") == std::string::npos) return {};
  std::array<std::uint8_t, 16> bytes{};
  if (api.clGetDeviceInfo(device, kUuid, bytes.size(), bytes.data(), nullptr) != CL_SUCCESS) return {};
  return hex(bytes);
}

std::string pci_of(const Api& api, cl_device_id device, const std::string& extensions) {
  if (extensions.find("cl_khr_pci_bus_info") == std::string::npos) return {};
  std::array<cl_uint, 4> at{};  // domain, bus, device, function
  if (api.clGetDeviceInfo(device, kPciBusInfo, sizeof at, at.data(), nullptr) != CL_SUCCESS) return {};
  return pci_address(at[0], at[1], at[2], at[3]);
}

DeviceFacts facts_of(const Api& api, cl_platform_id platform, cl_device_id device) {
  DeviceFacts f;
  std::size_t n = 0;
  if (api.clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, nullptr, &n) == CL_SUCCESS && n > 0) {
    f.platform.resize(n);
    api.clGetPlatformInfo(platform, CL_PLATFORM_NAME, n, f.platform.data(), nullptr);
    f.platform.resize(n - 1);
  }
  f.name = text_of(api, device, CL_DEVICE_NAME);
  f.driver = text_of(api, device, CL_DEVICE_VERSION) + ", " + text_of(api, device, CL_DRIVER_VERSION);
  f.vendor = vendor_name(number_of<cl_uint>(api, device, CL_DEVICE_VENDOR_ID));
  const std::string extensions = text_of(api, device, CL_DEVICE_EXTENSIONS);
  f.fp16 = extensions.find("cl_khr_fp16") != std::string::npos;
  f.subgroups = extensions.find("cl_khr_subgroup") != std::string::npos;
  f.integer_dot = extensions.find("cl_khr_integer_dot_product") != std::string::npos;
  f.processor = (number_of<cl_device_type>(api, device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) == 0;
  f.unified = number_of<cl_bool>(api, device, CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE;
  f.kind = f.processor ? "software" : f.unified ? "integrated" : "discrete";
  f.compute_units = std::max<cl_uint>(1, number_of<cl_uint>(api, device, CL_DEVICE_MAX_COMPUTE_UNITS));
  f.max_work_group =
      static_cast<std::uint32_t>(number_of<std::size_t>(api, device, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  f.vector_floats =
      std::max<cl_uint>(1, number_of<cl_uint>(api, device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT));
  f.memory_bytes = number_of<cl_ulong>(api, device, CL_DEVICE_GLOBAL_MEM_SIZE);
  f.max_allocation_bytes = number_of<cl_ulong>(api, device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  f.local_bytes = number_of<cl_ulong>(api, device, CL_DEVICE_LOCAL_MEM_SIZE);
  f.base_alignment = std::max(8U, number_of<cl_uint>(api, device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8);
  f.uuid = uuid_of(api, device, extensions);
  f.pci = pci_of(api, device, extensions);
  return f;
}

}  // namespace

std::vector<FoundDevice> find_devices(const Api& api) {
  cl_uint n = 0;
  if (api.clGetPlatformIDs(0, nullptr, &n) != CL_SUCCESS) n = 0;  // the loader's answer where no driver is
  std::vector<cl_platform_id> platforms(n);
  if (n > 0 && api.clGetPlatformIDs(n, platforms.data(), nullptr) != CL_SUCCESS) platforms.clear();
  std::vector<FoundDevice> found;
  for (const cl_platform_id platform : platforms) {
    cl_uint n_devices = 0;
    if (api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &n_devices) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(n_devices);
    if (n_devices > 0 &&
        api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n_devices, ids.data(), nullptr) != CL_SUCCESS)
      continue;
    for (const cl_device_id id : ids) {
      FoundDevice device{platform, id, facts_of(api, platform, id)};
      DeviceFacts& f = device.facts;
      const auto same = std::ranges::count_if(found, [&](const FoundDevice& other) {
        return other.facts.platform == f.platform && other.facts.name == f.name;
      });
      f.id = device_id(f.name, same, f.platform) + (f.uuid.empty() ? "" : " ") + f.uuid;
      found.push_back(std::move(device));
    }
  }
  return found;
}

Result<std::vector<FoundDevice>> choose_found(std::span<const FoundDevice> devices,
                                              std::span<const DeviceOptions> options) {
  std::vector<device::Candidate> candidates;
  std::string seen;
  for (const auto& [platform, device, f] : devices) {
    candidates.push_back({&f});
    seen += (seen.empty() ? "; there is: " : ", ") + f.id;
  }
  std::vector<FoundDevice> chosen;
  for (const DeviceOptions& o : options) {
    const auto i = o.id.empty() ? device::choose_device(candidates, o.name, o.allow_processor)
                                : device::device_of_id(candidates, o.id);
    if (!i)
      return fail(ErrorCode::model_unavailable,
                  (!o.id.empty()    ? "The OpenCL device " + o.id + " is gone"
                   : o.name.empty() ? "No OpenCL GPU was found"
                                    : "No OpenCL device is called '" + o.name + "'") +
                      (chosen.empty() ? "" : ", beside those already taken") + seen +
                      (o.id.empty() && o.name.empty() && chosen.size() < candidates.size()
                           ? "; what is no GPU is taken where it is named"
                           : "") +
                      ".",
                  "device");
    candidates[*i].usable = false;
    chosen.push_back(devices[*i]);
  }
  return chosen;
}

}  // namespace flyball::opencl
