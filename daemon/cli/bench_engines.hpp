// The same machine and model, only the engine changes: `flyball bench --backends`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/local/local_backend.hpp"
#include "daemon/cli/bench_runs.hpp"

namespace flyball::cli {

struct EnginesBench {
  local::LocalBackendOptions engine;   // its backend is set to each of `backends`
  std::vector<std::string> backends;   // in this order
  std::vector<std::uint32_t> streams;  // each engine at each of them
  std::uint32_t prompt_tokens = 512, generate = 128, repeat = 3;
  std::filesystem::path svg;  // "": none
  bool json = false;
};

// Prints, draws, and returns the exit code. An engine that does not start here is said and left out; where
// none starts, that is the outcome. A device is the best there is, a software device where there is no other.
int bench_engines(EnginesBench bench);

}  // namespace flyball::cli
