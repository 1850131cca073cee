// `opencl_fault_engine engine --backend opencl ...`: the real worker, but from some call on the OpenCL driver fails,
// of several devices the last one's.
// FLYBALL_TEST_FAIL in the environment: "enqueue:700" is the 700th enqueue since the process's start; allocate,
// build, wait likewise. Other engines are the real ones.
#include <CL/cl.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "backends/worker/server.hpp"

int main(int argc, char** argv) {
  flyball::engine::LocalBackendOptions options;
  int fd = -1;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--fd") fd = std::atoi(value.c_str());
    if (name == "--model") options.path = value;
    if (name == "--model-id") options.model_id = value;
    if (name == "--backend") options.backend = value;
    if (name == "--device-id") {
      if (!options.opencl[0].id.empty()) options.opencl.emplace_back();
      options.opencl.back().id = value;
    }
    if (name == "--context") options.context = static_cast<std::uint32_t>(std::stoul(value));
    if (name == "--cache-dir") options.cache_dir = value;
  }
  using flyball::opencl::Call;
  const char* given = std::getenv("FLYBALL_TEST_FAIL");
  const std::string at = given != nullptr ? given : "";
  const std::size_t colon = at.find(':');
  if (colon != std::string::npos) {
    const std::string name = at.substr(0, colon);
    const Call kind = name == "allocate" ? Call::allocate
                      : name == "build"  ? Call::build
                      : name == "wait"   ? Call::wait
                                         : Call::enqueue;
    const auto left = std::make_shared<std::atomic<long>>(std::stol(at.substr(colon + 1)));
    options.opencl.back().interceptor = [left, kind](Call call) {
      return call == kind && --*left <= 0 ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
    };
  }
  std::_Exit(flyball::worker::serve_worker(fd, options));
}
