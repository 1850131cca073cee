// `opencl_fault_engine engine --backend opencl ...`: the real worker, but the OpenCL driver fails at an enqueue of
// some step. FLYBALL_TEST_FAIL_AT in the environment: the enqueue, counted from the process's start. Other engines
// are the real ones.
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
    if (name == "--device") options.opencl.name = value;
    if (name == "--context") options.context = static_cast<std::uint32_t>(std::stoul(value));
    if (name == "--cache-dir") options.cache_dir = value;
  }
  const char* at = std::getenv("FLYBALL_TEST_FAIL_AT");
  auto left = std::make_shared<std::atomic<long>>(at != nullptr ? std::atol(at) : 0);
  options.opencl.interceptor = [left](flyball::opencl::Call call) {
    return call == flyball::opencl::Call::enqueue && --*left == 0 ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
  };
  std::_Exit(flyball::worker::serve_worker(fd, options));
}
