// Predicts the memory that an engine will hold, from the model file's directory: nothing is loaded and no
// device opened.
#pragma once

#include "backends/local/local_backend.hpp"
#include "backends/memory_need.hpp"
#include "backends/model/model_file.hpp"

namespace flyball::local {

// own_memory: a GPU engine's device has memory apart from the machine's. Of a mixture on the CPU without
// `expert_bytes`, as many experts as expert_bytes_limit gives.
// Within 5 % of what the engine then reports (tests/backends/local/predict_test.cpp holds every family to far
// less). unsupported_value, invalid_value: the options name what no engine or not this model has.
Result<MemoryNeed> predict_memory(const model::ModelFile& model, const LocalBackendOptions& options,
                                  bool own_memory = false);

}  // namespace flyball::local
