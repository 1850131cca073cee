// What the Vulkan engine will hold of a model.
#pragma once

#include "backends/graph/footprint.hpp"
#include "backends/model/model_file.hpp"

namespace flyball::vulkan {

// The file's own bytes, once each: read in its pages or copied, they are as many.
graph::MemoryPlan footprint(const model::ModelFile& model, const graph::FootprintShape& shape) noexcept;

}  // namespace flyball::vulkan
