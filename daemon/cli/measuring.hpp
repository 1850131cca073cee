// One model on one engine of this machine, or what the engine's devices can do, measured in a process of its
// own
// (`flyball measure`): a driver that crashes ends that alone, and it can be given up at any time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/measure/figures.hpp"
#include "daemon/measure/subject.hpp"

namespace flyball::cli {

struct Measuring {
  std::filesystem::path config;  // "": the shipped one
  std::string model;             // id in it; "": the engine's devices alone
  std::string kv_type;           // of the model, whatever the configuration says
  measure::Engine engine;        // vulkan or opencl where there is no model
  bool quick = false;            // fewer lengths and streams, each once
  // Bytes that it may take of the memory that its model lies in; 0: as many as it finds.
  std::uint64_t room = 0;
  bool own_memory = false;  // that is its devices' own
};

// Blocks. What the engine refused with; model_unavailable: its process ended or took longer than an hour, or
// the model's file or settings are others than `subject` says; cancelled: `stop` was asked for, and the
// process is gone.
Result<std::vector<measure::Figure>> measure_in_child(const Measuring& measuring,
                                                      const measure::Subject& subject,
                                                      const std::stop_token& stop = {});

}  // namespace flyball::cli
