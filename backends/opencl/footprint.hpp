// What the OpenCL engine will hold of a model.
#pragma once

#include "backends/graph/footprint.hpp"
#include "backends/model/model_file.hpp"

namespace flyball::opencl {

// On one device. A split over several holds as much, but for the activations, which each of them has.
graph::MemoryPlan footprint(const model::ModelFile& model, const graph::FootprintShape& shape) noexcept;

}  // namespace flyball::opencl
