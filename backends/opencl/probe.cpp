#include "backends/opencl/probe.hpp"

#include <dlfcn.h>

#include <array>
#include <string_view>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "embedded/opencl_probe.hpp"

namespace flyball::opencl {
namespace {

struct Failed {  // one call that did not succeed; caught once a device
  std::string what;
};

void must(cl_int result, const char* call) {
  if (result != CL_SUCCESS) throw Failed{std::string(call) + " gave error " + std::to_string(result)};
}

template <class F>
F load(void* library, const char* name) {
  const auto f = reinterpret_cast<F>(dlsym(library, name));
  if (!f) throw Failed{std::string("libOpenCL.so.1 has no ") + name};
  return f;
}
#define LOAD(name) const auto name = load<decltype(&::name)>(library_, #name)

class Probe {
 public:
  explicit Probe(void* library) : library_(library) {}

  std::vector<DeviceReport> devices() {
    LOAD(clGetPlatformIDs);
    LOAD(clGetDeviceIDs);
    cl_uint n = 0;
    if (clGetPlatformIDs(0, nullptr, &n) != CL_SUCCESS)
      n = 0;  // the loader's answer where no driver is installed
    std::vector<cl_platform_id> platforms(n);
    if (n > 0) must(clGetPlatformIDs(n, platforms.data(), nullptr), "clGetPlatformIDs");
    std::vector<DeviceReport> out;
    for (const cl_platform_id platform : platforms) {
      cl_uint n_devices = 0;
      if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &n_devices) != CL_SUCCESS) continue;
      std::vector<cl_device_id> ids(n_devices);
      if (n_devices > 0)
        must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n_devices, ids.data(), nullptr), "clGetDeviceIDs");
      for (const cl_device_id device : ids) {
        DeviceReport report;
        try {
          report = describe(device);
          dispatch(platform, device);
          report.dispatched = true;
        } catch (const Failed& failed) {
          report.error = failed.what;
        }
        out.push_back(std::move(report));
      }
    }
    return out;
  }

 private:
  std::string text(cl_device_id device, cl_device_info what) {
    LOAD(clGetDeviceInfo);
    std::size_t n = 0;
    must(clGetDeviceInfo(device, what, 0, nullptr, &n), "clGetDeviceInfo");
    std::string out(n, '\0');
    must(clGetDeviceInfo(device, what, n, out.data(), nullptr), "clGetDeviceInfo");
    while (!out.empty() && out.back() == '\0') out.pop_back();
    return out;
  }

  template <class T>
  T number(cl_device_id device, cl_device_info what) {
    LOAD(clGetDeviceInfo);
    T value{};
    must(clGetDeviceInfo(device, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
    return value;
  }

  DeviceReport describe(cl_device_id device) {
    DeviceReport report;
    report.name = text(device, CL_DEVICE_NAME);
    report.driver = text(device, CL_DEVICE_VERSION) + ", " + text(device, CL_DRIVER_VERSION);
    report.vendor = vendor_name(number<cl_uint>(device, CL_DEVICE_VENDOR_ID));
    report.memory_bytes = number<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
    report.compute_units = number<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS);
    report.unified = number<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE;
    const auto type = number<cl_device_type>(device, CL_DEVICE_TYPE);
    report.kind = (type & CL_DEVICE_TYPE_GPU) == 0 ? "software" : report.unified ? "integrated" : "discrete";
    return report;
  }

  // What is made here is left to the end of the process, as in backends/vulkan/probe.cpp.
  void dispatch(cl_platform_id platform, cl_device_id device) {
    LOAD(clCreateContext);
    LOAD(clCreateCommandQueue);
    LOAD(clCreateProgramWithSource);
    LOAD(clBuildProgram);
    LOAD(clCreateKernel);
    LOAD(clCreateBuffer);
    LOAD(clSetKernelArg);
    LOAD(clEnqueueNDRangeKernel);
    LOAD(clEnqueueReadBuffer);
    const std::array<cl_context_properties, 3> properties{
        CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform), 0};
    cl_int status = CL_SUCCESS;
    const cl_context context = clCreateContext(properties.data(), 1, &device, nullptr, nullptr, &status);
    must(status, "clCreateContext");
    const cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    must(status, "clCreateCommandQueue");
    const auto code = embedded::opencl_probe();
    const char* source = reinterpret_cast<const char*>(code.data());
    const std::size_t length = code.size();
    const cl_program program = clCreateProgramWithSource(context, 1, &source, &length, &status);
    must(status, "clCreateProgramWithSource");
    must(clBuildProgram(program, 1, &device, "", nullptr, nullptr), "clBuildProgram");
    const cl_kernel kernel = clCreateKernel(program, "probe", &status);
    must(status, "clCreateKernel");
    std::vector<cl_uint> data(kProbeElements);
    for (cl_uint i = 0; i < kProbeElements; ++i) data[i] = ~i;
    const cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                         data.size() * sizeof(cl_uint), data.data(), &status);
    must(status, "clCreateBuffer");
    must(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "clSetKernelArg");
    const cl_uint n = kProbeElements;
    must(clSetKernelArg(kernel, 1, sizeof n, &n), "clSetKernelArg");
    const std::size_t global = kProbeElements;
    must(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr),
         "clEnqueueNDRangeKernel");
    must(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, data.size() * sizeof(cl_uint), data.data(), 0,
                             nullptr, nullptr),
         "clEnqueueReadBuffer");
    for (cl_uint i = 0; i < kProbeElements; ++i)
      if (data[i] != ~i + i * kProbeFactor)
        throw Failed{"the kernel's answer is wrong at element " + std::to_string(i)};
  }

  void* library_;
};

}  // namespace

DeviceProbe probe_devices() {
  DeviceProbe out;
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    out.error = "no OpenCL loader (libOpenCL.so.1) on this machine";
    return out;
  }
  try {
    out.devices = Probe(library).devices();
    if (out.devices.empty()) out.error = "no OpenCL device";
  } catch (const Failed& failed) {
    out.error = failed.what;
  }
  return out;
}

}  // namespace flyball::opencl
