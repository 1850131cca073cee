// Asks every OpenCL platform for its devices and makes each of them build and run a small kernel.
#pragma once

#include <string>

#include "backends/device_report.hpp"

namespace flyball::opencl {

// Loads libOpenCL.so.1 at run time. Drivers may crash or hang in here: only for a child process
// (`flyball probe --child opencl`, daemon/probe/probe). GPUs first. Gives why nothing could be asked, "" if
// it could.
std::string probe_devices(const ProbeRun& run);

}  // namespace flyball::opencl
