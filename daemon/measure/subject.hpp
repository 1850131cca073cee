// The keys of measurements: which model file, which device with which driver.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/probe.hpp"
#include "backends/device_report.hpp"
#include "config/config.hpp"
#include "daemon/measure/figures.hpp"

namespace flyball::measure {

// An engine as the probe found it: Subject without what is the model's.
struct Engine {
  std::string backend, device, driver;
};
Engine processor(const cpu::CpuReport& cpu);
// Of the devices of these ids, which the engine spreads a model over; nullopt: there are none.
std::optional<Engine> gpu_engine(const std::string& backend, const DeviceProbe& probe,
                                 std::span<const std::string> ids);

// SHA-256 in hex over a file's size, time of change, first MiB and samples of the rest; of a directory over
// those of its files, by name. Another one for a file that was written over. "": it cannot be read.
std::string model_digest(const std::filesystem::path& path);
// Of an entry of config.yaml: the file's, or the embedded demo model's of this program.
std::string model_digest(const config::ModelEntry& model);

Subject subject_of(const Engine& engine, const std::string& digest, const config::ModelEntry& model);

}  // namespace flyball::measure
