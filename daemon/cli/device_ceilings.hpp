// What the devices of a GPU engine can do at best, measured in this process: what predictions go by until a
// model was measured on them.
#pragma once

#include "backends/local/local_backend.hpp"
#include "daemon/measure/roofline.hpp"

namespace flyball::cli {

// Of the devices that these options name. Some 0.3 s a device, and 256 MiB of its memory. model_unavailable,
// model_unsupported, insufficient_memory, device_lost. Precondition: the backend is a kind with devices.
Result<measure::Ceilings> measure_ceilings(const local::LocalBackendOptions& options);

}  // namespace flyball::cli
