// The options of a command that loads a model as the daemon tells it to: worker::engine_words, read again.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/App.hpp>

#include "backends/local/local_backend.hpp"

namespace flyball::cli {

struct EngineOptions {
  std::string path, sha256, cache_dir, kv_spill_dir, memory = "machine";
  std::int32_t nice = 0;  // of the process
  local::LocalBackendOptions backend;
};
// `options` outlives the parse.
void add_engine_options(CLI::App& command, EngineOptions& options);
local::LocalBackendOptions settled(const EngineOptions& options);

}  // namespace flyball::cli
