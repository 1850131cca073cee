#include "backends/opencl/api.hpp"

#include <dlfcn.h>

#include <string>

namespace flyball::opencl {

Result<std::shared_ptr<const Api>> load_api() {
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(ErrorCode::model_unavailable, "This machine has no OpenCL loader (libOpenCL.so.1).",
                "backend");
  auto api = std::make_shared<Api>();
#define FLYBALL_OPENCL_LOAD(name)                                                                          \
  api->name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));                                  \
  if (api->name == nullptr)                                                                                \
    return fail(ErrorCode::model_unavailable, "The OpenCL loader has no " #name "; OpenCL 2.0 is needed.", \
                "backend");
  FLYBALL_OPENCL_CALLS(FLYBALL_OPENCL_LOAD)
#undef FLYBALL_OPENCL_LOAD
  return api;
}

}  // namespace flyball::opencl
