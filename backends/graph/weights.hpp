// The file's weight that a WeightRef of the vocabulary names.
#pragma once

#include "backends/graph/ops.hpp"
#include "backends/model/model_file.hpp"

namespace flyball::graph {

// Its data is null where the model has none of that role. Precondition: the layer exists; of what stands
// outside the layers it is 0.
const model::Weight& weight_of(const model::ModelWeights& weights, WeightRef ref) noexcept;

}  // namespace flyball::graph
