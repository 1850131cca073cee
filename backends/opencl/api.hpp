// libOpenCL.so.1, the loader that finds the drivers, opened at run time: a machine without it runs the other
// engines, and the daemon links no driver.
#pragma once

#include <memory>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "config/error.hpp"

namespace flyball::opencl {

#define FLYBALL_OPENCL_CALLS(X)         \
  X(clGetPlatformIDs)                   \
  X(clGetPlatformInfo)                  \
  X(clGetDeviceIDs)                     \
  X(clGetDeviceInfo)                    \
  X(clCreateContext)                    \
  X(clReleaseContext)                   \
  X(clCreateCommandQueueWithProperties) \
  X(clReleaseCommandQueue)              \
  X(clCreateBuffer)                     \
  X(clReleaseMemObject)                 \
  X(clCreateProgramWithSource)          \
  X(clCreateProgramWithBinary)          \
  X(clBuildProgram)                     \
  X(clGetProgramBuildInfo)              \
  X(clGetProgramInfo)                   \
  X(clReleaseProgram)                   \
  X(clCreateKernel)                     \
  X(clReleaseKernel)                    \
  X(clGetKernelWorkGroupInfo)           \
  X(clSetKernelArg)                     \
  X(clEnqueueNDRangeKernel)             \
  X(clEnqueueReadBuffer)                \
  X(clEnqueueWriteBuffer)               \
  X(clEnqueueCopyBuffer)                \
  X(clEnqueueFillBuffer)                \
  X(clEnqueueMapBuffer)                 \
  X(clEnqueueUnmapMemObject)            \
  X(clEnqueueMarkerWithWaitList)        \
  X(clSetEventCallback)                 \
  X(clGetEventInfo)                     \
  X(clWaitForEvents)                    \
  X(clGetEventProfilingInfo)            \
  X(clReleaseEvent)                     \
  X(clFlush)                            \
  X(clFinish)

struct Api {
#define FLYBALL_OPENCL_MEMBER(name) decltype(&::name) name = nullptr;
  FLYBALL_OPENCL_CALLS(FLYBALL_OPENCL_MEMBER)
#undef FLYBALL_OPENCL_MEMBER
};

// model_unavailable: no loader, or one without OpenCL 2.0's calls. The library stays loaded until the process
// ends: drivers do not survive being unloaded.
Result<std::shared_ptr<const Api>> load_api();

}  // namespace flyball::opencl
