// A model opened on one of the engines' devices, ready for steps: what the backend's thread drives, and what
// `flyball profile` drives step by step.
#pragma once

#include <memory>

#include "backends/device/executor.hpp"
#include "backends/graph/decoder.hpp"
#include "backends/local/local_backend.hpp"
#include "backends/model/model_file.hpp"

namespace flyball::local {

struct LocalExecutor {
  std::shared_ptr<const model::ModelFile> model;  // outlives the executor
  std::unique_ptr<device::Executor> executor;     // its KV cache reserved
  graph::KvLayout layout;
  std::uint32_t context = 0;  // tokens that one sequence may hold
  std::uint32_t kv_blocks = 0, step_tokens = 0, logit_rows = 0;
};

// Ready to serve sequences of the options' context. unsupported_value, invalid_value: the options name what
// no engine or not this model has. Fails as the opening of the file does.
Result<std::shared_ptr<const model::ModelFile>> open_local_model(const LocalBackendOptions& options);
// Precondition: open_local_model returned `model` for the options' backend. Fails as the opening of the
// device does; insufficient_memory.
Result<LocalExecutor> open_local_executor(const LocalBackendOptions& options,
                                          std::shared_ptr<const model::ModelFile> model);

}  // namespace flyball::local
